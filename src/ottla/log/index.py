"""Two sparse indexes of a segment: where an offset lies in the file, and which offset a time starts at.

    .index        relative offset i32, position i32           the last offset of a batch, and where the batch starts
    .timeindex    timestamp i64, relative offset i32          no batch up to this one has a later timestamp

Entries only grow. The file of the active segment is set to its full size at once, with zeros behind the last entry, and
trimmed when the segment is sealed or closed, as Kafka does it; so after a crash its size says nothing, and the loader
builds it anew. Sealing does not wait for the disk: a power cut before the next flush may bring back the zeros, or leave
them in place of the last entry, which ``check`` finds out.

New entries gather in memory and go to the file in blocks, when it is synced, and when the segment is sealed: whoever needs
the file before that builds it anew anyway. They are written by ``pwrite``, never through a mapping, where a full disk would
kill the process; lookups read a mapping that is made at the first one, so opening a log maps nothing. Between all that the
file is closed: a broker with ten thousand partitions, or segments, has them open, and could not have two indexes of each besides.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import ClassVar, Final, NamedTuple

from ottla.base.errors import CorruptionError
from ottla.log.files import OpenFile, read_at, write_at
from ottla.records.batch import NO_TIMESTAMP

_BLOCK_BYTES: Final = 4096


class OffsetPosition(NamedTuple):
    offset: int
    position: int


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class _Index:
    """A file of entries of one size. The first ``entries`` of them count."""

    ENTRY: ClassVar[Struct]
    KEPT_FREE: ClassVar[int] = 0
    """Entries that are not for appends, but for what sealing adds."""

    def __init__(self, path: Path, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max(max_bytes // self.ENTRY.size, 1)
        self._appendable = self.max_entries - self.KEPT_FREE
        self.entries = 0
        self._file: OpenFile | None = None
        self._map: mmap.mmap | None = None
        self._unwritten = bytearray()
        """The last of the entries, which the file lacks."""
        self._appended = 0
        """What the last entry that was appended begins with,"""
        self._appended_slot = -1
        """and its slot: it still is the last one if that is."""

    def open_sealed(self) -> None:
        """Take the file as it is: every whole entry counts."""
        size = self.path.stat().st_size
        if size % self.ENTRY.size:
            raise CorruptionError(f"{self.path}: {size} bytes are no whole number of entries")
        self.entries = size // self.ENTRY.size

    def check(self) -> None:
        """Raise CorruptionError unless the last entry is one, and larger than the one before."""
        if self.entries == 0:
            return
        count = min(self.entries, 2)
        with self._opened() as file:
            self.write()
            data = read_at(file.fd, count * self.ENTRY.size, (self.entries - count) * self.ENTRY.size)
        last = [self.ENTRY.unpack_from(data, slot * self.ENTRY.size) for slot in range(count)]
        grows = count == 1 or (last[0][0] < last[1][0] and last[0][1] <= last[1][1])
        if last[-1] == (0, 0) or not grows:
            raise CorruptionError(f"{self.path} ends in an entry that was never written")

    def open_active(self) -> None:
        """Make room for appends behind the entries that are there."""
        with self._opened() as file:
            os.ftruncate(file.fd, max(self.max_entries, self.entries) * self.ENTRY.size)
        self._unmap()

    def reset(self) -> None:
        """Start over without entries."""
        self.entries = 0
        self._unwritten.clear()
        with self._opened() as file:
            os.ftruncate(file.fd, 0)
        self._unmap()

    @property
    def is_full(self) -> bool:
        return self.entries >= self._appendable

    @property
    def valid_bytes(self) -> int:
        return self.entries * self.ENTRY.size

    def trim(self) -> None:
        """Cut off what was set aside."""
        with self._opened() as file:
            self.write()
            os.ftruncate(file.fd, self.valid_bytes)
        self._unmap()

    def write(self) -> None:
        """Bring into the file what was appended."""
        if self._unwritten:
            write_at(self.file.fd, (bytes(self._unwritten),), self.valid_bytes - len(self._unwritten))
            self._unwritten.clear()

    def sync(self) -> None:
        with self._opened() as file:
            self.write()
            os.fsync(file.fd)

    def file_to_sync(self) -> OpenFile:
        """The file with all that was appended, open for as long as somebody holds on to it."""
        with self._opened() as file:
            self.write()
            return file

    def close(self) -> None:
        """Let go of the file. A flush that was begun keeps its own hold on it."""
        self._unmap()
        self._file = None

    def moved(self, path: Path) -> None:
        self.path = path

    def _append(self, first: int, second: int) -> None:
        self._unwritten += self.ENTRY.pack(first, second)
        self._appended, self._appended_slot = first, self.entries
        self.entries += 1
        if len(self._unwritten) >= _BLOCK_BYTES:
            self.write()
            self._file = None

    def _entry(self, slot: int) -> tuple[int, int]:
        unwritten = slot * self.ENTRY.size - (self.valid_bytes - len(self._unwritten))
        if unwritten >= 0:
            first, second = self.ENTRY.unpack_from(self._unwritten, unwritten)
            return first, second
        if self._map is None or len(self._map) < (slot + 1) * self.ENTRY.size:
            self._unmap()
            with self._opened() as file:
                self._map = mmap.mmap(file.fd, 0, prot=mmap.PROT_READ)
        first, second = self.ENTRY.unpack_from(self._map, slot * self.ENTRY.size)
        return first, second

    def _last(self) -> int:
        """What the last entry begins with. There is one."""
        last = self.entries - 1
        return self._appended if self._appended_slot == last else self._entry(last)[0]

    def _slots_below(self, target: int, *, column: int) -> int:
        """How many entries have a value of at most ``target`` in ``column``."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[column] <= target:
                low = middle + 1
            else:
                high = middle
        return low

    @contextmanager
    def _opened(self) -> Iterator[OpenFile]:
        """The file for a while, in which it is not opened twice."""
        held = self._file
        try:
            yield self.file
        finally:
            self._file = held

    @property
    def file(self) -> OpenFile:
        """Open from here to ``close``."""
        if self._file is None:
            self._file = OpenFile(self.path, os.O_RDWR | os.O_CREAT)
        return self._file

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None


