"""The keys of a compaction: which offset is the last of each, and the records of a batch that are.

The map is a table with open addressing, 16 bytes a slot::

    word 0    64 bits of the key's hash
    word 1    offset + 1, counted from where the map starts (40 bits); 24 more bits of hash

So 88 bits tell keys apart. Keys themselves are not kept: among a hundred million keys looked up in a full map of the default
size, two are taken for one another once in 10¹² rounds. The first 64 bits are Python's hash of bytes, SipHash under a secret
of the process, so nobody can send keys that collide. It takes a tenth of the time of MD5, which Kafka uses, and a slot
takes two thirds of the memory. A word of 0 is a free slot.

This module is compiled (setup.py); a key takes about 0.1 µs in each of the two passes (bench/cleaner.py).
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from ottla.base.checksums import crc32c
from ottla.records.walk import BAD_LENGTH, BAD_VARINT, OK, TRUNCATED, varint, varlong

FULL: Final = -1
SLOT_BYTES: Final = 16
_TAG_BITS: Final = 24
_TAG_MASK: Final = 0xFF_FFFF
_SPAN: Final = (1 << 39) - 1
_POSITIVE: Final = 0x7FFF_FFFF_FFFF_FFFF
_LEAST: Final = -0x7FFF_FFFF_FFFF_FFFF


class OffsetMap:
    """The last offset of each key from ``first_offset`` on, in ``memory_bytes`` of memory."""

    def __init__(self, memory_bytes: int, load_factor: float, first_offset: int) -> None:
        slots = max(memory_bytes // SLOT_BYTES, 2)
        self.latest_offset = first_offset - 1
        """Up to here every record was looked at."""
        self._slots: i64 = slots
        # One slot stays free whatever is asked for, or a search would have no end.
        self._entries_max: i64 = max(1, min(int(slots * load_factor), slots - 1))
        self._entries: i64 = 0
        self._first_offset: i64 = first_offset
        self._words = vec[i64]([0] * (2 * self._slots))

    @property
    def entries(self) -> int:
        return self._entries

    @property
    def entries_max(self) -> int:
        return self._entries_max

    def has_room(self, offset: i64) -> bool:
        return self._entries < self._entries_max and offset - self._first_offset < _SPAN

    def put(self, key: bytes, offset: i64) -> None:
        """``offset`` is larger than any before."""
        at, tag = self._find(key)
        words = self._words
        if words[at + 1] == 0:
            words[at] = hash(key)
            self._entries += 1
        words[at + 1] = (offset - self._first_offset + 1) << _TAG_BITS | tag

    def get(self, key: bytes) -> i64:
        """The last offset of ``key``; -1 if it has none."""
        at, _ = self._find(key)
        word = self._words[at + 1]
        if word == 0:
            return -1
        return (word >> _TAG_BITS) + self._first_offset - 1

    def _find(self, key: bytes) -> tuple[i64, i64]:
        """Where the key is, or would be; and its tag."""
        hashed: i64 = hash(key)
        checked: i64 = crc32c(key)
        tag = checked & _TAG_MASK
        words = self._words
        slot = (hashed & _POSITIVE) % self._slots
        while True:
            at = slot * 2
            word = words[at + 1]
            if word == 0 or (words[at] == hashed and word & _TAG_MASK == tag):
                return at, tag
            slot += 1
            if slot == self._slots:
                slot = 0


def note_keys(
    offsets: OffsetMap, data: bytes, start: i64, end: i64, count: i64, base_offset: i64, first_offset: i64
) -> i64:
    """Put the keys of ``count`` records, from ``first_offset`` on, into the map: OK, FULL, or what is wrong with them."""
    at = start
    index: i64 = 0
    while index < count:
        length, at = varint(data, at, end)
        if at < 0:
            return -at
        stop = at + length
        if length < 1 or stop > end:
            return TRUNCATED if stop > end else BAD_LENGTH
        _, at = varlong(data, at + 1, stop)
        if at < 0:
            return BAD_VARINT
        offset_delta, at = varint(data, at, stop)
        if at < 0:
            return BAD_VARINT
        size, at = varint(data, at, stop)
        if at < 0 or at + size > stop:
            return BAD_LENGTH
        offset = base_offset + offset_delta
        if size >= 0 and offset >= first_offset:
            if not offsets.has_room(offset):
                return FULL
            offsets.put(data[at : at + size], offset)
            offsets.latest_offset = offset
        at = stop
        index += 1
    return OK


class Sifted:
    """Of the records of one batch, those that stay."""

    def __init__(self) -> None:
        self.runs: list[bytes] = []
        """Their bytes, as they were."""
        self.kept: i64 = 0
        self.has_tombstones = False
        self.first_delta: i64 = 0
        """Of the timestamp of the first of them."""
        self.max_delta: i64 = _LEAST
        self.fault: i64 = OK


def sift(
    offsets: OffsetMap, data: bytes, start: i64, end: i64, count: i64, base_offset: i64, keep_tombstones: bool
) -> Sifted:
    """The records that no later one replaces. One without a key says nothing to a compacted log, and goes."""
    found = Sifted()
    latest: i64 = offsets.latest_offset
    at = start
    run = start
    index: i64 = 0
    while index < count:
        record = at
        length, at = varint(data, at, end)
        if at < 0:
            found.fault = -at
            return found
        stop = at + length
        if length < 1 or stop > end:
            found.fault = TRUNCATED if stop > end else BAD_LENGTH
            return found
        delta, at = varlong(data, at + 1, stop)
        if at < 0:
            found.fault = BAD_VARINT
            return found
        offset_delta, at = varint(data, at, stop)
        if at < 0:
            found.fault = BAD_VARINT
            return found
        size, at = varint(data, at, stop)
        if at < 0 or at + size > stop:
            found.fault = BAD_LENGTH
            return found
        key_at = at
        value_size, _ = varint(data, at + max(size, 0), stop)
        offset = base_offset + offset_delta
        if offset > latest:
            keep = True
        elif size < 0 or (value_size < 0 and not keep_tombstones):
            keep = False
        else:
            keep = offset >= offsets.get(data[key_at : key_at + size])
        if keep:
            if found.kept == 0:
                found.first_delta = delta
            found.kept += 1
            found.max_delta = max(found.max_delta, delta)
            if value_size < 0:
                found.has_tombstones = True
        else:
            if record > run:
                found.runs.append(data[run:record])
            run = stop
        at = stop
        index += 1
    if at > run:
        found.runs.append(data[run:at])
    return found


def shifted(data: bytes, shift: int) -> bytes:
    """The same records with ``shift`` added to the delta of each timestamp."""
    by: i64 = shift
    out = bytearray()
    at: i64 = 0
    end: i64 = len(data)
    while at < end:
        length, body = varint(data, at, end)
        stop = body + length
        delta, rest = varlong(data, body + 1, stop)
        moved = _put_varlong(delta + by)
        out += _put_varlong(1 + len(moved) + stop - rest)
        out += data[body : body + 1]
        out += moved
        out += data[rest:stop]
        at = stop
    return bytes(out)


def _put_varlong(value: i64) -> bytes:
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    # A shift of a negative number keeps its sign, so what is left of 64 bits is masked.
    while left < 0 or left > 0x7F:
        out.append(int(left & 0x7F | 0x80))
        left = (left >> 7) & 0x01FF_FFFF_FFFF_FFFF
    out.append(int(left))
    return bytes(out)
