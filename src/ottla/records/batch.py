"""A record batch as bytes: its header read, checked, and written anew where the broker has its say.

Layout (magic 2, big-endian)::

     0  base_offset              i64   ┐ assigned by the broker
     8  length                   i32   │ of everything behind this field
    12  partition_leader_epoch   i32   │ assigned by the broker
    16  magic                    i8    │ at the same place in every format
    17  crc                      u32   ┘ CRC-32C of everything below
    21  attributes               i16     0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
    23  last_offset_delta        i32
    27  base_timestamp           i64     of a compacted batch with bit 6: the delete horizon
    35  max_timestamp            i64
    43  producer_id              i64
    51  producer_epoch           i16
    53  base_sequence            i32
    57  record_count             i32
    61  records, as one compressed run if there is a codec

What a broker assigns lies before the range that the checksum covers, so a batch is stored as it came with a new head:
nothing of its body is copied. The formats before it (magic 0 and 1) are in ``legacy``.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.records.errors import CorruptMessageError

BATCH_HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = BATCH_HEADER.size
LOG_OVERHEAD = 12
"""Offset and length: what lies before the part that ``length`` counts."""
CHECKED_FROM = 21
MAGIC_AT = 16
MAGIC = 2
SMALLEST_LENGTH = 14
"""Of a magic 0 message without key and value; a smaller length is no message of any format."""

CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
SEQUENCES = 1 << 31
"""Sequence numbers run from 0 to 2³¹ - 1 and start over."""

_FRAME = Struct(">qiib")


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header of a magic 2 batch; the fields are those of the layout, in its order."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCES

    def pack(self) -> bytes:
        return BATCH_HEADER.pack(*self)


class Frame(NamedTuple):
    """Where one batch or old message lies in a run of them, whatever its format."""

    position: int
    size: int
    magic: int
    base_offset: int


def read_header(data: bytes | memoryview, position: int = 0) -> BatchHeader:
    """The header at ``position``, which is known to hold a whole one."""
    return BatchHeader._make(BATCH_HEADER.unpack_from(data, position))


def frames(data: bytes | memoryview, position: int = 0) -> Iterator[Frame]:
    """The batches of a run in their order, as their lengths have it.

    What is left of a batch at the end is no error: fetched data may end in the middle of one. A length or a magic that
    cannot be is one, as nothing behind it can be found any more.
    """
    end = len(data)
    while end - position > MAGIC_AT:
        base_offset, length, _, magic = _FRAME.unpack_from(data, position)
        if length < SMALLEST_LENGTH:
            raise CorruptMessageError(f"a batch of {length} bytes at {position}: no batch is as small as that")
        if not 0 <= magic <= MAGIC:
            raise CorruptMessageError(f"magic {magic} at {position}: no such format")
        size = LOG_OVERHEAD + length
        if position + size > end:
            return
        yield Frame(position, size, magic, base_offset)
        position += size


def compute_crc(data: bytes | memoryview, position: int, size: int) -> int:
    return crc32c(memoryview(data)[position + CHECKED_FROM : position + size])


def check_batch(data: bytes | memoryview, frame: Frame) -> BatchHeader:
    """The header of a whole magic 2 batch, once its checksum was found right."""
    if frame.size < HEADER_BYTES:
        raise CorruptMessageError(f"a batch of {frame.size} bytes at {frame.position} is shorter than its header")
    header = read_header(data, frame.position)
    if compute_crc(data, frame.position, frame.size) != header.crc:
        raise CorruptMessageError(f"the batch at offset {header.base_offset} fails its checksum")
    return header


def stamped(header: BatchHeader, body: bytes | memoryview) -> BatchHeader:
    """``header`` with the length and the checksum that belong to it in front of ``body``."""
    header = header._replace(length=HEADER_BYTES - LOG_OVERHEAD + len(body))
    return header._replace(crc=crc32c(body, crc32c(header.pack()[CHECKED_FROM:])))
