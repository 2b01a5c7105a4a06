"""Walks the records of a batch without taking anything out: lengths, deltas and bounds, byte by byte.

A record (every number but the attributes is a zigzag varint)::

    length        of everything below
    attributes    i8, unused
    timestamp_delta   varlong
    offset_delta
    key length (-1: none), key
    value length (-1: none), value
    number of headers, and for each: key length, key, value length (-1: none), value

``walk`` does it over one run of bytes, ``StreamWalk`` over chunks as a decompressor yields them, in constant memory
however large a record is. Both hold a batch to the same rules and find the same ``Walked`` (tests/property).

This module is compiled (setup.py); the budget is 4 µs for 150 records in 16 KB (bench/log.py). That is why it knows
nothing but ints and bytes, and why faults are numbers.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

OK: Final = 0
TRUNCATED: Final = 1
BAD_VARINT: Final = 2
BAD_LENGTH: Final = 3
BAD_OFFSET: Final = 4
BAD_HEADERS: Final = 5
LEFT_OVER: Final = 6

FAULTS = {
    TRUNCATED: "the batch ends within it",
    BAD_VARINT: "a number in it is longer than its type allows",
    BAD_LENGTH: "its lengths do not fit into each other",
    BAD_OFFSET: "its offset does not follow the one before",
    BAD_HEADERS: "its headers cannot be",
    LEFT_OVER: "bytes follow the last one",
}

# Deltas start here, so that the first one seen is both smallest and largest.
_NONE_YET_MIN: Final = 0x7FFF_FFFF_FFFF_FFFF
_NONE_YET_MAX: Final = -0x7FFF_FFFF_FFFF_FFFF

# (fault, index of the record it was found in, smallest and largest timestamp delta, first record without key or -1)
Walked = tuple[i64, i64, i64, i64, i64]


def varint(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """A 32-bit number and where it ends; a negative end is a fault with its sign turned."""
    if at + 1 < end:  # nearly all have one byte or two
        first: i64 = data[at]
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        second: i64 = data[at + 1]
        if second < 0x80:
            first = (first & 0x7F) | (second << 7)
            return (first >> 1) ^ -(first & 1), at + 2
    return _varint(data, at, end)


def _varint(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    value: i64 = 0
    shift: i64 = 0
    while True:
        if at >= end:
            return 0, -TRUNCATED
        byte: i64 = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                return 0, -BAD_VARINT
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 28:
            return 0, -BAD_VARINT


def varlong(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """A 64-bit number and where it ends; a negative end is a fault with its sign turned."""
    if at + 1 < end:
        first: i64 = data[at]
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        second: i64 = data[at + 1]
        if second < 0x80:
            first = (first & 0x7F) | (second << 7)
            return (first >> 1) ^ -(first & 1), at + 2
    return _varlong(data, at, end)


def _varlong(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    value: i64 = 0
    shift: i64 = 0
    while True:
        if at >= end:
            return 0, -TRUNCATED
        byte: i64 = data[at]
        at += 1
        if shift == 63 and byte > 1:
            return 0, -BAD_VARINT
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return _signed(value), at
        shift += 7


def _signed(zigzag: i64) -> i64:
    half = zigzag >> 1
    if zigzag < 0:
        # The compiled shift has carried the sign along. It takes ten bytes to get here, and a while to make so large a mask.
        half &= 0x7FFF_FFFF_FFFF_FFFF
    return half ^ -(zigzag & 1)


def walk(data: bytes, start: i64, end: i64, count: i64) -> Walked:
    """Walk the ``count`` records that ``data[start:end]`` is to consist of."""
    at = start
    index: i64 = 0
    low: i64 = _NONE_YET_MIN
    high: i64 = _NONE_YET_MAX
    keyless: i64 = -1
    if start < 0 or end > len(data):
        return TRUNCATED, index, low, high, keyless
    while index < count:
        length, at = varint(data, at, end)
        if at < 0:
            return -at, index, low, high, keyless
        stop = at + length
        if length < 1 or stop > end:
            return TRUNCATED if stop > end else BAD_LENGTH, index, low, high, keyless
        delta, at = varlong(data, at + 1, stop)
        if at < 0:
            return _inside(at), index, low, high, keyless
        low = min(low, delta)
        high = max(high, delta)
        offset, at = varint(data, at, stop)
        if at < 0:
            return _inside(at), index, low, high, keyless
        if offset != index:
            return BAD_OFFSET, index, low, high, keyless
        size, at = varint(data, at, stop)
        if at < 0:
            return _inside(at), index, low, high, keyless
        if size >= 0:
            at += size
        elif keyless < 0:
            keyless = index
        size, at = varint(data, at, stop)
        if at < 0:
            return _inside(at), index, low, high, keyless
        if size > 0:
            at += size
        # One byte says that there are no headers, as it mostly is.
        if at + 1 != stop or data[at] != 0:
            fault = _walk_headers(data, at, stop)
            if fault != OK:
                return fault, index, low, high, keyless
        at = stop
        index += 1
    if at != end:
        return LEFT_OVER, index, low, high, keyless
    return OK, index, low, high, keyless


def _inside(at: i64) -> i64:
    """The fault behind the negative end of a number within a record: that it ends early is a matter of its lengths."""
    return BAD_VARINT if at == -BAD_VARINT else BAD_LENGTH


def _walk_headers(data: bytes, at: i64, stop: i64) -> i64:
    """Headers have to fill the record up to ``stop``."""
    number, at = varint(data, at, stop)
    if at < 0:
        return _inside(at)
    if number < 0 or number > stop - at:
        return BAD_HEADERS
    while number > 0:
        size, at = varint(data, at, stop)
        if at < 0:
            return _inside(at)
        if size < 0:
            return BAD_HEADERS
        at += size
        if at > stop:
            return BAD_LENGTH
        size, at = varint(data, at, stop)
        if at < 0:
            return _inside(at)
        if size > 0:
            at += size
            if at > stop:
                return BAD_LENGTH
        number -= 1
    return OK if at == stop else BAD_LENGTH


# What StreamWalk expects next.
_LENGTH: Final = 0
_ATTRIBUTES: Final = 1
_TIMESTAMP: Final = 2
_OFFSET: Final = 3
_KEY: Final = 4
_VALUE: Final = 5
_HEADERS: Final = 6
_HEADER_KEY: Final = 7
_HEADER_VALUE: Final = 8


class StreamWalk:
    """``walk`` over chunks: ``feed`` each, stop at a fault, then ``finish``."""

    def __init__(self, count: int) -> None:
        self._count: i64 = count
        self._index: i64 = 0
        self._low: i64 = _NONE_YET_MIN
        self._high: i64 = _NONE_YET_MAX
        self._keyless: i64 = -1
        self._fault: i64 = OK
        self._expected: i64 = _LENGTH
        self._left: i64 = 0  # bytes of the record that were not walked yet
        self._skip: i64 = 0  # bytes of a key or a value that were not walked yet
        self._headers: i64 = 0
        self._value: i64 = 0  # of a number that is not complete yet
        self._shift: i64 = 0

    def feed(self, chunk: bytes) -> bool:
        """Walk one chunk; False once there is a fault."""
        at: i64 = 0
        end: i64 = len(chunk)
        while at < end and self._fault == OK:
            if self._skip > 0:
                step = min(end - at, self._skip)
                at += step
                self._skip -= step
                continue
            if self._index == self._count:
                self._fault = LEFT_OVER
                break
            byte: i64 = chunk[at]
            at += 1
            if self._expected != _LENGTH:
                if self._left == 0:
                    self._fault = BAD_LENGTH
                    break
                self._left -= 1
            if self._expected == _ATTRIBUTES:
                self._expected = _TIMESTAMP
            else:
                self._take(byte)
        return self._fault == OK

    def finish(self) -> Walked:
        if self._fault == OK and (self._index < self._count or self._skip > 0):
            self._fault = TRUNCATED
        return self._fault, self._index, self._low, self._high, self._keyless

    def _take(self, byte: i64) -> None:
        """One byte of a number."""
        if self._shift == 63 and byte > 1:
            self._fault = BAD_VARINT
            return
        self._value |= (byte & 0x7F) << self._shift
        if byte >= 0x80:
            self._shift += 7
            if self._shift > 28 and self._expected != _TIMESTAMP:
                self._fault = BAD_VARINT
            return
        value = self._value
        self._value = 0
        self._shift = 0
        if self._expected != _TIMESTAMP and value > 0xFFFF_FFFF:
            self._fault = BAD_VARINT
            return
        self._number(_signed(value))

    def _number(self, number: i64) -> None:
        expected = self._expected
        if expected == _LENGTH:
            if number < 1:
                self._fault = BAD_LENGTH
            self._left = number
            self._expected = _ATTRIBUTES
        elif expected == _TIMESTAMP:
            self._low = min(self._low, number)
            self._high = max(self._high, number)
            self._expected = _OFFSET
        elif expected == _OFFSET:
            if number != self._index:
                self._fault = BAD_OFFSET
            self._expected = _KEY
        elif expected == _KEY:
            if number < 0 and self._keyless < 0:
                self._keyless = self._index
            self._skipping(number, _VALUE)
        elif expected == _VALUE:
            self._skipping(number, _HEADERS)
        elif expected == _HEADERS:
            if number < 0 or number > self._left:
                self._fault = BAD_HEADERS
            self._headers = number
            self._next_header()
        elif expected == _HEADER_KEY:
            if number < 0:
                self._fault = BAD_HEADERS
            self._skipping(number, _HEADER_VALUE)
        else:
            self._skipping(number, _HEADER_KEY)
            self._headers -= 1
            self._next_header()

    def _skipping(self, size: i64, then: i64) -> None:
        self._expected = then
        if size > 0:
            if size > self._left:
                self._fault = BAD_LENGTH
            self._left -= size
            self._skip = size

    def _next_header(self) -> None:
        if self._headers > 0:
            self._expected = _HEADER_KEY
        elif self._fault == OK:
            # What is to be skipped is taken off already.
            if self._left != 0:
                self._fault = BAD_LENGTH
            self._index += 1
            self._expected = _LENGTH
