"""Thrift's binary and compact protocols, read into plain values. Pure, and in bounds whatever the bytes say.

A struct is a dict of (type, value) by field id, a map is a list of pairs, text is bytes. Every element takes a byte at least, so no
count can be larger than what is left of the value.

    binary     field: type i8, id i16 | list: type i8, count i32 | map: types i8 i8, count i32 | text: length i32
    compact    field: delta of the id and type in a byte, or type and the id as a zigzag varint | numbers as varints
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, Protocol

STOP: Final = 0
BOOL: Final = 2
BYTE: Final = 3
DOUBLE: Final = 4
I16: Final = 6
I32: Final = 8
I64: Final = 10
STRING: Final = 11
STRUCT: Final = 12
MAP: Final = 13
SET: Final = 14
LIST: Final = 15

Fields = dict[int, tuple[int, Any]]
_DEPTH_MAX = 64
_NUMBERS = {BYTE: Struct(">b"), I16: Struct(">h"), I32: Struct(">i"), I64: Struct(">q"), DOUBLE: Struct(">d")}
_LITTLE_DOUBLE = Struct("<d")
_COMPACT = {
    1: BOOL,
    2: BOOL,
    3: BYTE,
    4: I16,
    5: I32,
    6: I64,
    7: DOUBLE,
    8: STRING,
    9: LIST,
    10: SET,
    11: MAP,
    12: STRUCT,
}
_VARINT_BYTES_MAX = 10


class MalformedError(ValueError):
    """Bytes that are no such struct."""


class Reader(Protocol):
    def struct(self, depth: int = 0) -> Fields: ...

    @property
    def left(self) -> int: ...


def read_struct(data: bytes, *, compact: bool) -> Fields:
    """The struct that ``data`` consists of; raises MalformedError if there is more or less in it."""
    reader: Reader = CompactReader(data) if compact else BinaryReader(data)
    found = reader.struct()
    if reader.left:
        raise MalformedError(f"{reader.left} bytes follow the struct")
    return found


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise MalformedError(f"{size} bytes where {self.left} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _counted(self, count: int) -> int:
        if not 0 <= count <= self.left:
            raise MalformedError(f"{count} elements where {self.left} bytes are left")
        return count


class BinaryReader(_Bytes):
    def struct(self, depth: int = 0) -> Fields:
        _check(depth)
        fields: Fields = {}
        while (kind := self._byte()) != STOP:
            number = self._number(I16)
            fields[number] = (kind, self._value(kind, depth + 1))
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        _check(depth)
        if kind == BOOL:
            return self._byte() != 0
        if kind in _NUMBERS:
            return self._number(kind)
        if kind == STRING:
            return self._take(self._number(I32))
        if kind == STRUCT:
            return self.struct(depth)
        if kind in (LIST, SET):
            element = self._byte()
            return element, [self._value(element, depth + 1) for _ in range(self._counted(self._number(I32)))]
        if kind == MAP:
            key, value = self._byte(), self._byte()
            count = self._counted(self._number(I32))
            pairs = [(self._value(key, depth + 1), self._value(value, depth + 1)) for _ in range(count)]
            return key, value, pairs
        raise MalformedError(f"no type has the number {kind}")

    def _number(self, kind: int) -> Any:
        unpack = _NUMBERS[kind]
        return unpack.unpack(self._take(unpack.size))[0]


class CompactReader(_Bytes):
    def struct(self, depth: int = 0) -> Fields:
        _check(depth)
        fields: Fields = {}
        number = 0
        while (head := self._byte()) != STOP:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            wire = head & 0x0F
            kind = _kind(wire)
            fields[number] = (kind, wire == 1 if kind == BOOL else self._value(kind, depth + 1))
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        _check(depth)
        if kind == BOOL:
            return self._byte() == 1
        if kind == BYTE:
            return int.from_bytes(self._take(1), "big", signed=True)
        if kind in (I16, I32, I64):
            return self._zigzag()
        if kind == DOUBLE:
            return _LITTLE_DOUBLE.unpack(self._take(8))[0]
        if kind == STRING:
            return self._take(self._varint())
        if kind == STRUCT:
            return self.struct(depth)
        if kind in (LIST, SET):
            head = self._byte()
            element = _kind(head & 0x0F)
            count = self._varint() if head >> 4 == 15 else head >> 4
            return element, [self._value(element, depth + 1) for _ in range(self._counted(count))]
        count = self._counted(self._varint())
        if not count:
            return STOP, STOP, []
        types = self._byte()
        key, value = _kind(types >> 4), _kind(types & 0x0F)
        return key, value, [(self._value(key, depth + 1), self._value(value, depth + 1)) for _ in range(count)]

    def _varint(self) -> int:
        value = 0
        for place in range(_VARINT_BYTES_MAX):
            byte = self._byte()
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value
        raise MalformedError("a number is longer than its type allows")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _kind(wire: int) -> int:
    if wire not in _COMPACT:
        raise MalformedError(f"no type has the number {wire}")
    return _COMPACT[wire]


def _check(depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise MalformedError(f"structs and lists are more than {_DEPTH_MAX} deep in each other")
