"""Tables of Parquet files whose writer says, in one file that changes at once, which of them count.

    DIR/manifest.json            {"version": 1, "tables": {"pages": [{"path": "pages/...", "hour": "2024-02-29T12"}, ...]}, ...}
    DIR/pages/BATCH/date=2024-02-29/hour=12/part-....parquet

Files that are not named there are of a batch that is not complete, or were replaced: whoever reads them counts twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.scan.errors import ScanError

NAME = "manifest.json"
VERSION = 1


class ManifestError(ScanError):
    """A directory whose tables cannot be read."""


def load(directory: Path) -> dict[str, Any] | None:
    """What the manifest says; None where there is none yet."""
    path = directory / NAME
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ManifestError(f"{path}: {error}") from None
    version = found.get("version") if isinstance(found, dict) else None
    if version != VERSION:
        raise ManifestError(f"{path} has version {version}, and this Ottla reads {VERSION}")
    made: dict[str, Any] = found
    return made


def tables(directory: Path) -> Mapping[str, list[Path]]:
    """The files of each table that has any."""
    found = load(directory)
    if found is None:
        raise ManifestError(f"there is no {NAME} in {directory}: has a pipeline run there?")
    return {
        name: [directory / one["path"] for one in files] for name, files in sorted(found["tables"].items()) if files
    }
