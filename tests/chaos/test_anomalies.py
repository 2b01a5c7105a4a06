"""Histories of things that cannot be, each found by the class that it belongs to and by no other."""

from __future__ import annotations

import pytest

from tests.chaos.anomalies import NOWHERE, Event, anomalies

TWO = {0: [(0, "w 0"), (1, "w 1")]}


def acked(offset: int, text: str, *, floor: int = -1) -> Event:
    return Event(0, "acked", text.split(maxsplit=1)[0], 0, offset, text, floor)


def polled(offset: int, text: str) -> Event:
    return Event(0, "polled", "r", 0, offset, text)


def test_nothing_is_wrong_with_a_history_of_which_nothing_is_missing() -> None:
    events = [acked(0, "w 0"), polled(0, "w 0"), acked(1, "w 1", floor=0), polled(1, "w 1")]
    assert anomalies(events, TWO) == []


def test_what_was_never_acknowledged_may_be_there_or_not() -> None:
    assert anomalies([acked(0, "w 0")], TWO) == []


@pytest.mark.parametrize(
    ("kind", "events", "final"),
    [
        ("inconsistent-offsets", [polled(0, "w 0"), polled(1, "x 1")], TWO),
        ("duplicate", [], {0: [(0, "w 0"), (1, "w 0")]}),
        ("lost-write", [acked(1, "w 1")], {0: [(0, "w 0"), (2, "w 2")]}),
        ("unseen", [acked(2, "w 2")], TWO),
        ("lost-write", [acked(NOWHERE, "w 2")], TWO),
        ("aborted-read", [Event(0, "failed", "w", 0, text="w 1")], TWO),
        ("nonmonotonic-poll", [polled(0, "w 0"), polled(1, "w 1"), polled(0, "w 0")], TWO),
        ("poll-skip", [polled(1, "w 1")], TWO),
        ("nonmonotonic-send", [acked(0, "w 1"), acked(1, "w 0")], {0: [(0, "w 1"), (1, "w 0")]}),
        ("stale-append", [acked(0, "w 0", floor=0)], TWO),
        ("refused", [Event(0, "refused", "w", text="for no reason")], TWO),
    ],
)
def test_an_anomaly_is_found(kind: str, events: list[Event], final: dict[int, list[tuple[int, str]]]) -> None:
    assert {anomaly.kind for anomaly in anomalies(events, final)} == {kind}
