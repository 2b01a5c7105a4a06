"""Kafka's own message classes write the same bytes, from the same values by name, and read them to the end.

The classes of 3.9.1 judge everything they know, those of 4.3.1 the versions and APIs that were added from there.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ottla import wire
from tests.messages import Samples, all_versions, as_json
from tests.peers.builds import java_classes

SOURCE = Path(__file__).parent / "java" / "Messages.java"
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m")
RENAMED = {
    # What 3.9 calls so is version 0 of a later API; its one array has another name there.
    "ListConfigResourcesRequest": "ListClientMetricsResourcesRequest",
    "ListConfigResourcesResponse": "ListClientMetricsResourcesResponse",
}

CHANGED = {
    # Messages of servers among themselves, whose versions 4.3 changed under the same number or gave other names; ours
    # are those of 3.9.
    "ReadShareGroupStateSummaryResponse",
    "VoteRequest",
}


def _questions(seeds: range, *, is_3_9: bool) -> Iterator[tuple[str, str]]:
    for name, version in all_versions():
        for seed in seeds:
            message = Samples(Random(seed)).message(name, version)
            there = RENAMED.get(name, name) if is_3_9 else name
            values = "-" if there != name else json.dumps(as_json(message, name, version))
            yield f"{name} v{version}", f"{there} {version} {wire.encode(message, version).hex()} {values}"


def _answers(libraries: str, questions: list[str]) -> list[str]:
    command = ["java", *QUICK, "-cp", java_classes(SOURCE, libraries), "Messages"]
    done = subprocess.run(
        command, input="\n".join(questions) + "\n", capture_output=True, text=True, timeout=600, check=True
    )
    return done.stdout.splitlines()


def _judged(libraries: str, seeds: range, *, is_3_9: bool) -> dict[str, set[str]]:
    """For every answer that was given the messages it was given to."""
    titles, questions = zip(*_questions(seeds, is_3_9=is_3_9), strict=True)
    found: dict[str, set[str]] = {}
    for title, answer in zip(titles, _answers(libraries, list(questions)), strict=True):
        found.setdefault(answer, set()).add(title)
    return found


def _is_right_for_3_9(seeds: range) -> None:
    found = _judged("kafka-3.9.1", seeds, is_3_9=True)
    right, absent = found.pop("ok"), found.pop("absent")
    assert not found
    assert len(right) == 700
    assert not right & absent


def test_the_classes_of_3_9_1_write_the_same_bytes() -> None:
    _is_right_for_3_9(range(2))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_classes_of_3_9_1_write_the_same_bytes_for_many_values() -> None:
    _is_right_for_3_9(range(60))


def test_the_classes_of_4_3_1_write_the_same_bytes_where_those_of_3_9_1_have_none() -> None:
    later = _judged("kafka-clients-4.3.1", range(4), is_3_9=False)
    missing = _judged("kafka-3.9.1", range(1), is_3_9=True)["absent"]
    assert missing <= later["ok"]
    wrong = set().union(*(titles for answer, titles in later.items() if answer not in ("ok", "absent")))
    assert {title.split()[0] for title in wrong} <= CHANGED
