"""Records as values: for coordinators, tools and tests. Nothing on the path of a produce or a fetch comes here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.records.batch import (
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
    frames,
    read_header,
    stamped,
)
from ottla.records.codecs import UNPACKED_BYTES_MAX, Codec, codec_of, pack, unpack
from ottla.records.errors import InvalidRecordError
from ottla.records.walk import FAULTS, TRUNCATED, varint, varlong

Headers = tuple[tuple[bytes, bytes | None], ...]


class Record(NamedTuple):
    """One record. ``offset`` and ``timestamp`` are absolute; those that are to be built may leave the offset out."""

    key: bytes | None
    value: bytes | None
    timestamp: int = NO_TIMESTAMP
    headers: Headers = ()
    offset: int = -1


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """One batch of at least one record, with offsets that follow each other from ``base_offset``."""
    records = list(records)
    assert records, "a batch has at least one record"
    base_timestamp = records[0].timestamp
    body = b"".join(_encode(record, index, base_timestamp) for index, record in enumerate(records))
    packed = pack(codec, body)
    attributes = codec | (LOG_APPEND_TIME_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
    attributes |= (TRANSACTIONAL_FLAG if is_transactional else 0) | (CONTROL_FLAG if is_control else 0)
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return stamped(header, packed).pack() + packed


def read_batch(data: bytes | memoryview, position: int = 0, *, limit: int = UNPACKED_BYTES_MAX) -> Iterator[Record]:
    """The records of the magic 2 batch at ``position``, in their order. No more is unpacked than one of them needs."""
    header = read_header(data, position)
    body = memoryview(data)[position + HEADER_BYTES : position + header.size]
    chunks = unpack(codec_of(header.codec_id), body, limit=limit)
    plain, at = b"", 0
    for _ in range(header.record_count):
        missing = _missing(plain, at)
        if missing > 0:
            plain, at = _with_more(plain[at:], chunks, missing), 0
        record, at = _decode(plain, at, header)
        yield record


def _missing(plain: bytes, at: int) -> int:
    """How many bytes at least the record at ``at`` still lacks."""
    length, start = varint(plain, at, len(plain))
    if start == -TRUNCATED:
        return 1
    return 0 if start < 0 else start + length - len(plain)


def _with_more(rest: bytes, chunks: Iterator[bytes], missing: int) -> bytes:
    """``rest`` and what follows it, until nothing is missing: first from its length, then from all of it."""
    parts = [rest]
    while missing > 0 and (chunk := next(chunks, None)) is not None:
        parts.append(chunk)
        missing -= len(chunk)
        if missing <= 0:
            joined = b"".join(parts)
            parts, missing = [joined], _missing(joined, 0)
    return b"".join(parts)


def read_records(data: bytes | memoryview, *, limit: int = UNPACKED_BYTES_MAX) -> Iterator[Record]:
    """The records of a run of magic 2 batches."""
    for frame in frames(data):
        assert frame.magic == MAGIC, "older formats are read by ottla.records.legacy"
        yield from read_batch(data, frame.position, limit=limit)


def put_varint(value: int) -> bytes:
    """Zigzag, seven bits a byte, smallest first; of 32 and of 64 bits alike."""
    value = value << 1 if value >= 0 else (~value << 1) | 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _put_bytes(value: bytes | None) -> bytes:
    return put_varint(-1) if value is None else put_varint(len(value)) + value


def _encode(record: Record, offset_delta: int, base_timestamp: int) -> bytes:
    parts = [
        b"\0",
        put_varint(record.timestamp - base_timestamp),
        put_varint(offset_delta),
        _put_bytes(record.key),
        _put_bytes(record.value),
        put_varint(len(record.headers)),
    ]
    for key, value in record.headers:
        parts += [_put_bytes(key), _put_bytes(value)]
    body = b"".join(parts)
    return put_varint(len(body)) + body


def _decode(data: bytes, at: int, header: BatchHeader) -> tuple[Record, int]:
    length, at = _ended(varint(data, at, len(data)))
    end = at + length
    if length < 1 or end > len(data):
        raise InvalidRecordError(f"a record of {length} bytes does not fit into its batch")
    timestamp_delta, at = _ended(varlong(data, at + 1, end))
    offset_delta, at = _ended(varint(data, at, end))
    key, at = _take_bytes(data, at, end)
    value, at = _take_bytes(data, at, end)
    number, at = _ended(varint(data, at, end))
    headers = []
    for _ in range(number):
        name, at = _take_bytes(data, at, end)
        if name is None:
            raise InvalidRecordError("a header without a key")
        content, at = _take_bytes(data, at, end)
        headers.append((name, content))
    if at != end:
        raise InvalidRecordError(f"a record of {length} bytes ends after {length - end + at}")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    else:
        timestamp = header.base_timestamp + timestamp_delta
    return Record(key, value, timestamp, tuple(headers), header.base_offset + offset_delta), end


def _take_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = _ended(varint(data, at, end))
    if size < 0:
        return None, at
    if at + size > end:
        raise InvalidRecordError(f"{size} bytes in a record that has {end - at} left")
    return data[at : at + size], at + size


def _ended(number: tuple[int, int]) -> tuple[int, int]:
    if number[1] < 0:
        raise InvalidRecordError(f"a record cannot be read: {FAULTS[-number[1]]}")
    return number
