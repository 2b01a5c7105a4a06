"""What clients saw of a cluster, and what of it cannot be: Jepsen's classes for a log, by one pass over a history.

Producers are idempotent and ask for all replicas in sync, so that nothing at all is allowed:

    inconsistent-offsets   two records were seen at one offset, by whoever was told, read, or read in the end
    duplicate              one record is at two offsets
    lost-write             one that was acknowledged is not there, though one behind it is
    unseen                 one that was acknowledged is not there, and nothing behind it either
    aborted-read           one that was refused for good was read (G1a)
    nonmonotonic-poll      a reader was given an offset that it had, or one before
    poll-skip              a reader was not given an offset that exists
    nonmonotonic-send      a producer's later record lies before an earlier one
    stale-append           a record that was sent after another was acknowledged lies before it (L18)
    refused                a producer or a reader was told something that no fault explains

and, of the run as a whole (``clusterrun``):

    divergent-replicas     replicas do not hold the same bytes in the end (L3)
    unhealed               faults are over, and not everybody is in sync, or not all brokers know it (A3, C5)

A history is a list of events in the order in which they happened, as JSON lines on disk.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

NOWHERE = -1
"""The offset of what was refused."""


class Event(NamedTuple):
    """``f``: acked, failed, polled or note. ``floor`` is the highest offset known to be acknowledged when it was sent."""

    t_ns: int
    f: str
    proc: str
    partition: int = NOWHERE
    offset: int = NOWHERE
    text: str = ""
    floor: int = NOWHERE


class Anomaly(NamedTuple):
    kind: str
    what: str


class Records:
    """The history of one run; any thread adds to it.

    Without a lock: after a fatal error, librdkafka's binding calls back while its exception is pending, which interrupts
    ``with lock`` behind the taking of it, and nobody would ever give it back. An append is one step as it is, and of two
    that raise a floor at once the lower may stay, which only makes the check milder.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._floors: dict[int, int] = {}

    def floor(self, partition: int) -> int:
        return self._floors.get(partition, NOWHERE)

    def acked(self, proc: str, partition: int, offset: int, text: str, floor: int) -> None:
        self.events.append(Event(time.monotonic_ns(), "acked", proc, partition, offset, text, floor))
        self._floors[partition] = max(self._floors.get(partition, NOWHERE), offset)

    def happened(self, f: str, proc: str, *, partition: int = NOWHERE, offset: int = NOWHERE, text: str = "") -> None:
        self.events.append(Event(time.monotonic_ns(), f, proc, partition, offset, text))

    def write(self, path: Path) -> None:
        path.write_text("".join(json.dumps(event._asdict()) + "\n" for event in self.events))


Final = Mapping[int, Sequence[tuple[int, str]]]
"""For each partition, offset and text of everything that a client reads that knows nothing."""


def anomalies(events: Iterable[Event], final: Final) -> list[Anomaly]:
    """See the module."""
    events = list(events)
    found = [Anomaly("refused", f"{each.proc}: {each.text}") for each in events if each.f == "refused"]
    found += _inconsistent(events, final)
    found += _missing(events, final)
    found += _doubled(final)
    found += _aborted(events, final)
    found += _polls(events)
    found += _sends(events)
    return found


def _inconsistent(events: Sequence[Event], final: Final) -> list[Anomaly]:
    seen: dict[tuple[int, int], set[str]] = defaultdict(set)
    for each in events:
        if each.f in ("acked", "polled") and each.offset != NOWHERE:
            seen[each.partition, each.offset].add(each.text)
    for partition, records in final.items():
        for offset, text in records:
            seen[partition, offset].add(text)
    return [
        Anomaly("inconsistent-offsets", f"partition {partition}, offset {offset}: {sorted(texts)}")
        for (partition, offset), texts in seen.items()
        if len(texts) > 1
    ]


def _missing(events: Sequence[Event], final: Final) -> list[Anomaly]:
    there = {partition: {text for _, text in records} for partition, records in final.items()}
    ends = {partition: max((offset for offset, _ in records), default=NOWHERE) for partition, records in final.items()}
    found = []
    for each in events:
        if each.f == "acked" and each.text not in there.get(each.partition, ()):
            kind = "lost-write" if each.offset < ends.get(each.partition, NOWHERE) else "unseen"
            found.append(Anomaly(kind, f"{each.text} was acknowledged at {each.offset} of partition {each.partition}"))
    return found


def _doubled(final: Final) -> list[Anomaly]:
    found = []
    for partition, records in final.items():
        places: dict[str, list[int]] = defaultdict(list)
        for offset, text in records:
            places[text].append(offset)
        found += [
            Anomaly("duplicate", f"{text} is at {offsets} of partition {partition}")
            for text, offsets in places.items()
            if len(offsets) > 1
        ]
    return found


def _aborted(events: Sequence[Event], final: Final) -> list[Anomaly]:
    failed = {each.text for each in events if each.f == "failed"}
    read = {each.text for each in events if each.f == "polled"}
    read |= {text for records in final.values() for _, text in records}
    return [Anomaly("aborted-read", f"{text} was refused, and is there") for text in sorted(failed & read)]


def _polls(events: Sequence[Event]) -> list[Anomaly]:
    found = []
    last: dict[tuple[str, int], int] = {}
    for each in events:
        if each.f != "polled":
            continue
        before = last.get((each.proc, each.partition), NOWHERE)
        if each.offset != before + 1:
            kind = "poll-skip" if each.offset > before + 1 else "nonmonotonic-poll"
            found.append(Anomaly(kind, f"{each.proc} read {each.offset} of partition {each.partition} after {before}"))
        last[each.proc, each.partition] = each.offset
    return found


def _sends(events: Sequence[Event]) -> list[Anomaly]:
    found = []
    sent: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for each in events:
        if each.f != "acked" or each.offset == NOWHERE:
            continue
        sent[each.proc, each.partition].append((int(each.text.split()[1]), each.offset))
        if each.offset <= each.floor:
            found.append(Anomaly("stale-append", f"{each.text} is at {each.offset}, {each.floor} was there before"))
    for (proc, partition), numbers in sent.items():
        offsets = [offset for _, offset in sorted(numbers)]
        if offsets != sorted(offsets):
            found.append(Anomaly("nonmonotonic-send", f"{proc}'s records are out of order in partition {partition}"))
    return found
