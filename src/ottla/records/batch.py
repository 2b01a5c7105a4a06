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
from typing import Final, NamedTuple

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i64

from ottla.base.checksums import crc32c
from ottla.records.errors import CorruptMessageError

BATCH_HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
LOG_OVERHEAD: Final = 12
"""Offset and length: what lies before the part that ``length`` counts."""
CHECKED_FROM: Final = 21
MAGIC_AT: Final = 16
"""Also where what a broker assigns has ended."""
MAGIC: Final = 2
SMALLEST_LENGTH: Final = 14
"""Of a magic 0 message without key and value; a smaller length is no message of any format."""

COPIED_BYTES_MAX: Final = 1 << 13
"""Up to here a copy is cheaper than the views that would save it."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
SEQUENCES: Final = 1 << 31
"""Sequence numbers run from 0 to 2³¹ - 1 and start over."""

_FRAME: Final = Struct(">qiib")


FIELDS: Final = (
    "base_offset",
    "length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
"""Of the header, in the order of the layout."""


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader:
    """The header of a magic 2 batch; the fields are those of the layout, in its order. Nobody changes one.

    A class and no tuple: compiled, its fields are read and made without a detour over the interpreter.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset_delta",
        "length",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    def __init__(
        self,
        base_offset: int,
        length: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.length = length
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    def fields(self) -> tuple[int, ...]:
        return (
            self.base_offset,
            self.length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        )

    def replace(self, **changes: int) -> BatchHeader:
        """Another header, with some fields as they are given here."""
        return BatchHeader(**{**dict(zip(FIELDS, self.fields(), strict=True)), **changes})

    def assigned(self, base_offset: int, leader_epoch: int, attributes: int, max_timestamp: int) -> BatchHeader:
        """As the log has it, but for the checksum."""
        return BatchHeader(
            base_offset,
            self.length,
            leader_epoch,
            self.magic,
            self.crc,
            attributes,
            self.last_offset_delta,
            self.base_timestamp,
            max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchHeader) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={value}" for name, value in zip(FIELDS, self.fields(), strict=True))
        return f"BatchHeader({named})"

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
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

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
        return BATCH_HEADER.pack(*self.fields())

    def pack_assigned(self) -> bytes:
        """What a broker assigns, and the length between: all that differs from what was sent, as a rule."""
        out = BytesWriter()
        write_i64_be(out, self.base_offset)
        write_i32_be(out, self.length)
        write_i32_be(out, self.partition_leader_epoch)
        return out.getvalue()


class Frame(NamedTuple):
    """Where one batch or old message lies in a run of them, whatever its format."""

    position: int
    size: int
    magic: int
    base_offset: int


def read_header(data: bytes | memoryview, position: int = 0) -> BatchHeader:
    """The header at ``position``, which is known to hold a whole one."""
    if not isinstance(data, bytes):
        data, position = bytes(data[position : position + HEADER_BYTES]), 0
    return _header_in(data, position)


def _header_in(data: bytes, at: i64) -> BatchHeader:
    return BatchHeader(
        read_i64_be(data, at),
        read_i32_be(data, at + 8),
        read_i32_be(data, at + 12),
        _i8(data[at + 16]),
        int(read_i32_be(data, at + 17)) & 0xFFFFFFFF,
        read_i16_be(data, at + 21),
        read_i32_be(data, at + 23),
        read_i64_be(data, at + 27),
        read_i64_be(data, at + 35),
        read_i64_be(data, at + 43),
        read_i16_be(data, at + 51),
        read_i32_be(data, at + 53),
        read_i32_be(data, at + 57),
    )


def _i8(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


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
    if size <= COPIED_BYTES_MAX:
        return crc32c(data[position + CHECKED_FROM : position + size])
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
    length = HEADER_BYTES - LOG_OVERHEAD + len(body)
    # What the checksum covers lies behind the fields that change here.
    crc = crc32c(body, crc32c(header.pack()[CHECKED_FROM:]))
    return BatchHeader(
        header.base_offset,
        length,
        header.partition_leader_epoch,
        header.magic,
        crc,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
