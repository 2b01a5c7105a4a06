"""A cursor over a stream of chunks, with the running checksum that seals are compared with.

It holds one window of bytes: the rest of the current chunk, joined with the next only where a field spans the two.
Nothing is believed about what has not arrived. A length or count larger than the bytes that are left, where that is
known, is refused before anything is allocated; elsewhere memory grows only with the bytes received.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any
from zlib import adler32

from ottla.base.errors import CorruptionError
from ottla.keeper.proto.jute import INT, LONG

_SEAL_PATH = "/"


class Source:
    __slots__ = ("_base", "_checksum", "_chunks", "_pos", "_size", "_summed", "_window")

    def __init__(self, chunks: Iterable[bytes], size: int | None) -> None:
        self._chunks = iter(chunks)
        self._size = size
        self._window = b""
        self._pos = 0
        self._base = 0  # the offset of the window in the stream
        self._summed = 0  # up to where in the window the checksum has gone
        self._checksum = 1

    @property
    def offset(self) -> int:
        return self._base + self._pos

    def take(self, length: int) -> bytes:
        pos = self._pos
        stop = pos + length
        if stop > len(self._window):
            self._fill(length)
            pos, stop = self._pos, self._pos + length
        self._pos = stop
        return self._window[pos:stop]

    def unpack(self, fields: Struct) -> tuple[Any, ...]:
        """The next fields of fixed size; read where they lie, since a large tree consists of little else."""
        pos = self._pos
        stop = pos + fields.size
        if stop > len(self._window):
            self._fill(fields.size)
            pos, stop = self._pos, self._pos + fields.size
        self._pos = stop
        return fields.unpack_from(self._window, pos)

    def int32(self) -> int:
        value: int = self.unpack(INT)[0]
        return value

    def int64(self) -> int:
        value: int = self.unpack(LONG)[0]
        return value

    def count(self, element_bytes_min: int) -> int:
        """How many elements follow; null reads as none."""
        count = self.int32()
        if count < -1:
            raise CorruptionError(f"offset {self.offset}: a count of {count}")
        self._bound(count * element_bytes_min)
        return max(count, 0)

    def buffer(self) -> bytes | None:
        length: int = self.unpack(INT)[0]
        if length == -1:
            return None
        if length < 0:
            raise CorruptionError(f"offset {self.offset}: a length of {length}")
        return self.take(length)

    def string(self) -> str:
        raw = self.buffer()
        if raw is None:
            raise CorruptionError(f"offset {self.offset}: null where a string should be")
        return raw.decode()

    def at_end(self) -> bool:
        while self._pos == len(self._window):
            if not self._more():
                return True
        return False

    def check_seal(self) -> None:
        """Compare the checksum of every byte so far with the one that follows."""
        self._sum()
        expected, found = self._checksum, self.int64()
        if found != expected:
            raise CorruptionError(f"offset {self.offset}: the checksum does not match")
        if self.string() != _SEAL_PATH:
            raise CorruptionError(f"offset {self.offset}: a seal without its end")

    def _fill(self, length: int) -> None:
        """Have ``length`` bytes in the window."""
        self._bound(length)
        self._sum()
        parts = [self._window[self._pos :]]
        self._base += self._pos
        self._pos = self._summed = 0
        have = len(parts[0])
        while have < length:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise CorruptionError(f"offset {self._base + have}: the snapshot ends in the middle")
            parts.append(chunk)
            have += len(chunk)
        self._window = b"".join(parts)

    def _more(self) -> bool:
        """Replace a window that is used up."""
        self._sum()
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self._base += len(self._window)
        self._window, self._pos, self._summed = chunk, 0, 0
        return True

    def _sum(self) -> None:
        self._checksum = adler32(memoryview(self._window)[self._summed : self._pos], self._checksum)
        self._summed = self._pos

    def _bound(self, length: int) -> None:
        if self._size is not None and length > self._size - self.offset:
            raise CorruptionError(f"offset {self.offset}: {length} bytes announced, {self._size - self.offset} left")
