"""A cluster that does not run, as its files know it: which topics there are, and which offsets.

It answers what a live ``Cluster`` answers before anything is read (``Catalog``), so whoever plans a read need not know which it is.
Replication is over when brokers are stopped: of several copies of a partition, the one that reaches furthest counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from ottla.scan.cluster import EARLIEST, LATEST, NO_OFFSET, TopicPartition
from ottla.scan.columns import Filter
from ottla.scan.decoding import Source, decode
from ottla.scan.files import LogFiles, PartitionLog

INTERNAL = frozenset(("__consumer_offsets", "__transaction_state"))
_OFFSET = frozenset(("offset",))


class StoppedCluster:
    """The log directories of some brokers."""

    def __init__(self, files: LogFiles) -> None:
        self.files = files

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is kept open."""

    def topics(self) -> dict[str, list[int]]:
        return self.partitions(topic for topic in self.files.topics() if topic not in INTERNAL)

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        wanted = set(topics)
        found: dict[str, list[int]] = {}
        for place in sorted(self.files.logs):
            if place.topic in wanted:
                found.setdefault(place.topic, []).append(place.partition)
        return found

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        return {place: _offset(self.files.log(place), asked, read_committed) for place, asked in wanted.items()}


def _offset(log: PartitionLog, asked: int, read_committed: bool) -> int:
    if asked == EARLIEST:
        return log.start
    if asked == LATEST:
        return log.last_stable_offset() if read_committed else log.end
    return _first_at(log, asked)


def _first_at(log: PartitionLog, timestamp_ms: int) -> int:
    """The first record that is as late. The time index says about where, the records say exactly."""
    passing = Filter(first_offset=log.start, end_offset=log.end, timestamp_from=timestamp_ms)
    for run in log.runs(log.offset_of(timestamp_ms), log.end):
        for found in decode(run, Source(*log.place), _OFFSET, passing):
            return int(found.arrays["offset"][0].as_py())
    return NO_OFFSET