class OffsetIndex(_Index):
    ENTRY = Struct(">ii")

    @property
    def last_offset(self) -> int:
        return self.base_offset + self._last() if self.entries else self.base_offset

    def append(self, offset: int, position: int) -> None:
        assert self.entries == 0 or offset > self.last_offset, f"{self.path}: {offset} after {self.last_offset}"
        self._append(offset - self.base_offset, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry that is not behind ``offset``; the start of the segment if there is none."""
        slot = self._slots_below(offset - self.base_offset, column=0)
        if slot == 0:
            return OffsetPosition(self.base_offset, 0)
        relative, position = self._entry(slot - 1)
        return OffsetPosition(self.base_offset + relative, position)

    def first_behind(self, position: int) -> OffsetPosition | None:
        """The first entry that lies at ``position`` or behind it."""
        slot = self._slots_below(position - 1, column=1)
        if slot == self.entries:
            return None
        relative, found = self._entry(slot)
        return OffsetPosition(self.base_offset + relative, found)

    def truncate_to(self, offset: int) -> None:
        """Forget the entries at ``offset`` and behind it."""
        self.write()
        self.entries = self._slots_below(offset - self.base_offset - 1, column=0)

    def all(self) -> list[OffsetPosition]:
        pairs = (self._entry(slot) for slot in range(self.entries))
        return [OffsetPosition(self.base_offset + relative, position) for relative, position in pairs]


class TimeIndex(_Index):
    ENTRY = Struct(">qi")
    KEPT_FREE = 1

    @property
    def last(self) -> TimestampOffset:
        if self.entries == 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        timestamp, relative = self._entry(self.entries - 1)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if it says anything new. There is room for one more than ``is_full`` admits, for sealing."""
        if timestamp > (self._last() if self.entries else NO_TIMESTAMP):
            self._append(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry that is not later than ``timestamp``: no batch up to its offset can be later, either."""
        slot = self._slots_below(timestamp, column=0)
        if slot == 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        found, relative = self._entry(slot - 1)
        return TimestampOffset(found, self.base_offset + relative)

    def truncate_to(self, offset: int) -> None:
        self.write()
        self.entries = self._slots_below(offset - self.base_offset - 1, column=1)

    def all(self) -> list[TimestampOffset]:
        pairs = (self._entry(slot) for slot in range(self.entries))
        return [TimestampOffset(timestamp, self.base_offset + relative) for timestamp, relative in pairs]
