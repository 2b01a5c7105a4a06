"""Two sparse indexes of a segment: where an offset lies in the file, and which offset a time starts at.

    .index        relative offset i32, position i32           the last offset of a batch, and where the batch starts
    .timeindex    timestamp i64, relative offset i32          no batch up to this one has a later timestamp

Entries only grow. The file of the active segment is set to its full size at once, with zeros behind the last entry, and
trimmed when the segment is sealed or closed, as Kafka does it; so after a crash its size says nothing, and the loader
builds it anew. Entries are written by ``pwrite``, never through a mapping, where a full disk would kill the process;
lookups read a mapping that is made at the first one, so opening a log maps nothing.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from struct import Struct
from typing import ClassVar, NamedTuple

from ottla.base.errors import CorruptionError
from ottla.log.files import OpenFile, write_at
from ottla.records.batch import NO_TIMESTAMP


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
        self.entries = 0
        self._file: OpenFile | None = None
        self._map: mmap.mmap | None = None

    def open_sealed(self) -> None:
        """Take the file as it is: every whole entry counts."""
        size = self.path.stat().st_size
        if size % self.ENTRY.size:
            raise CorruptionError(f"{self.path}: {size} bytes are no whole number of entries")
        self.entries = size // self.ENTRY.size

    def open_active(self) -> None:
        """Make room for appends behind the entries that are there."""
        os.ftruncate(self.file.fd, max(self.max_entries, self.entries) * self.ENTRY.size)
        self._unmap()

    def reset(self) -> None:
        """Start over without entries."""
        self.entries = 0
        os.ftruncate(self.file.fd, 0)
        self._unmap()

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries - self.KEPT_FREE

    @property
    def valid_bytes(self) -> int:
        return self.entries * self.ENTRY.size

    def trim(self) -> None:
        """Cut off what was set aside."""
        os.ftruncate(self.file.fd, self.valid_bytes)
        self._unmap()

    def sync(self) -> None:
        os.fsync(self.file.fd)

    def close(self) -> None:
        self._unmap()
        if self._file is not None:
            self._file.close()
            self._file = None

    def moved(self, path: Path) -> None:
        self.path = path

    def _append(self, first: int, second: int) -> None:
        write_at(self.file.fd, (self.ENTRY.pack(first, second),), self.valid_bytes)
        self.entries += 1

    def _entry(self, slot: int) -> tuple[int, int]:
        if self._map is None or len(self._map) < (slot + 1) * self.ENTRY.size:
            self._unmap()
            self._map = mmap.mmap(self.file.fd, 0, prot=mmap.PROT_READ)
        first, second = self.ENTRY.unpack_from(self._map, slot * self.ENTRY.size)
        return first, second

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

    @property
    def file(self) -> OpenFile:
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
        return self.base_offset + self._entry(self.entries - 1)[0] if self.entries else self.base_offset

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
        if timestamp > self.last.timestamp:
            self._append(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry that is not later than ``timestamp``: no batch up to its offset can be later, either."""
        slot = self._slots_below(timestamp, column=0)
        if slot == 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        found, relative = self._entry(slot - 1)
        return TimestampOffset(found, self.base_offset + relative)

    def truncate_to(self, offset: int) -> None:
        self.entries = self._slots_below(offset - self.base_offset - 1, column=1)

    def all(self) -> list[TimestampOffset]:
        pairs = (self._entry(slot) for slot in range(self.entries))
        return [TimestampOffset(timestamp, self.base_offset + relative) for timestamp, relative in pairs]
