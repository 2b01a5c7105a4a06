"""One round of cleaning one log, over nothing but its files: everything else that it has to know is in ``Job``.

New segments are written and synced here, under names that end in ``.cleaned``. Whoever gave the job is handed each of them,
puts it into the log (``log.swap``), and says whether to go on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep

from ottla.base.errors import CorruptionError
from ottla.log.cleaner.groups import Extent, group_segments
from ottla.log.cleaner.job import Cleaned, Job, Outcome
from ottla.log.cleaner.keep import Keeper
from ottla.log.cleaner.sift import FULL, SLOT_BYTES, OffsetMap, note_keys
from ottla.log.cleaner.transactions import CleanedTransactions
from ottla.log.config import LogConfig
from ottla.log.files import read_at
from ottla.log.segment import LOG_SUFFIX, Segment, segment_path
from ottla.log.swap import CLEANED_SUFFIX
from ottla.log.txnindex import AbortedTxn
from ottla.records import BatchHeader
from ottla.records.batch import HEADER_BYTES, MAGIC, Frame
from ottla.records.codecs import codec_of, unpack
from ottla.records.control import read_marker
from ottla.records.errors import RecordsError
from ottla.records.legacy import check_any, header_at, read_any
from ottla.records.walk import FAULTS, OK

_SMALLEST_IO_BYTES = 64 << 10

HandOver = Callable[[Cleaned], bool]


def clean(job: Job, hand_over: HandOver) -> Outcome | None:
    """Clean as far as the memory for keys goes; None if ``hand_over`` ended it."""
    try:
        return _Round(job).run(hand_over)
    except RecordsError as error:
        raise CorruptionError(f"{job.directory} is damaged: {error}") from error


class _Round:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._config = LogConfig(
            segment_bytes=job.segment_bytes,
            segment_index_bytes=job.segment_index_bytes,
            index_interval_bytes=job.index_interval_bytes,
        )
        self._directory = Path(job.directory)
        self._aborted = [AbortedTxn(*fields) for fields in job.aborted]
        self._pace = Pace(job.resources.bytes_per_second)
        self._io_bytes = max(job.resources.io_bytes // 2, _SMALLEST_IO_BYTES)
        self._read = 0
        self._written = 0

    def run(self, hand_over: HandOver) -> Outcome | None:
        job = self._job
        offsets = self._note_keys()
        cleaned_to = offsets.latest_offset + 1
        extents = [self._extent(base, behind) for base, behind in self._ranges() if base < cleaned_to]
        transactions = CleanedTransactions(self._aborted)
        horizon_ns = self._old_tombstones_until_ns()
        groups = group_segments(extents, segment_bytes=job.segment_bytes, index_bytes=job.segment_index_bytes)
        for group in groups:
            cleaned = self._clean_group(group, offsets, transactions, horizon_ns)
            if not hand_over(cleaned):
                return None
        return Outcome(cleaned_to, self._read, self._written, offsets.entries)

    def _ranges(self) -> list[tuple[int, int]]:
        return list(pairwise(self._job.bases))

    def _extent(self, base: int, behind: int) -> Extent:
        segment = self._open(base)
        return Extent(base, behind, segment.size, segment.offset_index.valid_bytes, segment.time_index.valid_bytes)

    def _open(self, base_offset: int) -> Segment:
        segment = Segment.open(self._directory, base_offset, self._config)
        segment.offset_index.open_sealed()
        segment.time_index.open_sealed()
        return segment

    def _old_tombstones_until_ns(self) -> int:
        """Messages of old lose their marks of deleted keys when the file they are in is older than this."""
        clean = [base for base, _ in self._ranges() if base < self._job.first_dirty_offset]
        return self._modified_ns(clean[-1]) - self._job.delete_retention_ms * 1_000_000 if clean else 0

    def _modified_ns(self, base_offset: int) -> int:
        return segment_path(self._directory, base_offset, LOG_SUFFIX).stat().st_mtime_ns

    # ------------------------------------------------------------------ the map

    def _note_keys(self) -> OffsetMap:
        job = self._job
        first = job.first_dirty_offset
        # There are no more keys than offsets: a small job has no use for all of the memory.
        enough = SLOT_BYTES * 2 * (job.bases[-1] - min(first, job.bases[-1]) + 1)
        offsets = OffsetMap(min(job.resources.dedupe_bytes, enough), job.resources.load_factor, first)
        transactions = CleanedTransactions(each for each in self._aborted if each.last_offset >= first)
        for base, behind in self._ranges():
            if behind <= first:
                continue
            segment = self._open(base)
            for data, at, header in self._batches(segment, segment.offset_index.lookup(first).position):
                if header.is_control:
                    transactions.may_drop(header, read_marker(data, at), _ignore)
                elif not transactions.is_aborted(header) and not self._note_batch(offsets, data, at, header):
                    return offsets
                if header.last_offset >= first:
                    offsets.latest_offset = header.last_offset
            segment.close()
            # Offsets that are missing at its end are none that could come.
            offsets.latest_offset = behind - 1
        return offsets

    def _note_batch(self, offsets: OffsetMap, data: bytes, at: int, header: BatchHeader) -> bool:
        """False if the map is full."""
        first = self._job.first_dirty_offset
        if header.magic < MAGIC:
            for record in read_any(data, at, limit=self._job.unpacked_bytes_max):
                if record.key is not None and record.offset >= first:
                    if not offsets.has_room(record.offset):
                        return False
                    offsets.put(record.key, record.offset)
                    offsets.latest_offset = record.offset
            return True
        start, end = at + HEADER_BYTES, at + header.size
        if header.codec_id:
            packed = memoryview(data)[start:end]
            data = b"".join(unpack(codec_of(header.codec_id), packed, limit=self._job.unpacked_bytes_max))
            start, end = 0, len(data)
        fault = note_keys(offsets, data, start, end, header.record_count, header.base_offset, first)
        if fault not in (OK, FULL):
            raise CorruptionError(f"a record of the batch at offset {header.base_offset}: {FAULTS[fault]}")
        return fault == OK

    # ------------------------------------------------------------------ new segments

    def _clean_group(
        self, group: list[Extent], offsets: OffsetMap, transactions: CleanedTransactions, horizon_ns: int
    ) -> Cleaned:
        job = self._job
        base_offset = group[0].base_offset
        new = Segment.create(self._directory, base_offset, self._config, now_ms=job.now_ms, ending=CLEANED_SUFFIX)
        new.txn_index.reset()
        keeper = Keeper(
            offsets,
            transactions,
            {producer_id: (epoch, offset) for producer_id, epoch, offset in job.last_records},
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
            unpacked_bytes_max=job.unpacked_bytes_max,
            note_aborted=new.txn_index.append,
        )
        for extent in group:
            keeper.keeps_old_tombstones = self._modified_ns(extent.base_offset) > horizon_ns
            self._clean_segment(self._open(extent.base_offset), new, keeper)
        new.seal()
        for file in new.files_to_sync():
            os.fsync(file.fd)
        # Its age is that of what is in it.
        modified_ns = self._modified_ns(group[-1].base_offset)
        os.utime(segment_path(self._directory, base_offset, LOG_SUFFIX + CLEANED_SUFFIX), ns=(modified_ns, modified_ns))
        new.close()
        return Cleaned([each.base_offset for each in group], sum(each.size for each in group), new.size)

    def _clean_segment(self, old: Segment, new: Segment, keeper: Keeper) -> None:
        parts: list[bytes | memoryview] = []
        headers: list[BatchHeader] = []
        held = 0
        for data, at, header in self._batches(old, 0):
            kept = keeper.batch(data, at, header)
            if kept is not None:
                parts.append(kept.data)
                headers.append(kept.header)
                held += kept.header.size
            if held >= self._io_bytes or len(parts) >= _PARTS_MAX:
                self._write(new, parts, headers, held)
                parts, headers, held = [], [], 0
        if parts:
            self._write(new, parts, headers, held)
        old.close()

    def _write(self, new: Segment, parts: list[bytes | memoryview], headers: list[BatchHeader], size: int) -> None:
        new.append([b"".join(parts)], headers)
        new.write()
        self._written += size
        self._pace.spend(size)

    def _batches(self, segment: Segment, position: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """The batches from ``position`` on, each with the bytes it lies in; read in blocks, checksums computed."""
        file, end = segment.file, segment.size
        block, block_at = b"", position
        while position < end:
            at = position - block_at
            header = header_at(block, at)
            if header is None or at + header.size > len(block):
                wanted = self._io_bytes if header is None else max(self._io_bytes, header.size)
                block, block_at, at = read_at(file.fd, min(wanted, end - position), position), position, 0
                self._read += len(block)
                self._pace.spend(len(block))
                header = header_at(block, 0)
                if header is not None and header.size > len(block):
                    block = read_at(file.fd, header.size, position)
            if header is None or at + header.size > len(block):
                raise CorruptionError(f"{file.path}: no batch at {position}")
            check_any(block, Frame(at, header.size, header.magic, header.base_offset))
            yield block, at, header
            position += header.size


class Pace:
    """Holds reading and writing back to so many bytes a second."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._started = monotonic()
        self._spent = 0

    def spend(self, size: int) -> None:
        self._spent += size
        ahead = self._spent / self._rate - (monotonic() - self._started)
        if ahead > 0:
            sleep(ahead)


_PARTS_MAX = 1000


def _ignore(_: AbortedTxn) -> None: ...
