"""A partition's files held against each other; what does not fit is told with its place, and nothing is changed.

One pass over the batches of each segment, in their order. Beside it run the entries of both indexes, each met when the scan
comes to its place, so memory stays small however large the log is. What has to hold:

    batches     checksum; offsets grow, within a segment and from one to the next; no more records than offsets; no offsets are
                missing between segments, unless some are within them, too, as the cleaner leaves it
    indexes     each has its segment
    .index      an entry's position is where a batch starts, and its offset is in that batch or one behind it, before the next
    .timeindex  no batch up to the one that holds an entry's offset is later than the entry, and one is as late
    .txnindex   each aborted transaction ends in an abort marker of its producer
    epochs      grow; the epoch of each batch is the one that the checkpoint has for its offset
    .snapshot   can be read, and tells of nothing behind its own offset
    checkpoints log start, high watermark and recovery point lie within the log

A file that ends within a batch is told like any other damage. Behind the recovery point it is what a crash leaves, and the next
start cuts it off; before it, records are lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from ottla.base.errors import CorruptionError
from ottla.log.checkpoints import read_offsets
from ottla.log.directory import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from ottla.log.index import OffsetPosition, TimestampOffset
from ottla.log.inspect import (
    Damage,
    PartitionFiles,
    StoredBatch,
    read_bytes,
    read_offset_index,
    read_partition,
    read_records,
    read_segment,
    read_snapshot,
    read_time_index,
)
from ottla.log.log import LEADER_EPOCH_CHECKPOINT
from ottla.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ottla.log.txnindex import AbortedTxn, TransactionIndex
from ottla.records import Codec, ControlType
from ottla.records.batch import NO_LEADER_EPOCH, NO_TIMESTAMP
from ottla.records.control import read_marker
from ottla.records.errors import RecordsError


class Problem(NamedTuple):
    path: Path
    where: str
    what: str


class Totals:
    """What was looked at."""

    def __init__(self) -> None:
        self.partitions = 0
        self.segments = 0
        self.batches = 0
        self.records = 0
        self.bytes = 0


_BESIDE = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
Report = Callable[[Path, str, str], None]
E = TypeVar("E", bound=tuple[int, int])


def verify_partition(directory: Path, totals: Totals, *, deep: bool = False) -> Iterator[Problem]:
    """Every problem of one partition; ``deep`` also unpacks every record."""
    totals.partitions += 1
    files = read_partition(directory)
    yield from (Problem(path, "the whole file", reason) for path, reason in files.unreadable)
    yield from _check_epoch_order(files)
    yield from _check_orphans(files)
    end = None
    missing: list[Problem] = []
    was_cleaned = _was_cleaned(files)
    for path in files.segments:
        check = _SegmentCheck(path, files, totals, deep=deep, after=end)
        if end is not None and end < check.base_offset:
            missing.append(Problem(path, "its name", f"offsets {end} to {check.base_offset - 1} are missing before it"))
        yield from check.run()
        was_cleaned |= check.has_gaps
        end = check.end
    if not was_cleaned:
        yield from missing
    for path in files.snapshots:
        yield from _check_snapshot(path)
    yield from _check_checkpoints(files, end or 0)


def verify_segment(path: Path, totals: Totals, *, deep: bool = False) -> Iterator[Problem]:
    """Every problem of one segment and its indexes."""
    yield from _SegmentCheck(path, read_partition(path.parent), totals, deep=deep, after=None).run()


class _SegmentCheck:
    def __init__(self, path: Path, files: PartitionFiles, totals: Totals, *, deep: bool, after: int | None) -> None:
        self.base_offset = int(path.stem)
        self.end = self.base_offset
        self.has_gaps = False
        """Offsets without records, as the cleaner leaves them."""
        self._path = path
        self._files = files
        self._totals = totals
        self._deep = deep
        self._after = after
        self._problems: list[Problem] = []
        self._latest_epoch = NO_LEADER_EPOCH

    def run(self) -> Iterator[Problem]:
        self._totals.segments += 1
        path = self._path
        if self._after is not None and self._after > self.base_offset:
            self._report(
                path, "its name", f"it starts at {self.base_offset}, but the segment before ends at {self._after}"
            )
        positions = _OffsetCursor(path.with_suffix(INDEX_SUFFIX), self._report)
        times = _TimeCursor(path.with_suffix(TIME_INDEX_SUFFIX), self._report)
        aborted = self._aborted(path.with_suffix(TXN_INDEX_SUFFIX))
        whole = True
        for found in read_segment(path):
            if isinstance(found, Damage):
                self._report(path, f"byte {found.position}", f"{found.reason}; {self._meaning(found)}")
                whole = False
            else:
                self._check(found)
                positions.pass_batch(found)
                times.pass_batch(found)
                self._check_marker(found, aborted)
            # As they are found: a large segment is long in reading.
            yield from self._problems
            self._problems.clear()
        if whole:
            positions.finish()
            times.finish()
            for entry in aborted.values():
                self._report(
                    path.with_suffix(TXN_INDEX_SUFFIX),
                    f"offset {entry.last_offset}",
                    f"no abort marker of producer {entry.producer_id} is there",
                )
        yield from self._problems

    def _report(self, path: Path, where: str, what: str) -> None:
        self._problems.append(Problem(path, where, what))

    def _meaning(self, damage: Damage) -> str:
        point = self._files.recovery_point
        if damage.is_torn and (point is None or self.end >= point):
            return "what a crash leaves behind, and the next start cuts off"
        if point is not None and self.end < point:
            return f"records before the recovery point {point} are lost here"
        return f"the {damage.length} bytes from here on cannot be read"

    def _check(self, batch: StoredBatch) -> None:
        self._totals.batches += 1
        self._totals.bytes += batch.size
        where = f"byte {batch.position}, offset {batch.base_offset}"
        if not batch.crc_is_valid:
            self._report(self._path, where, f"the checksum is not {batch.crc:#010x}, which the batch claims")
        if batch.base_offset < self.end:
            self._report(self._path, where, f"the offset comes after {self.end - 1}")
        self.has_gaps |= _leaves_gap(batch, self.end)
        self.end = max(self.end, batch.last_offset + 1)
        if batch.header is None:
            return
        count = batch.header.record_count
        self._totals.records += max(count, 0)
        if not 0 <= count <= batch.header.last_offset_delta + 1:
            self._report(self._path, where, f"{count} records in {batch.header.last_offset_delta + 1} offsets")
        self._check_epoch(batch.base_offset, batch.header.partition_leader_epoch, where)
        if self._deep and batch.crc_is_valid:
            self._check_records(batch, where)

    def _check_epoch(self, offset: int, epoch: int, where: str) -> None:
        if epoch < self._latest_epoch:
            self._report(self._path, where, f"leader epoch {epoch} comes after {self._latest_epoch}")
        self._latest_epoch = max(epoch, self._latest_epoch)
        epochs = self._files.epochs
        if epoch == NO_LEADER_EPOCH or (epochs and offset < epochs[0][1]):
            return  # written before epochs were, or forgotten with what lies before the log's start
        above = bisect_right(epochs, offset, key=lambda entry: entry[1])
        known = epochs[above - 1][0] if above else NO_LEADER_EPOCH
        if known != epoch:
            self._report(self._path, where, f"leader epoch {epoch}, but leader-epoch-checkpoint has {known} for it")

    def _check_records(self, batch: StoredBatch, where: str) -> None:
        # A packed message of an old format has the offset of the last one in it, and the first is only found inside.
        previous, count = (batch.base_offset if batch.header else 0) - 1, 0
        try:
            for record in read_records(self._path, batch):
                count += 1
                if not previous < record.offset <= batch.last_offset:
                    self._report(self._path, where, f"record {count} has offset {record.offset}, after {previous}")
                previous = record.offset
        except (RecordsError, CorruptionError) as error:
            self._report(self._path, where, f"record {count + 1}: {error}")

    def _aborted(self, path: Path) -> dict[int, AbortedTxn]:
        try:
            entries = TransactionIndex(path).all()
        except CorruptionError as error:
            self._report(path, "the whole file", str(error))
            return {}
        for entry in entries:
            if entry.first_offset > entry.last_offset:
                self._report(path, f"offset {entry.last_offset}", f"it is to start at {entry.first_offset}")
        return {entry.last_offset: entry for entry in entries}

    def _check_marker(self, batch: StoredBatch, aborted: dict[int, AbortedTxn]) -> None:
        """Strike an aborted transaction off when its marker comes by."""
        entry = aborted.get(batch.base_offset)
        if entry is None or batch.header is None or not batch.header.is_control:
            return
        try:
            marker = read_marker(read_bytes(self._path, batch))
        except RecordsError:
            return
        is_abort = marker is not None and marker.control_type is ControlType.ABORT
        if is_abort and batch.header.producer_id == entry.producer_id:
            del aborted[batch.base_offset]


class _Cursor(Generic[E]):
    """The entries of an index, met one after the other; each has to be larger than the one before in both its fields."""

    def __init__(self, entries: Iterator[E], path: Path, report: Report) -> None:
        self._path = path
        self._report = report
        self._entries: Iterator[tuple[int, E]] = enumerate(entries)
        self._next: tuple[int, E] | None = None
        self._advance()

    def _say(self, number: int, what: str) -> None:
        self._report(self._path, f"entry {number}", what)

    def _advance(self) -> None:
        before = self._next
        self._next = next(self._entries, None)
        if before is not None and self._next is not None:
            (_, old), (number, new) = before, self._next
            if new[0] <= old[0] or new[1] <= old[1]:
                self._say(number, f"{tuple(new)} does not follow {tuple(old)}")


class _OffsetCursor(_Cursor[OffsetPosition]):
    """Of an ``.index``."""

    def __init__(self, path: Path, report: Report) -> None:
        super().__init__(_guarded(read_offset_index, path, report), path, report)
        self._due: tuple[int, int] | None = None

    def pass_batch(self, batch: StoredBatch) -> None:
        while self._next is not None and self._next[1].position <= batch.position:
            number, entry = self._next
            if entry.position < batch.position:
                self._say(number, f"no batch starts at {entry.position}")
            elif entry.offset < batch.base_offset:
                self._say(number, f"offset {entry.offset} is to be at {entry.position}, where {batch.base_offset} is")
            else:
                self._due = (number, entry.offset)
            self._advance()
        if self._due is not None and batch.last_offset >= self._due[1]:
            if batch.base_offset > self._due[1]:
                self._say(self._due[0], f"no batch holds offset {self._due[1]}")
            self._due = None

    def finish(self) -> None:
        if self._due is not None:
            self._say(self._due[0], f"offset {self._due[1]} is behind the last batch")
        while self._next is not None:
            number, entry = self._next
            self._say(number, f"position {entry.position} is behind the last batch")
            self._advance()


class _TimeCursor(_Cursor[TimestampOffset]):
    """Of a ``.timeindex``."""

    def __init__(self, path: Path, report: Report) -> None:
        super().__init__(_guarded(read_time_index, path, report), path, report)
        self._latest = NO_TIMESTAMP

    def pass_batch(self, batch: StoredBatch) -> None:
        self._latest = max(self._latest, batch.max_timestamp)
        while self._next is not None and self._next[1].offset <= batch.last_offset:
            number, entry = self._next
            if entry.offset < batch.base_offset:
                self._say(number, f"no batch holds offset {entry.offset}")
            elif entry.timestamp != self._latest:
                self._say(
                    number, f"up to offset {entry.offset} the latest time is {self._latest}, not {entry.timestamp}"
                )
            self._advance()

    def finish(self) -> None:
        while self._next is not None:
            number, entry = self._next
            self._say(number, f"offset {entry.offset} is behind the last batch")
            self._advance()


def _guarded(read: Callable[[Path], Iterator[E]], path: Path, report: Report) -> Iterator[E]:
    """The entries; a file that is missing or torn is reported instead."""
    try:
        yield from read(path)
    except FileNotFoundError:
        # Kafka makes the indexes of a new segment with the first batch that goes into it.
        if path.with_suffix(LOG_SUFFIX).stat().st_size > 0:
            report(path, "the whole file", "it is missing; the next start builds it anew")
    except CorruptionError as error:
        report(path, "the whole file", str(error))


def _leaves_gap(batch: StoredBatch, end: int) -> bool:
    """As the loader sees it."""
    if batch.header is None:
        # A compressed message of old tells its last offset only.
        return batch.base_offset > end and batch.codec_id == Codec.NONE
    return batch.base_offset > end or batch.header.record_count <= batch.header.last_offset_delta


def _was_cleaned(files: PartitionFiles) -> bool:
    """Or may have been: nobody knows if the checkpoint cannot be read."""
    try:
        return files.topic_partition in read_offsets(files.directory.resolve().parent / CLEANER_OFFSETS)
    except CorruptionError:
        return True


def _check_orphans(files: PartitionFiles) -> Iterator[Problem]:
    there = {path.stem for path in files.segments}
    for path in sorted(files.directory.iterdir()):
        if path.suffix in _BESIDE and path.stem.isdecimal() and path.stem not in there:
            yield Problem(path, "the whole file", "its segment is not there")


def _check_epoch_order(files: PartitionFiles) -> Iterator[Problem]:
    for old, new in zip(files.epochs, files.epochs[1:], strict=False):
        if new[0] <= old[0] or new[1] <= old[1]:
            where = f"epoch {new[0]}"
            yield Problem(files.directory / LEADER_EPOCH_CHECKPOINT, where, f"{new} does not follow {old}")


def _check_snapshot(path: Path) -> Iterator[Problem]:
    try:
        entries = read_snapshot(path)
    except CorruptionError as error:
        yield Problem(path, "the whole file", str(error))
        return
    for entry in entries:
        if entry.batches and entry.batches[-1].last_offset >= int(path.stem):
            last = entry.batches[-1].last_offset
            yield Problem(path, f"producer {entry.producer_id}", f"its last offset {last} is behind the snapshot's own")


def _check_checkpoints(files: PartitionFiles, end: int) -> Iterator[Problem]:
    parent = files.directory.resolve().parent
    start = int(files.segments[0].stem) if files.segments else 0
    offsets = {
        RECOVERY_POINTS: files.recovery_point,
        LOG_START_OFFSETS: files.log_start_offset,
        HIGH_WATERMARKS: files.high_watermark,
    }
    for name, offset in offsets.items():
        if offset is not None and not 0 <= offset <= end:
            yield Problem(
                parent / name, str(files.topic_partition), f"{offset}, but the log goes from {start} to {end}"
            )
    if files.epochs and files.epochs[-1][1] > end:
        epoch, offset = files.epochs[-1]
        path = files.directory / LEADER_EPOCH_CHECKPOINT
        yield Problem(path, f"epoch {epoch}", f"it starts at {offset}, but the log ends at {end}")
