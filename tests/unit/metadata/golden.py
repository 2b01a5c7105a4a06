"""What Kafka 3.9.1 wrote: the znodes of a real cluster, and what its own classes encode (tests/compat/java/Znodes.java)."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "golden" / "kafka-3.9.1"


def captured() -> dict[str, bytes]:
    """Every znode with data of the captured cluster, also those that were there only for a moment."""
    found = json.loads((FOLDER / "znodes.json").read_text())
    data = {path: node["data"] for path, node in found["state"].items()} | found["transient"]
    return {path: text.encode() for path, text in data.items() if text}


def encoded() -> dict[str, bytes]:
    """Name of the case → what Kafka's classes write."""
    lines = (FOLDER / "encoded.tsv").read_text().splitlines()
    return {name: text.encode() for name, text in (line.split("\t", 1) for line in lines)}


def config_table(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}-configs.tsv").open(newline="") as table:
        return list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
