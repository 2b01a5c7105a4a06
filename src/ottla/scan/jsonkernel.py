"""JSON objects to the buffers of Arrow columns: one pass over the bytes, and no object for any field.

What is wanted of a value is noted where it lies (texts, and numbers that Arrow converts) or converted on the spot (integers, true
and false). What is not wanted is passed over, but has to be JSON as well. A value that is anything but plain, with an escape in a
wanted text, a field twice, a number that is no integer where one is wanted, or no JSON at all, is set aside: ``later`` names its row,
which is null in all columns, and a reader that knows everything decides about it.

This module is compiled (setup.py), and only then faster than that reader.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le, write_i64_le
from mypy_extensions import i64

from ottla.scan.kernel import Spans

TEXT: Final = 0
INTEGER: Final = 1
BOOLEAN: Final = 2
NUMBER: Final = 3

_QUOTE: Final = 0x22
_COMMA: Final = 0x2C
_MINUS: Final = 0x2D
_POINT: Final = 0x2E
_ZERO: Final = 0x30
_NINE: Final = 0x39
_COLON: Final = 0x3A
_OPEN_LIST: Final = 0x5B
_BACKSLASH: Final = 0x5C
_CLOSE_LIST: Final = 0x5D
_OPEN: Final = 0x7B
_CLOSE: Final = 0x7D
_DIGITS_MAX: Final = 18  # of which any number fits into 64 bits
_DEPTH_MAX: Final = 16


class Bits:
    """A bitmap, filled from its beginning."""

    def __init__(self) -> None:
        self._whole = BytesWriter()
        self._bits: i64 = 0
        self._count: i64 = 0

    def add(self, bit: i64) -> None:
        self._bits |= bit << (self._count & 7)
        self._count += 1
        if self._count & 7 == 0:
            self._whole.append(self._bits)
            self._bits = 0

    def getvalue(self) -> bytes:
        return self._whole.getvalue() + bytes((self._bits,))


class Field:
    """A wanted field: what was found of it in the row at hand, and its column so far."""

    def __init__(self, name: bytes, kind: int, low: int = 0, high: int = 0) -> None:
        self.name = name
        self.kind: i64 = kind
        self.size: i64 = len(name)
        self.spans = Spans()
        self._low: i64 = low
        self._high: i64 = high
        self._row: i64 = -1
        self._at: i64 = 0
        self._length: i64 = -1
        self._number: i64 = 0
        self._numbers = BytesWriter()
        self._trues = Bits()
        self._marks = Bits()

    def numbers(self) -> bytes:
        return self._numbers.getvalue()

    def trues(self) -> bytes:
        return self._trues.getvalue()

    def marks(self) -> bytes:
        """What of integers and booleans is not null."""
        return self._marks.getvalue()

    def take(self, data: bytes, at: i64, end: i64, row: i64) -> i64:
        """The value at ``at``; where it ends, or -1 if it is not plainly what is wanted."""
        if self._row == row:
            return -1
        self._row = row
        first: i64 = data[at]
        if first == 0x6E:  # null
            self._length = -1
            return _literal(data, at, end)
        self._length = 0
        if self.kind == TEXT:
            stop = _plain(data, at + 1, end) if first == _QUOTE else -1
            self._at, self._length = at + 1, stop - at - 1
            return stop + 1 if stop >= 0 else -1
        if self.kind == INTEGER:
            return self._integer(data, at, end)
        if self.kind == BOOLEAN:
            self._number = 1 if first == 0x74 else 0
            return _literal(data, at, end)
        stop = _number(data, at, end)
        self._at, self._length = at, stop - at
        return stop

    def keep(self, row: i64, start: i64) -> None:
        """The row at hand, which begins at ``start``, is done: what was found of it counts."""
        there = self._row == row and self._length >= 0
        if self.kind in (TEXT, NUMBER):
            self.spans.add(self._at if there else start, self._length if there else -1)
            return
        self._marks.add(1 if there else 0)
        if self.kind == INTEGER:
            write_i64_le(self._numbers, self._number if there else 0)
        else:
            self._trues.add(self._number if there else 0)

    def _integer(self, data: bytes, at: i64, end: i64) -> i64:
        negative = data[at] == _MINUS
        if negative:
            at += 1
        start, number = at, i64(0)
        while at < end:
            digit: i64 = data[at]
            if digit < _ZERO or digit > _NINE:
                break
            number = number * 10 + digit - _ZERO
            at += 1
            if at - start > _DIGITS_MAX:
                return -1
        if at == start or (data[start] == _ZERO and (negative or at > start + 1)):
            return -1
        if negative:
            number = -number
        self._number = number
        return at if self._low <= number <= self._high else -1


class Objects:
    """The columns of some fields, from objects that come one after the other."""

    def __init__(self, fields: list[Field]) -> None:
        self._fields = fields
        self.later: list[int] = []

    def take(self, data: bytes, bounds: bytes, marks: bytes, first: i64, count: i64) -> None:
        """``count`` elements of a binary array from ``first`` on, by its buffers. Empty ``marks``: none is null."""
        row: i64 = 0
        while row < count:
            index = first + row
            start: i64 = i64(read_i32_le(bounds, 4 * index))
            end: i64 = i64(read_i32_le(bounds, 4 * index + 4))
            wanted = row
            if len(marks) > 0 and (i64(marks[index >> 3]) >> (index & 7)) & 1 == 0:
                wanted = -2
            elif not self._object(data, start, end, row):
                wanted = -2
                self.later.append(row)
            for field in self._fields:
                field.keep(wanted, start)
            row += 1

    def _object(self, data: bytes, at: i64, end: i64, row: i64) -> bool:
        at = _space(data, at, end)
        if at >= end or data[at] != _OPEN:
            return False
        at = _space(data, at + 1, end)
        if at < end and data[at] == _CLOSE:
            return _space(data, at + 1, end) == end
        while True:
            if at >= end or data[at] != _QUOTE:
                return False
            start = at + 1
            at = _plain(data, start, end)
            if at < 0:
                return False
            field = self._named(data, start, at - start)
            at = _space(data, at + 1, end)
            if at >= end or data[at] != _COLON:
                return False
            at = _space(data, at + 1, end)
            if at >= end:
                return False
            at = _behind(data, at, end, 0) if field is None else field.take(data, at, end, row)
            if at < 0:
                return False
            at = _space(data, at, end)
            if at >= end:
                return False
            if data[at] == _CLOSE:
                return _space(data, at + 1, end) == end
            if data[at] != _COMMA:
                return False
            at = _space(data, at + 1, end)

    def _named(self, data: bytes, start: i64, size: i64) -> Field | None:
        for field in self._fields:
            if field.size == size and _same(data, start, field.name, size):
                return field
        return None


def _same(data: bytes, start: i64, name: bytes, size: i64) -> bool:
    at: i64 = 0
    while at < size:
        if data[start + at] != name[at]:
            return False
        at += 1
    return True


def _space(data: bytes, at: i64, end: i64) -> i64:
    while at < end:
        found: i64 = data[at]
        if found > 0x20 or found not in (0x20, 0x0A, 0x0D, 0x09):
            break
        at += 1
    return at


def _plain(data: bytes, at: i64, end: i64) -> i64:
    """Where the quote is that ends a text; -1 if there is anything else in it that is not itself."""
    while at < end:
        found: i64 = data[at]
        if found == _QUOTE:
            return at
        if found == _BACKSLASH or found < 0x20:
            return -1
        at += 1
    return -1


def _text(data: bytes, at: i64, end: i64) -> i64:
    """Behind the quote that ends a text which nobody wants; escapes by number are for others to judge."""
    while at < end:
        found: i64 = data[at]
        if found == _QUOTE:
            return at + 1
        if found < 0x20:
            return -1
        if found == _BACKSLASH:
            at += 1
            if at >= end or not _is_escape(data[at]):
                return -1
        at += 1
    return -1


def _is_escape(found: i64) -> bool:
    """Whether it may stand behind a backslash: a quote, a backslash, a slash, or one of bfnrt."""
    return found in (_QUOTE, _BACKSLASH, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74)


def _literal(data: bytes, at: i64, end: i64) -> i64:
    """Behind true, false or null."""
    first: i64 = data[at]
    if first == 0x74:
        return at + 4 if at + 4 <= end and _same(data, at, b"true", 4) else -1
    if first == 0x66:
        return at + 5 if at + 5 <= end and _same(data, at, b"false", 5) else -1
    return at + 4 if at + 4 <= end and _same(data, at, b"null", 4) else -1


def _number(data: bytes, at: i64, end: i64) -> i64:
    """Behind a number as JSON has them; whether a very large one is too large, others know."""
    if data[at] == _MINUS:
        at += 1
    start = at
    at = _digits(data, at, end)
    if at == start or at - start > 2 * _DIGITS_MAX or (data[start] == _ZERO and at > start + 1):
        return -1
    if at < end and data[at] == _POINT:
        start = at + 1
        at = _digits(data, start, end)
        if at == start:
            return -1
    if at < end and (data[at] == 0x65 or data[at] == 0x45):
        at += 1
        if at < end and (data[at] == 0x2B or data[at] == _MINUS):
            at += 1
        start = at
        at = _digits(data, at, end)
        if at == start or at - start > 2:
            return -1
    return at


def _digits(data: bytes, at: i64, end: i64) -> i64:
    while at < end and _ZERO <= data[at] <= _NINE:
        at += 1
    return at


def _behind(data: bytes, at: i64, end: i64, depth: i64) -> i64:
    """Behind a value of any kind; -1 if it is none, or too much."""
    first: i64 = data[at]
    if first == _QUOTE:
        return _text(data, at + 1, end)
    if first == _MINUS or _ZERO <= first <= _NINE:
        return _number(data, at, end)
    if first not in (_OPEN, _OPEN_LIST):
        return _literal(data, at, end)
    if depth >= _DEPTH_MAX:
        return -1
    close: i64 = _CLOSE if first == _OPEN else _CLOSE_LIST
    at = _space(data, at + 1, end)
    if at < end and data[at] == close:
        return at + 1
    while at < end:
        if first == _OPEN:
            at = _text(data, at + 1, end) if data[at] == _QUOTE else -1
            if at < 0:
                return -1
            at = _space(data, at, end)
            if at >= end or data[at] != _COLON:
                return -1
            at = _space(data, at + 1, end)
        at = _behind(data, at, end, depth + 1) if at < end else -1
        if at < 0:
            return -1
        at = _space(data, at, end)
        if at < end and data[at] == close:
            return at + 1
        if at >= end or data[at] != _COMMA:
            return -1
        at = _space(data, at + 1, end)
    return -1
