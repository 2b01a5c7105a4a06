"""A segment: one file of batches with its indexes, named by its first offset.

    00000000000000000360.log         batches, one behind the other
    00000000000000000360.index       ┐ see ``index``
    00000000000000000360.timeindex   ┘
    00000000000000000360.txnindex      see ``txnindex``; only if a transaction was aborted in it

Only the last segment of a log, the active one, is written to. Opening a segment reads nothing: its size is the file's, its
largest timestamp is looked up in the index when somebody asks.

Where the last batches lie is kept in memory: whoever reads at the end of a log, and whoever asks where the high watermark
is, needs neither the index nor the disk. So is where the next one lies behind one that was read, for readers that go on there.

While a segment grows, room for what will come is found on the disk ahead of it, a quarter of what it has, so that a write need not
look for it block by block: that makes writes a quarter cheaper. The file's size stays what was written; ``seal`` gives the rest back.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.base.filebytes import FileBytes
from ottla.log.batches import Located, scan
from ottla.log.config import LogConfig
from ottla.log.files import DELETED_SUFFIX, Health, OpenFile, read_at, remove_if_there, reserve, write_at
from ottla.log.found import Found
from ottla.log.index import OffsetIndex, TimeIndex, TimestampOffset
from ottla.log.txnindex import TransactionIndex
from ottla.records import BatchHeader
from ottla.records.batch import COPIED_BYTES_MAX, HEADER_BYTES, NO_TIMESTAMP
from ottla.records.legacy import first_offset, header_at

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1

_RECENT_BATCHES: Final = 64
_RESERVED_BYTES_MIN: Final = 1 << 20
"""Also the size from which a segment is worth it: there may be ten thousand that hardly grow."""
_RESERVED_BYTES_MAX: Final = 16 << 20
_BOOKKEEPING_BYTES_MAX: Final = 64 << 10
"""What a file system may count to a file beside its bytes."""


class FileRange(FileBytes):
    """Batches in a file, to be read or sent; the descriptor stays open as long as this refers to it."""

    __slots__ = ("_health", "file")

    def __init__(self, file: OpenFile, position: int, length: int, health: Health | None = None) -> None:
        """``health``: of the directory, where it is to be told that these cannot be read. It goes offline then."""
        super().__init__(position, length)
        self.file = file
        self._health = health

    @property
    def fd(self) -> int:
        return self.file.fd

    def read(self, skip: int = 0) -> bytes:
        try:
            return read_at(self.file.fd, self.length - skip, self.position + skip)
        except OSError as error:
            if self._health is not None:
                self._health.failed(f"read of {self.file.path}", error)
            raise


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    return directory / f"{base_offset:020d}{suffix}"


class Segment:
    """One segment. Its methods raise ``OSError``; what that means is for the log to say."""

    def __init__(self, directory: Path, base_offset: int, config: LogConfig, ending: str = "") -> None:
        self.directory = directory
        self.base_offset = base_offset
        self._ending = ending
        self.size = 0
        self.found = Found(0)
        self.offset_index = OffsetIndex(self._path(INDEX_SUFFIX), base_offset, config.segment_index_bytes)
        self.time_index = TimeIndex(self._path(TIME_INDEX_SUFFIX), base_offset, config.segment_index_bytes)
        self.txn_index = TransactionIndex(self._path(TXN_INDEX_SUFFIX))
        self._config = config
        self._roll_ms = config.roll_ms
        self._file: OpenFile | None = None
        # Two numbers, not a pair: every append looks at them.
        self._largest_timestamp = NO_TIMESTAMP
        self._largest_offset = base_offset
        self._knows_largest = False
        self._first_timestamp = NO_TIMESTAMP
        self._created_ms = 0
        self._bytes_since_index = 0
        self._unwritten: list[bytes | memoryview] = []
        """The last of the batches, which the file lacks."""
        self._unwritten_bytes = 0
        self._reserved = _RESERVED_BYTES_MIN
        """Up to here there is nothing to reserve."""
        self._recent: dict[int, tuple[int, BatchHeader]] = {}
        self._less_recent: dict[int, tuple[int, BatchHeader]] = {}
        self._read_next: dict[int, int] = {}

    @classmethod
    def create(cls, directory: Path, base_offset: int, config: LogConfig, *, now_ms: int, ending: str = "") -> Segment:
        """An empty segment that is ready for appends; ``ending`` is what the names of its files have behind all else."""
        segment = cls(directory, base_offset, config, ending)
        segment._file = OpenFile(segment._path(LOG_SUFFIX), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        segment.offset_index.reset()
        segment.time_index.reset()
        segment.activate(now_ms=now_ms)
        return segment

    @classmethod
    def open(cls, directory: Path, base_offset: int, config: LogConfig, ending: str = "") -> Segment:
        """A segment that was closed cleanly, or is about to be recovered."""
        segment = cls(directory, base_offset, config, ending)
        segment.size = segment._path(LOG_SUFFIX).stat().st_size
        segment.found = Found(segment.size)
        return segment

    def activate(self, *, now_ms: int) -> None:
        """Make ready for appends behind what is there."""
        self._created_ms = now_ms
        self.offset_index.open_active()
        self.time_index.open_active()
        if self._config.preallocate and self.size < self._config.segment_bytes:
            os.ftruncate(self.file.fd, self._config.segment_bytes)

    def seal(self) -> None:
        """No more appends: what was set aside is given back, and the time index is made complete.

        None of it is on disk yet: that is left to the next flush, and until then ``check_indexes`` tells.
        """
        largest = self.largest
        if largest.timestamp != NO_TIMESTAMP:
            self.time_index.maybe_append(*largest)
        for index in (self.offset_index, self.time_index):
            index.trim()
        self._trim()
        self._forget_recent()

    def _trim(self) -> None:
        """Of a file that was preallocated, whatever the setting says by now: where it ends is known by its size alone.

        And what was reserved behind its end, maybe by a process that was killed.
        """
        there = os.fstat(self.file.fd)
        if there.st_size > self.size:
            os.ftruncate(self.file.fd, self.size)
            os.fsync(self.file.fd)
        elif there.st_blocks * 512 > self.size + _BOOKKEEPING_BYTES_MAX:
            os.ftruncate(self.file.fd, self.size)
        self._reserved = _RESERVED_BYTES_MIN

    def configure(self, config: LogConfig) -> None:
        self._config = config
        self._roll_ms = config.roll_ms

    @property
    def file(self) -> OpenFile:
        if self._file is None:
            self._file = OpenFile(self._path(LOG_SUFFIX), os.O_RDWR)
        return self._file

    @property
    def largest(self) -> TimestampOffset:
        """The latest timestamp, and the last offset of the first batch that has it."""
        if not self._knows_largest:
            self._believe_largest(self.time_index.last)
        return TimestampOffset(self._largest_timestamp, self._largest_offset)

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, by which the age of a segment is told."""
        if self._first_timestamp == NO_TIMESTAMP and self.size > 0:
            self._first_timestamp = next(scan(self.file, 0, self.size)).header.max_timestamp
        return self._first_timestamp

    def append(self, parts: Sequence[bytes | memoryview], headers: list[BatchHeader]) -> None:
        """Take ``parts``, the batches of ``headers``, behind what is there; in the file they are after ``write``."""
        end = self.size
        for header in headers:
            self._note(end, header)
            end += header.size
        self._unwritten += parts
        self._unwritten_bytes += end - self.size
        self.size = end

    def write(self) -> None:
        """Bring into the file what was appended, in one call. On an ``OSError`` the segment ends where it did before."""
        if not self._unwritten:
            return
        size, parts = self._unwritten_bytes, self._unwritten
        start = self.size - size
        self._unwritten, self._unwritten_bytes = [], 0
        if self.size > self._reserved:
            self._reserve(start)
        try:
            # A copy of a few small ones costs less than a vector of them.
            write_at(self.file.fd, (b"".join(parts),) if size <= COPIED_BYTES_MAX else parts, start)
        except (OSError, MemoryError) as error:
            self.size = start
            with suppress(OSError):
                os.ftruncate(self.file.fd, start)
            if isinstance(error, MemoryError):
                raise OSError(errno.ENOMEM, "no memory to write with") from error
            raise

    def _reserve(self, start: int) -> None:
        end = self.size + min(max(self.size // 4, _RESERVED_BYTES_MIN), _RESERVED_BYTES_MAX)
        self._reserved = max(self.size, min(end, self._config.segment_bytes))
        reserve(self.file.fd, start, self._reserved - start)

    def should_roll(self, size: int, *, max_timestamp: int, last_offset: int, now_ms: int, jitter_ms: int) -> bool:
        """Whether a batch of ``size`` bytes has to go into a new segment."""
        if self.size == 0:
            return last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        config = self._config
        return (
            self.size > config.segment_bytes - size
            or self._age(max_timestamp, now_ms=now_ms) > self._roll_ms - jitter_ms
            or self.offset_index.is_full
            or self.time_index.is_full
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        )

    def may_hold(self, header: BatchHeader) -> bool:
        """Offsets are not covered by a batch's checksum; those that no segment of this name can have are found out."""
        return self.base_offset <= header.base_offset and header.last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def locate(self, offset: int) -> Located | None:
        """The first batch that ends at ``offset`` or behind it."""
        found = self._recent.get(offset) or self._less_recent.get(offset)
        if found is not None:
            return Located(found[0], found[1])
        located = self._locate_on_disk(offset)
        if located is not None and located.position + located.header.size < self.size:
            if len(self._read_next) >= _RECENT_BATCHES:
                self._read_next.clear()
            self._read_next[located.header.next_offset] = located.position + located.header.size
        return located

    def _locate_on_disk(self, offset: int) -> Located | None:
        start = self._read_next.get(offset, -1)
        if start >= 0:
            header = header_at(read_at(self.file.fd, HEADER_BYTES, start), 0)
            if header is not None and header.last_offset >= offset and start + header.size <= self.size:
                return Located(start, header)
        start = self.offset_index.lookup(offset).position
        for located in scan(self.file, start, self.size):
            if located.header.last_offset >= offset:
                return located
        return None

    def batches(self, position: int = 0) -> Iterator[Located]:
        return scan(self.file, position, self.size)

    def next_offset(self) -> int:
        """Behind the last batch, found by way of the last index entry."""
        end = self.base_offset
        for _, header in self.batches(self.offset_index.lookup(self.base_offset + RELATIVE_OFFSET_MAX).position):
            end = header.next_offset
        return end

    def upper_bound(self, position: int) -> int | None:
        """An offset that nothing before ``position`` reaches; None if the index knows none."""
        entry = self.offset_index.first_behind(position)
        return None if entry is None else entry.offset

    def truncate_to(self, offset: int, *, now_ms: int) -> int:
        """Cut off the first batch that reaches ``offset``, and all behind it; where the segment ends now."""
        located = self.locate(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self._forget_recent()
        if located is not None:
            cut = FileRange(self.file, located.position, located.header.size).read()
            self.size = located.position
            self.found.cut(self.size)
            os.ftruncate(self.file.fd, self.size)
            # On disk before anything else is written: batches of equal size would line up with what comes back.
            os.fsync(self.file.fd)
            self._reserved = _RESERVED_BYTES_MIN
            offset = min(offset, first_offset(cut))
            self._believe_largest(self._scan_largest())
        if self.size == 0:
            self._first_timestamp = NO_TIMESTAMP
        self._bytes_since_index = 0
        self.activate(now_ms=now_ms)
        return offset

    def check_indexes(self) -> None:
        """Raise CorruptionError if the indexes are as a power cut leaves those that were sealed and never synced."""
        self.offset_index.check()
        self.time_index.check()

    def begin_rebuild(self, *, transactions: bool) -> None:
        """Forget what is derived from the batches; ``rebuild`` is then told of each in turn."""
        self.offset_index.reset()
        self.time_index.reset()
        if transactions:
            self.txn_index.reset()
        self._believe_largest(TimestampOffset(NO_TIMESTAMP, self.base_offset))
        self._first_timestamp = NO_TIMESTAMP
        self._bytes_since_index = 0

    def rebuild(self, located: Located) -> None:
        self._note(located.position, located.header)

    def cut(self, size: int) -> None:
        """Shorten the file for good, in recovery."""
        self.size = size
        self.found.cut(size)
        os.ftruncate(self.file.fd, size)
        os.fsync(self.file.fd)

    def sync_indexes(self) -> None:
        self.offset_index.sync()
        self.time_index.sync()

    def files_to_sync(self) -> list[OpenFile]:
        indexes = (self.offset_index.file_to_sync(), self.time_index.file_to_sync())
        return [self.file, *indexes, *self.txn_index.files()]

    def mark_deleted(self) -> list[Path]:
        """Take the files out of the log by their names; which ones are left to be deleted."""
        marked = self.rename(DELETED_SUFFIX)
        self.close()
        return marked

    def rename(self, ending: str) -> list[Path]:
        """Give the files names with another ending, the batches last; what they are called then."""
        old = [self._path(suffix) for suffix in SUFFIXES]
        self._ending = ending
        renamed = []
        for suffix, path in reversed(list(zip(SUFFIXES, old, strict=True))):
            with suppress(FileNotFoundError):
                renamed.append(path.replace(self._path(suffix)))
        self.moved(self.directory)
        return renamed

    def hold(self) -> None:
        """Open every file, so that it can be read whatever becomes of its name."""
        for file in (self.file, self.offset_index.file, self.time_index.file):
            assert file.fd >= 0

    def remove(self) -> None:
        self.close()
        for suffix in SUFFIXES:
            remove_if_there(self._path(suffix))

    def close(self) -> None:
        """Let go of the files. A range that was handed out keeps its own hold on them."""
        self.offset_index.close()
        self.time_index.close()
        self._file = None

    def moved(self, directory: Path) -> None:
        """The directory has another name; open files do not mind."""
        self.directory = directory
        self.offset_index.moved(self._path(INDEX_SUFFIX))
        self.time_index.moved(self._path(TIME_INDEX_SUFFIX))
        self.txn_index.moved(self._path(TXN_INDEX_SUFFIX))

    def _note(self, position: int, header: BatchHeader) -> None:
        if position == 0:
            self._first_timestamp = header.max_timestamp
        if not self._knows_largest:
            self._believe_largest(self.time_index.last)
        if header.max_timestamp > self._largest_timestamp:
            self._largest_timestamp = header.max_timestamp
            self._largest_offset = header.last_offset
        if self._bytes_since_index > self._config.index_interval_bytes:
            self.offset_index.append(header.last_offset, position)
            self.time_index.maybe_append(self._largest_timestamp, self._largest_offset)
            self._bytes_since_index = 0
        self._bytes_since_index += header.size
        if len(self._recent) >= _RECENT_BATCHES:
            self._less_recent, self._recent = self._recent, {}
        self._recent[header.base_offset] = (position, header)

    def _believe_largest(self, largest: TimestampOffset) -> None:
        self._largest_timestamp, self._largest_offset = largest
        self._knows_largest = True

    def _scan_largest(self) -> TimestampOffset:
        """The latest timestamp after a truncation: the index knows it up to its last entry, the rest is looked at."""
        largest = self.time_index.last
        start = self.offset_index.lookup(largest.offset).position if self.time_index.entries else 0
        for _, header in self.batches(start):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    def _age(self, max_timestamp: int, *, now_ms: int) -> int:
        """By the timestamps of the records where they have any, else by the clock."""
        if self.first_timestamp >= 0:
            return max_timestamp - self.first_timestamp
        return now_ms - self._created_ms

    def _forget_recent(self) -> None:
        self._recent.clear()
        self._less_recent.clear()
        self._read_next.clear()

    def _path(self, suffix: str) -> Path:
        return segment_path(self.directory, self.base_offset, suffix + self._ending)
