"""Jute, ZooKeeper's serialization, as plain functions over bytes.

Jute has no tags and no versions: a record is its fields in order, big-endian.

    int      4 bytes                 long     8 bytes             boolean  1 byte
    buffer   int length, then bytes; length -1 is null
    ustring  a buffer of UTF-8
    vector   int count, then elements; count -1 is null

A ``Reader`` walks one frame. Every length and count is checked against the bytes that are there before
anything is allocated for it, and anything impossible raises ``MarshallingError``. Writers append to a
``bytearray`` owned by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, TypeVar

from mypy_extensions import i64

from ottla.keeper.proto.errors import MarshallingError

T = TypeVar("T")

INT: Final = Struct(">i")
LONG: Final = Struct(">q")
_unpack_long = LONG.unpack_from
_pack_int = INT.pack
_pack_long = LONG.pack

NULL: Final = b"\xff\xff\xff\xff"


class Reader:
    """A cursor over one frame. ``data`` must be ``bytes`` so that slices are values, not views."""

    __slots__ = ("data", "end", "null_seen", "pos")
    pos: i64
    end: i64

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data)
        self.null_seen = False
        """A string that may not be null was. ZooKeeper reads on and stumbles only when it acts on the request."""

    def remaining(self) -> int:
        return self.end - self.pos

    def int32(self) -> int:
        pos = self.pos
        if pos + 4 > self.end:
            raise MarshallingError("frame ends inside an int")
        self.pos = pos + 4
        data = self.data
        # Byte by byte: compiled, that is a third of what it costs to call a Struct.
        value: i64 = data[pos]
        second: i64 = data[pos + 1]
        third: i64 = data[pos + 2]
        fourth: i64 = data[pos + 3]
        value = value << 24 | second << 16 | third << 8 | fourth
        return value if value < 1 << 31 else value - (1 << 32)

    def int64(self) -> int:
        pos = self.pos
        if pos + 8 > self.end:
            raise MarshallingError("frame ends inside a long")
        self.pos = pos + 8
        value: int = _unpack_long(self.data, pos)[0]
        return value

    def boolean(self) -> bool:
        pos = self.pos
        if pos >= self.end:
            raise MarshallingError("frame ends inside a boolean")
        self.pos = pos + 1
        return self.data[pos] != 0

    def buffer(self) -> bytes | None:
        length = self.int32()
        if length == -1:
            return None
        pos = self.pos
        self.pos = stop = self.pos_behind(length)
        return self.data[pos:stop]

    def pos_behind(self, length: int) -> int:
        """Where a buffer of ``length`` bytes ends that begins here; a null one is empty."""
        left = self.end - self.pos
        if not -1 <= length <= left:
            raise MarshallingError(f"a length of {length} in a frame with {left} bytes left")
        return self.pos + max(length, 0)

    def string(self) -> str:
        """A string that may not be null; if it is, it reads as empty and ``null_seen`` tells."""
        raw = self.buffer()
        if raw is None:
            self.null_seen = True
            return ""
        # As Java does it: what is not UTF-8 becomes U+FFFD, which no valid path contains.
        return raw.decode("utf-8", "replace")

    def nullable_string(self) -> str | None:
        if self.data[self.pos : self.pos + 4] == NULL:
            self.pos += 4
            return None
        return self.string()

    def vector(self, element: Callable[[Reader], T], element_bytes_min: int) -> list[T]:
        """A vector; null reads as empty."""
        return [element(self) for _ in range(self.count(element_bytes_min))]

    def count(self, element_bytes_min: int) -> int:
        """How many elements a vector has, bounded by the bytes present; null has none."""
        count = self.int32()
        if count == -1:
            return 0
        if count < 0 or count * element_bytes_min > self.end - self.pos:
            raise MarshallingError(f"a count of {count} in a frame with {self.end - self.pos} bytes left")
        return count

    def strings(self) -> list[str]:
        return self.vector(Reader.string, 4)


def put_int(out: bytearray, value: int) -> None:
    out += value.to_bytes(4, "big", signed=True)


def put_long(out: bytearray, value: int) -> None:
    out += _pack_long(value)


def put_boolean(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def put_buffer(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += NULL
    else:
        out += len(value).to_bytes(4, "big")
        out += value


def put_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += NULL
        return
    raw = value.encode()
    out += len(raw).to_bytes(4, "big")
    out += raw


def put_strings(out: bytearray, values: Iterable[str]) -> None:
    encoded = [v.encode() for v in values]
    out += _pack_int(len(encoded))
    for raw in encoded:
        out += _pack_int(len(raw))
        out += raw
