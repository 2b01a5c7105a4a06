"""Record batches to the buffers of Arrow columns: one pass over the bytes, and no object for any record.

Numbers are appended to little-endian buffers as Arrow has them. Keys and values are not copied at all: for each, where it
begins and ends in the data it lies in is noted, and the columns are gathered from there at once (``columns``)::

    bounds   0, start, end, start, end, ...      offsets of a binary array in which every second element is wanted
    marks    two bits an element pair, the second of which says that the wanted one is not null

What a filter leaves out is passed over here, before anything of it is written.

This module is compiled (setup.py), which is why it knows nothing but ints and bytes, and why faults are numbers: those of
``ottla.records.walk``. The budget is 80 ns a record with key, value, offset and timestamp (bench/spark.py).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from ottla.records.walk import BAD_HEADERS, BAD_LENGTH, BAD_OFFSET, BAD_VARINT, OK, TRUNCATED, varint, varlong

OFFSET_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF
TIMESTAMP_MIN: Final = -0x7FFF_FFFF_FFFF_FFFF
TIMESTAMP_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF

# Milliseconds beyond these have no microseconds in 64 bits.
_MILLIS_MAX: Final = 9_223_372_036_854_775
_MILLIS_MIN: Final = -9_223_372_036_854_775


class Spans:
    """Where the elements of a column of bytes lie, in the order of their places."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.nulls: i64 = 0
        self.bytes: i64 = 0
        self._bounds = BytesWriter()
        self._marks = BytesWriter()
        self._bits: i64 = 0
        write_i32_le(self._bounds, 0)

    def add(self, at: i64, size: i64) -> None:
        write_i32_le(self._bounds, i32(at))
        shift = (self.count & 3) << 1
        if size < 0:
            self.nulls += 1
            write_i32_le(self._bounds, i32(at))
        else:
            self.bytes += size
            self._bits |= 2 << shift
            write_i32_le(self._bounds, i32(at + size))
        self.count += 1
        if shift == 6:
            self._marks.append(self._bits)
            self._bits = 0

    def bounds(self) -> bytes:
        return self._bounds.getvalue()

    def marks(self) -> bytes:
        """The bitmap of what is not null; elements between the wanted ones count as null."""
        return self._marks.getvalue() + bytes((self._bits,))


