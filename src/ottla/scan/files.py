"""Segment files as they lie on the disk of a broker, Ottla's or Apache Kafka's, running or stopped.

Everything below a replica's high watermark is committed, and the same in all replicas. A broker writes its high watermarks down
every few seconds and when it stops; that checkpoint is where files are read to, and a leader may be asked for the rest. So it does
not matter whether the files are a leader's or a follower's, or whether their end is torn.

A segment that is deleted or replaced by a cleaned one while it is read stays open here, and keeps what it held.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ottla.base.errors import CorruptionError
from ottla.log.batches import scan
from ottla.log.files import OpenFile, read_at
from ottla.log.inspect import PartitionFiles, find_partitions, read_partition, read_time_index
from ottla.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ottla.log.txnindex import TransactionIndex
from ottla.records.batch import MAGIC, frames
from ottla.records.errors import RecordsError
from ottla.scan.cluster import TopicPartition
from ottla.scan.decoding import Run
from ottla.scan.errors import DataLossError, ScanError, UnknownTopicError
from ottla.scan.fetching import Range

CHUNK_BYTES = 4 << 20
COUNTED_MAX = 1 << 18
"""About how many records are told of at once that only were counted: their columns take memory, too."""
_ENTRY = Struct(">ii")


class Counted(NamedTuple):
    """Records that were not looked at, up to where they end."""

    records: int
    next_offset: int


class PartitionLog:
    """The files of one partition, as far as they may be read."""

    def __init__(self, files: PartitionFiles) -> None:
        assert files.topic_partition is not None
        self.place = TopicPartition(*files.topic_partition)
        segments = files.segments
        self._bases = [int(path.stem) for path in segments]
        self._paths = segments
        first = self._bases[0] if segments else 0
        self.start = max(files.log_start_offset or 0, first)
        self.end = max(files.high_watermark or 0, self.start)

    def offset_of(self, timestamp_ms: int) -> int:
        """An offset before which no record is as late: where a search by time may begin."""
        for number, path in enumerate(self._paths):
            entries = list(read_time_index(path.with_suffix(TIME_INDEX_SUFFIX))) if _has_index(path) else []
            earlier = [entry.offset for entry in entries if entry.timestamp < timestamp_ms]
            is_last = number == len(self._paths) - 1
            if is_last or not entries or entries[-1].timestamp >= timestamp_ms:
                return max(earlier[-1] if earlier else self._bases[number], self.start)
        return self.end

    def runs(self, start: int, end: int, *, read_committed: bool = False) -> Iterator[Run]:
        """Whole batches from the one with ``start`` on, up to the one before ``end``."""
        aborted = tuple(self._aborted(start, end)) if read_committed else ()
        for path in self._segments(start, end):
            yield from self._segment(path, start, end, aborted)

    def counted(self, start: int, end: int) -> Iterator[Counted | Run]:
        """How many records there are, by headers alone; as runs, batches that have to be looked into: at the ends, and of old formats."""
        behind = start
        for path in self._segments(start, end):
            file = _opened(path)
            records = 0
            try:
                for position, header in scan(file, _position(path, behind), os.fstat(file.fd).st_size):
                    if header.base_offset >= end and header.magic == MAGIC:
                        break
                    if header.last_offset < start:
                        continue
                    within = header.base_offset >= start and header.last_offset < end and header.magic == MAGIC
                    if records >= COUNTED_MAX or not within:
                        yield Counted(records, behind)
                        records = 0
                    if not within or header.record_count > header.last_offset_delta + 1:
                        yield Run(read_at(file.fd, header.size, position), 0, header.size)
                    elif not header.is_control:
                        records += header.record_count
                    behind = header.next_offset
            except CorruptionError:
                # The torn end of a log, or damage: whoever reads everything knows.
                yield Counted(records, behind)
                yield from self.runs(behind, end)
                return
            yield Counted(records, behind)

    def last_stable_offset(self) -> int:
        """Before the first record of a transaction that has no end yet, as far as the files are read."""
        opened: dict[int, int] = {}
        for path in self._paths:
            file = OpenFile(path, os.O_RDONLY)
            size = os.fstat(file.fd).st_size
            try:
                for _, header in scan(file, 0, size):
                    if header.base_offset >= self.end:
                        return min(opened.values(), default=self.end)
                    if header.is_control:
                        opened.pop(header.producer_id, None)
                    elif header.is_transactional:
                        opened.setdefault(header.producer_id, header.base_offset)
            except CorruptionError:
                # The torn end of a running or crashed broker's log, which lies behind what may be read.
                break
        return min(opened.values(), default=self.end)

    def _segments(self, start: int, end: int) -> list[Path]:
        """Those with offsets from ``start`` on, up to ``end``."""
        if start < self.start:
            raise DataLossError(
                f"offsets {start} to {self.start - 1} of {self.place} are gone: the files begin behind them"
            )
        first = max(bisect_right(self._bases, start) - 1, 0)
        return self._paths[first : max(bisect_left(self._bases, end), first)]

    def _segment(self, path: Path, start: int, end: int, aborted: tuple[tuple[int, int], ...]) -> Iterator[Run]:
        file = _opened(path)
        position = _position(path, start)
        size = os.fstat(file.fd).st_size
        wanted = CHUNK_BYTES
        while position < size:
            data = read_at(file.fd, wanted, position)
            whole, is_over = _whole(data, end)
            if whole:
                yield Run(data, 0, whole, aborted)
            elif not is_over and len(data) == wanted:
                wanted *= 2
                continue
            else:
                return  # the end of what is wanted, or the torn end of the active segment
            wanted = CHUNK_BYTES
            position += whole

    def _aborted(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for path in self._paths:
            for one in TransactionIndex(path.with_suffix(TXN_INDEX_SUFFIX)).all():
                if one.last_offset >= start and one.first_offset < end:
                    yield one.producer_id, one.first_offset


class LogFiles:
    """The partitions in some log directories. What is there is looked up once; of copies, the one that reaches furthest."""

    def __init__(self, directories: Sequence[str | Path] = ()) -> None:
        self.logs: dict[TopicPartition, PartitionLog] = {}
        for directory in map(Path, directories):
            if not directory.is_dir():
                raise ScanError(f"there is no log directory {directory}")
            for folder in find_partitions(directory):
                files = read_partition(folder)
                if files.topic_partition is not None:
                    log = PartitionLog(files)
                    known = self.logs.get(log.place)
                    if known is None or known.end < log.end:
                        self.logs[log.place] = log

    @classmethod
    def of(cls, log: PartitionLog) -> LogFiles:
        """One partition alone."""
        made = cls()
        made.logs[log.place] = log
        return made

    def topics(self) -> list[str]:
        return sorted({place.topic for place in self.logs})

    def log(self, place: TopicPartition) -> PartitionLog:
        if place not in self.logs:
            raise UnknownTopicError(f"there are no files of {place} in these log directories")
        return self.logs[place]

    def runs(self, wanted: Range, *, read_committed: bool = False) -> Iterator[Run]:
        return self.log(wanted.place).runs(wanted.start, wanted.end, read_committed=read_committed)


def _opened(path: Path) -> OpenFile:
    try:
        return OpenFile(path, os.O_RDONLY)
    except FileNotFoundError:
        raise DataLossError(f"{path} was deleted before it was read") from None


def _position(path: Path, offset: int) -> int:
    """Where in a segment the batch with ``offset`` begins, or one before it."""
    relative = offset - int(path.stem)
    if relative <= 0 or not _has_index(path):
        return 0
    file = _opened(path.with_suffix(INDEX_SUFFIX))

    def entry(slot: int) -> tuple[int, int]:
        # A few are looked at, and not all read: most of an active segment's index are zeros, room for more, which go when it is closed.
        found, position = _ENTRY.unpack(read_at(file.fd, _ENTRY.size, slot * _ENTRY.size).ljust(_ENTRY.size, b"\0"))
        return found, position

    def is_behind(slot: int) -> bool:
        found, position = entry(slot)
        return found > relative or (found == 0 and position == 0 and slot > 0)

    slot = bisect_left(range(os.fstat(file.fd).st_size // _ENTRY.size), True, key=is_behind)
    return entry(slot - 1)[1] if slot else 0


def _whole(data: bytes, end: int) -> tuple[int, bool]:
    """How many bytes of whole batches ``data`` begins with, and whether one that is not wanted any more follows."""
    size = 0
    try:
        for frame in frames(data):
            if frame.base_offset >= end and frame.magic == MAGIC:
                return size, True
            size = frame.position + frame.size
    except RecordsError:
        if not size:
            raise
    return size, False


def _has_index(path: Path) -> bool:
    return path.with_suffix(INDEX_SUFFIX).exists()
