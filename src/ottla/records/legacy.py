"""Messages of the formats before batches, magic 0 and 1, as logs of old hold them: read, checked, and written by compaction alone.

A message::

     0  offset       i64     a compressed message: that of its last inner one
     8  size         i32     of everything below
    12  crc          u32     CRC-32 (not C) of everything below
    16  magic        i8
    17  attributes   i8      0-2 codec, 3 timestamp type (magic 1)
    18  timestamp    i64     magic 1 only; a compressed message: the latest of its inner ones
        key          i32 length (-1: none), bytes
        value        i32 length (-1: none), bytes

With a codec, the value is a packed run of messages. Their offsets are absolute in magic 0, and in magic 1 counted from the
first, so that the last one's is known to be the outer one's.

A log treats such a message as a batch of its own (``header_at``). One that is compressed claims its last offset only: where
it begins is not known before it is unpacked, and nothing but a truncation has to know. Fetches serve these bytes as they
are, as Kafka does: every consumer that can ask for them (Fetch version 4) reads all three formats.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from ottla.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SMALLEST_LENGTH,
    BatchHeader,
    Frame,
    check_batch,
    frames,
    read_header,
)
from ottla.records.codecs import UNPACKED_BYTES_MAX, Codec, codec_of, pack, unpack
from ottla.records.errors import CorruptMessageError, InvalidRecordError
from ottla.records.record import Record, read_batch

SMALLEST_BYTES: Final = LOG_OVERHEAD + SMALLEST_LENGTH
"""Of a batch of any format: with fewer there is none."""

_HEAD: Final = Struct(">qiIbb")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_CHECKED_FROM: Final = 16
_ATTRIBUTES: Final = 0x0F
_TIMESTAMP_AT: Final = 18


def header_at(data: bytes | memoryview, at: int) -> BatchHeader | None:
    """The header of the batch or old message at ``at``; None if too little of it is there, or it cannot be one."""
    left = len(data) - at
    if left < SMALLEST_BYTES:
        return None
    magic = data[at + MAGIC_AT]
    if magic == MAGIC:
        header = read_header(data, at) if left >= HEADER_BYTES else None
        plausible = header is not None and header.size >= HEADER_BYTES and header.last_offset_delta >= 0
        return header if plausible else None
    offset, length, crc, _, attributes = _HEAD.unpack_from(data, at)
    if magic > 1 or length < SMALLEST_LENGTH + 8 * magic or offset < 0:
        return None
    timestamp: int = _I64.unpack_from(data, at + _TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
    return BatchHeader(
        base_offset=offset,
        length=length,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes & _ATTRIBUTES,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )


def check_any(data: bytes | memoryview, frame: Frame) -> BatchHeader:
    """The header of a whole batch or old message, once its checksum was found right."""
    if frame.magic == MAGIC:
        return check_batch(data, frame)
    header = header_at(data, frame.position)
    if header is None:
        raise CorruptMessageError(f"no message of magic {frame.magic} at {frame.position}")
    _check_crc(data, frame)
    return header


def read_any(data: bytes, position: int = 0, *, limit: int = UNPACKED_BYTES_MAX) -> Iterator[Record]:
    """The records of the batch or old message at ``position``, in their order."""
    if data[position + MAGIC_AT] == MAGIC:
        return read_batch(data, position, limit=limit)
    return _messages(data, next(frames(data, position)), limit=limit)


def first_offset(data: bytes) -> int:
    """Where the batch or old message that ``data`` starts with begins."""
    header = header_at(data, 0)
    assert header is not None, "it was read before"
    if header.magic == MAGIC or header.codec_id == Codec.NONE:
        return header.base_offset
    return next(read_any(data)).offset


def _messages(data: bytes, frame: Frame, *, limit: int) -> Iterator[Record]:
    codec = codec_of(data[frame.position + 17] & 7)
    _check_crc(data, frame)
    outer = _read(data, frame)
    if codec is Codec.NONE:
        yield outer
        return
    append_time = bool(data[frame.position + 17] & LOG_APPEND_TIME_FLAG)
    behind = 0
    if frame.magic == 1:
        last = NO_TIMESTAMP
        for inner in _unpacked(outer, codec, frame.magic, limit=limit):
            last = inner.offset
        behind = outer.offset - last
    for inner in _unpacked(outer, codec, frame.magic, limit=limit):
        timestamp = outer.timestamp if append_time else inner.timestamp
        yield inner._replace(timestamp=timestamp, offset=inner.offset + behind)


def _unpacked(outer: Record, codec: Codec, magic: int, *, limit: int) -> Iterator[Record]:
    """The messages within a compressed one; no more is unpacked at a time than one of them needs."""
    parts: list[bytes] = []
    held, wanted = 0, LOG_OVERHEAD
    found = False
    for chunk in unpack(codec, outer.value or b"", limit=limit):
        parts.append(chunk)
        held += len(chunk)
        if held < wanted:
            continue
        plain = b"".join(parts)
        walked = 0
        for inner in frames(plain):
            if inner.magic != magic:
                raise InvalidRecordError(f"a message of magic {inner.magic} inside one of magic {magic}")
            if codec_of(plain[inner.position + 17] & 7) is not Codec.NONE:
                raise InvalidRecordError("a compressed message inside a compressed message")
            _check_crc(plain, inner)
            yield _read(plain, inner)
            walked = inner.position + inner.size
            found = True
        parts, held = [plain[walked:]], len(plain) - walked
        wanted = LOG_OVERHEAD + (_I32.unpack_from(plain, walked + 8)[0] if held >= LOG_OVERHEAD else 0)
    if held or not found:
        raise InvalidRecordError("the messages inside a compressed message do not fill it")


def _check_crc(data: bytes | memoryview, frame: Frame) -> None:
    start, end = frame.position, frame.position + frame.size
    (_, _, crc, _, _) = _HEAD.unpack_from(data, start)
    if zlib.crc32(memoryview(data)[start + _CHECKED_FROM : end]) != crc:
        raise CorruptMessageError(f"the message at {start} fails its checksum")


def _read(data: bytes, frame: Frame) -> Record:
    start, end = frame.position, frame.position + frame.size
    offset, _, _, magic, _ = _HEAD.unpack_from(data, start)
    at = start + _HEAD.size
    timestamp = NO_TIMESTAMP
    if magic == 1:
        if at + 8 > end:
            raise CorruptMessageError(f"the message at {start} is too short")
        (timestamp,) = _I64.unpack_from(data, at)
        at += 8
    key, at = _take_bytes(data, at, end)
    value, at = _take_bytes(data, at, end)
    if at != end:
        raise CorruptMessageError(f"the message at {start} is longer than what is in it")
    return Record(key, value, timestamp, offset=offset)


def _take_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    if at + 4 > end:
        raise CorruptMessageError(f"a message ends at {end}, within a length")
    (size,) = _I32.unpack_from(data, at)
    at += 4
    if size < 0:
        return None, at
    if at + size > end:
        raise CorruptMessageError(f"a message ends at {end}, {at + size - end} bytes too early")
    return data[at : at + size], at + size


def rebuild(original: bytes, records: Sequence[Record]) -> bytes:
    """The compressed message ``original`` with some of its records only, for compaction."""
    magic, attributes = original[MAGIC_AT], original[17]
    first, last = records[0], records[-1]
    # Within magic 1, offsets are counted from the first record that is there.
    before = first.offset if magic else 0
    plain = b"".join(_build(magic, 0, record, record.offset - before) for record in records)
    outer = _read(original, next(frames(original)))
    if attributes & LOG_APPEND_TIME_FLAG == 0:
        outer = outer._replace(timestamp=max(record.timestamp for record in records))
    packed = pack(codec_of(attributes & 7), plain)
    return _build(magic, attributes, outer._replace(key=None, value=packed), last.offset)


def _build(magic: int, attributes: int, record: Record, offset: int) -> bytes:
    time = _I64.pack(record.timestamp) if magic else b""
    fields = (_I32.pack(-1) if each is None else _I32.pack(len(each)) + each for each in (record.key, record.value))
    body = b"".join((bytes((magic, attributes)), time, *fields))
    return _I64.pack(offset) + _I32.pack(len(body) + 4) + zlib.crc32(body).to_bytes(4, "big") + body