class Collector:
    """The wanted columns of the records that pass the filter.

    ``data`` that is passed to ``take`` has to be the same for all batches until the columns are made, and the batches have
    to come in the order in which they lie in it.
    """

    def __init__(
        self,
        *,
        keys: bool,
        values: bool,
        headers: bool,
        offsets: bool,
        timestamps: bool,
        first_offset: int,
        end_offset: int,
        timestamp_from: int,
        timestamp_until: int,
        only_keys: list[bytes] | None,
    ) -> None:
        self.count: i64 = 0
        self.keys: Spans | None = Spans() if keys else None
        self.values: Spans | None = Spans() if values else None
        self.header_keys: Spans | None = Spans() if headers else None
        self.header_values: Spans | None = Spans() if headers else None
        self._offsets: BytesWriter | None = BytesWriter() if offsets else None
        self._timestamps: BytesWriter | None = BytesWriter() if timestamps else None
        self._header_ends = BytesWriter()
        self._header_marks = BytesWriter()
        self._header_bits: i64 = 0
        self._headers: i64 = 0
        self._first_offset: i64 = first_offset
        self._end_offset: i64 = end_offset
        self._timestamp_from: i64 = timestamp_from
        self._timestamp_until: i64 = timestamp_until
        self._only_keys = only_keys
        if headers:
            write_i32_le(self._header_ends, 0)

    def offsets(self) -> bytes:
        return b"" if self._offsets is None else self._offsets.getvalue()

    def timestamps(self) -> bytes:
        return b"" if self._timestamps is None else self._timestamps.getvalue()

    def header_ends(self) -> bytes:
        return self._header_ends.getvalue()

    def header_marks(self) -> bytes:
        return self._header_marks.getvalue() + bytes((self._header_bits,))

    def take(
        self, data: bytes, start: i64, end: i64, count: i64, base_offset: i64, base_timestamp: i64, append_time: i64
    ) -> i64:
        """The ``count`` records of a batch that lie in ``data[start:end]``; which fault ended it, if any.

        ``append_time`` is the timestamp of all, or negative if each has its own.
        """
        offsets, timestamps, keys, values = self._offsets, self._timestamps, self.keys, self.values
        only_keys = self._only_keys
        first_offset, end_offset = self._first_offset, self._end_offset
        timestamp_from, timestamp_until = self._timestamp_from, self._timestamp_until
        at = start
        index: i64 = 0
        if start < 0 or end > len(data):
            return TRUNCATED
        while index < count:
            length, at = _number(data, at, end)
            if at < 0:
                return -at
            stop = at + length
            if length < 1 or stop > end:
                return TRUNCATED if stop > end else BAD_LENGTH
            delta, at = varlong(data, at + 1, stop)
            if at < 0:
                return _inside(at)
            offset_delta, at = _number(data, at, stop)
            if at < 0:
                return _inside(at)
            if offset_delta < 0:
                return BAD_OFFSET
            key_size, at = _number(data, at, stop)
            if at < 0:
                return _inside(at)
            key_at = at
            if key_size > 0:
                at += key_size
            value_size, at = _number(data, at, stop)
            if at < 0:
                return _inside(at)
            value_at = at
            if value_size > 0:
                at += value_size
            if at >= stop:
                return BAD_LENGTH
            offset = base_offset + offset_delta
            timestamp = append_time if append_time >= 0 else base_timestamp + delta
            if (
                first_offset <= offset < end_offset
                and timestamp_from <= timestamp < timestamp_until
                and (only_keys is None or _is_one_of(only_keys, data, key_at, key_size))
            ):
                if offsets is not None:
                    write_i64_le(offsets, offset)
                if timestamps is not None:
                    write_i64_le(timestamps, _micros(timestamp))
                if keys is not None:
                    keys.add(key_at, key_size)
                if values is not None:
                    values.add(value_at, value_size)
                if self.header_keys is not None:
                    fault = self._take_headers(data, at, stop)
                    if fault != OK:
                        return fault
                self.count += 1
            at = stop
            index += 1
        return OK

    def _take_headers(self, data: bytes, at: i64, stop: i64) -> i64:
        number, at = _number(data, at, stop)
        if at < 0:
            return _inside(at)
        if number < 0 or number > stop - at:
            return BAD_HEADERS
        names, contents = self.header_keys, self.header_values
        assert names is not None
        assert contents is not None
        if number > 0:
            self._header_bits |= 1 << (self.count & 7)
        self._headers += number
        while number > 0:
            size, at = _number(data, at, stop)
            if at < 0:
                return _inside(at)
            if size < 0 or at + size > stop:
                return BAD_HEADERS
            names.add(at, size)
            at += size
            size, at = _number(data, at, stop)
            if at < 0:
                return _inside(at)
            if size > 0 and at + size > stop:
                return BAD_LENGTH
            contents.add(at, size)
            if size > 0:
                at += size
            number -= 1
        write_i32_le(self._header_ends, i32(self._headers))
        if self.count & 7 == 7:
            self._header_marks.append(self._header_bits)
            self._header_bits = 0
        return OK


def _is_one_of(keys: list[bytes], data: bytes, at: i64, size: i64) -> bool:
    for key in keys:  # noqa: SIM110  # a generator would be made for each record
        if len(key) == size and data[at : at + size] == key:
            return True
    return False


def _number(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """``varint``, with its commonest cases where the compiler can put them in place."""
    if at + 1 < end:
        value: i64 = data[at]
        if value < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        second: i64 = data[at + 1]
        if second < 0x80:
            value = (value & 0x7F) | (second << 7)
            return (value >> 1) ^ -(value & 1), at + 2
    return varint(data, at, end)


def _micros(timestamp: i64) -> i64:
    """Microseconds of milliseconds; what 64 bits cannot hold becomes the last or first that they can."""
    if timestamp > _MILLIS_MAX:
        timestamp = _MILLIS_MAX
    elif timestamp < _MILLIS_MIN:
        timestamp = _MILLIS_MIN
    return timestamp * 1000


def _inside(at: i64) -> i64:
    """The fault behind the negative end of a number within a record."""
    return BAD_VARINT if at == -BAD_VARINT else BAD_LENGTH
