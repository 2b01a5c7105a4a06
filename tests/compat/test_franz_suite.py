"""franz-go's own test suite, unmodified, against one broker of ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.clients.cluster import KINDS, Cluster
from tests.peers.builds import GO_ENVIRONMENT

HERE = Path(__file__).parent
MODULE = HERE / "clients" / "go"
SUITE = "github.com/twmb/franz-go/pkg/kgo"

REASONS = {"groups", "transactions", "share groups", "SCRAM"}
OLD_BROKERS = "TestIssueProduceBrokerTooOldFailsRecords"
"""Is about brokers that do not name Produce below version 3, as we do for the sake of librdkafka; leaves itself out."""


def cannot_apply() -> dict[str, str]:
    lines = (HERE / "franz-go.cannot-apply").read_text().splitlines()
    pairs = (line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] for pair in pairs}


def go(*words: str, seeds: str = "") -> str:
    environment = {**os.environ, **GO_ENVIRONMENT, "KGO_SEEDS": seeds, "KGO_TEST_RF": "1"}
    done = subprocess.run(
        ["go", *words], cwd=MODULE, env=environment, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.card("its own suite", client="franz-go")
def test_the_suite_passes(clusters: Callable[[str], Cluster], record_property: Callable[[str, object], None]) -> None:
    version = go("list", "-m", "-f", "{{.Version}}", "github.com/twmb/franz-go").strip()
    record_property("version", version.removeprefix("v"))
    left_out = "|".join(cannot_apply())
    said = go("test", "-json", "-count=1", SUITE, "-skip", f"^({left_out})$", seeds=clusters(KINDS[0]).bootstrap)
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    ended = {
        event["Test"]: event["Action"]
        for event in events
        if event["Action"] in ("pass", "fail", "skip") and "Test" in event
    }
    failed = [name for name, how in ended.items() if how == "fail"]
    told = "".join(event.get("Output", "") for event in events if event.get("Test") in failed)
    assert not failed, f"{failed}\n{told[-5000:]}"
    assert [name for name, how in ended.items() if how == "skip"] == [OLD_BROKERS]
    assert sum("/" not in name for name in ended) >= 130, f"only {len(ended)} tests ran"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_is_left_out_is_in_the_suite_and_has_a_reason() -> None:
    listed = cannot_apply()
    assert set(listed.values()) <= REASONS
    there = re.findall(r"^Test\w+$", go("test", "-list", ".", SUITE), re.MULTILINE)
    assert set(listed) <= set(there)
