"""Message sets of the formats before batches, magic 0 and 1: read, checked, and turned into records.

A message::

     0  offset       i64     a compressed message: that of its last inner one
     8  size         i32     of everything below
    12  crc          u32     CRC-32 (not C) of everything below
    16  magic        i8
    17  attributes   i8      0-2 codec, 3 timestamp type (magic 1)
    18  timestamp    i64     magic 1 only
        key          i32 length (-1: none), bytes
        value        i32 length (-1: none), bytes

With a codec, the value is a packed message set. Old producers still send these (Produce before version 3), and Kafka 3.9
stores them as magic 2: so do we, and nothing behind validation knows of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct

from ottla.records.batch import LOG_APPEND_TIME_FLAG, NO_TIMESTAMP, Frame, frames
from ottla.records.codecs import Codec, codec_of, unpack
from ottla.records.errors import CorruptMessageError, InvalidRecordError
from ottla.records.record import Record

_HEAD = Struct(">qiIbb")
_I32 = Struct(">i")
_I64 = Struct(">q")
_CHECKED_FROM = 16


def read_message_set(data: bytes, *, limit: int) -> tuple[list[Record], Codec]:
    """Every message of a set that starts with an old one, and the codec that it was packed with.

    A set is either plain or one compressed message, and all of one magic, as Kafka demands it.
    """
    found = list(frames(data))
    codecs = {_codec(data, frame) for frame in found}
    if len({frame.magic for frame in found}) > 1:
        raise InvalidRecordError("messages of different formats in one set")
    if codecs != {Codec.NONE} and len(found) > 1:
        raise InvalidRecordError("a compressed message is not alone in its set")
    records: list[Record] = []
    for frame in found:
        records += _messages(data, frame, limit=limit)
    return records, codecs.pop() if codecs else Codec.NONE


def _messages(data: bytes, frame: Frame, *, limit: int) -> Iterator[Record]:
    codec = _codec(data, frame)
    outer = _read(data, frame)
    if codec is Codec.NONE:
        yield outer
        return
    plain = b"".join(unpack(codec, outer.value or b"", limit=limit))
    append_time = bool(data[frame.position + 17] & LOG_APPEND_TIME_FLAG)
    walked = 0
    for inner in frames(plain):
        if inner.magic != frame.magic:
            raise InvalidRecordError(f"a message of magic {inner.magic} inside one of magic {frame.magic}")
        if _codec(plain, inner) is not Codec.NONE:
            raise InvalidRecordError("a compressed message inside a compressed message")
        message = _read(plain, inner)
        yield message._replace(timestamp=outer.timestamp) if append_time else message
        walked = inner.position + inner.size
    if walked == 0 or walked != len(plain):
        raise InvalidRecordError("the messages inside a compressed message do not fill it")


def _codec(data: bytes, frame: Frame) -> Codec:
    return codec_of(data[frame.position + 17] & 7)


def _read(data: bytes, frame: Frame) -> Record:
    """One message, once its checksum was found right; its offset is meaningless and left out."""
    start, end = frame.position, frame.position + frame.size
    _, _, crc, magic, _ = _HEAD.unpack_from(data, start)
    if zlib.crc32(memoryview(data)[start + _CHECKED_FROM : end]) != crc:
        raise CorruptMessageError(f"the message at {start} fails its checksum")
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
    return Record(key, value, timestamp)


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
