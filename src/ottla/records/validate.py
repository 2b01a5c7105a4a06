"""What a producer sent, held to Kafka's rules and made ready for the log.

The rules are those of Kafka's LogValidator: a checksum that is right, one batch for a partition, offsets that follow each
other from 0, a count that matches, every record within its lengths, no control records and no LogAppendTime from clients,
timestamps within ``message.timestamp.before.max.ms`` and ``.after.max.ms``, a key for compacted topics. One rule is
stricter: Kafka stores an uncompressed batch whose records carry other offset deltas than 0, 1, 2, …, and consumers then
see offsets that the log does not have; here that is INVALID_RECORD.

A batch that may stay as it is gets a new head and keeps its body, unseen by anything but the walk. It is taken apart and
built anew only where the topic asks for another codec, or where it comes in an old format.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ottla.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
    check_batch,
    frames,
    read_header,
    stamped,
)
from ottla.records.codecs import CODEC_BY_NAME, UNPACKED_BYTES_MAX, Codec, codec_of, unpack
from ottla.records.errors import InvalidRecordError, InvalidTimestampError, MessageTooLargeError, RecordError
from ottla.records.legacy import read_message_set
from ottla.records.record import Record, build_batch, read_batch
from ottla.records.walk import FAULTS, OK, StreamWalk, Walked, walk

UNLIMITED_MS = (1 << 63) - 1


class AppendOrigin(Enum):
    """Who appends as leader: clients are held to more rules than the broker's own coordinators."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a topic's configuration says about records."""

    compression_type: str = "producer"
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    before_max_ms: int = UNLIMITED_MS
    after_max_ms: int = UNLIMITED_MS
    compacted: bool = False
    max_message_bytes: int = 1048588
    unpacked_bytes_max: int = UNPACKED_BYTES_MAX


class Validated(NamedTuple):
    """One batch as it goes into the log."""

    header: BatchHeader
    parts: tuple[bytes, bytes | memoryview]
    """Head and body, to be written one behind the other."""


def validate(
    data: bytes, rules: Rules, *, base_offset: int, leader_epoch: int, now_ms: int, origin: AppendOrigin
) -> Validated:
    """Check the records of one partition in a produce request, and give them their offsets."""
    frame = next(frames(data), None)
    if frame is None:
        raise InvalidRecordError("no whole batch was sent")
    if frame.magic != MAGIC:
        return _convert(data, rules, base_offset=base_offset, leader_epoch=leader_epoch, now_ms=now_ms)
    if frame.size < len(data) and next(frames(data, frame.size), None) is not None:
        raise InvalidRecordError("more than one batch was sent for a partition")
    if frame.size > rules.max_message_bytes:
        raise _too_large(frame.size, rules)
    header = check_batch(data, frame)
    if origin is AppendOrigin.CLIENT:
        _check_client_header(header)
    codec = codec_of(header.attributes & CODEC_MASK)
    walked = _walked(data, header, codec, rules)
    _check_records(data, header, walked, rules, now_ms=now_ms, origin=origin)
    target = CODEC_BY_NAME.get(rules.compression_type, codec)
    if target is not codec and not header.is_control:
        data, header = _recoded(data, header, target, rules)
    return _assigned(data, header, walked, rules, base_offset=base_offset, leader_epoch=leader_epoch, now_ms=now_ms)


def _check_client_header(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise InvalidRecordError(f"the base offset of a batch that is sent has to be 0, not {header.base_offset}")
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecordError(f"{header.record_count} records cannot end at offset delta {header.last_offset_delta}")
    if header.attributes & CONTROL_FLAG:
        raise InvalidRecordError("clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecordError(f"producer {header.producer_id} sent sequence number {header.base_sequence}")


def _walked(data: bytes, header: BatchHeader, codec: Codec, rules: Rules) -> Walked:
    start, end = HEADER_BYTES, header.size
    if codec is Codec.NONE:
        walked = walk(data, start, end, header.record_count)
    else:
        stream = StreamWalk(header.record_count)
        for chunk in unpack(codec, memoryview(data)[start:end], limit=rules.unpacked_bytes_max):
            if not stream.feed(chunk):
                break
        walked = stream.finish()
    if walked[0] != OK:
        message = f"record {walked[1]} of {header.record_count}: {FAULTS[int(walked[0])]}"
        raise InvalidRecordError(message, (RecordError(int(walked[1]), message),))
    return walked


def _check_records(
    data: bytes, header: BatchHeader, walked: Walked, rules: Rules, *, now_ms: int, origin: AppendOrigin
) -> None:
    """The rules of the topic for each record; which ones break them is looked up only if one does."""
    if origin is not AppendOrigin.CLIENT:
        return
    _, _, low, high, keyless = walked
    if rules.compacted and keyless >= 0:
        _refuse_keyless(list(read_batch(data, limit=rules.unpacked_bytes_max)))
    stamped_by_log = bool(header.attributes & LOG_APPEND_TIME_FLAG)
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        if stamped_by_log:
            raise InvalidTimestampError("producers should not set the timestamp type to LogAppendTime")
        return
    if stamped_by_log:
        smallest = largest = header.max_timestamp
    else:
        smallest, largest = header.base_timestamp + low, header.base_timestamp + high
    if now_ms - smallest > rules.before_max_ms or largest - now_ms > rules.after_max_ms:
        _refuse_out_of_range(list(read_batch(data, limit=rules.unpacked_bytes_max)), rules, now_ms=now_ms)


def _refuse_keyless(records: list[Record]) -> None:
    message = "compacted topics cannot accept records without a key"
    errors = tuple(RecordError(index, message) for index, record in enumerate(records) if record.key is None)
    if errors:
        raise InvalidRecordError(message, errors)


def _refuse_out_of_range(records: list[Record], rules: Rules, *, now_ms: int) -> None:
    errors = []
    for index, record in enumerate(records):
        late, early = now_ms - record.timestamp, record.timestamp - now_ms
        # A record without a timestamp is in no range and out of none.
        if record.timestamp != NO_TIMESTAMP and (late > rules.before_max_ms or early > rules.after_max_ms):
            message = (
                f"timestamp {record.timestamp} is out of range: it should lie within "
                f"[{now_ms - rules.before_max_ms}, {now_ms + rules.after_max_ms}]"
            )
            errors.append(RecordError(index, message))
    if errors:
        raise InvalidTimestampError(errors[0].message, tuple(errors))


def _assigned(
    data: bytes,
    header: BatchHeader,
    walked: Walked,
    rules: Rules,
    *,
    base_offset: int,
    leader_epoch: int,
    now_ms: int,
) -> Validated:
    """Offsets, epoch and time as the log has them; the checksum only where something below it changed."""
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes = header.attributes | LOG_APPEND_TIME_FLAG
        max_timestamp = now_ms
    else:
        attributes = header.attributes & ~LOG_APPEND_TIME_FLAG
        max_timestamp = header.base_timestamp + int(walked[3])
    body = memoryview(data)[HEADER_BYTES : header.size]
    changed = attributes != header.attributes or max_timestamp != header.max_timestamp
    header = BatchHeader(
        base_offset,
        header.length,
        leader_epoch,
        header.magic,
        header.crc,
        attributes,
        header.last_offset_delta,
        header.base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    if changed:
        header = stamped(header, body)
    return Validated(header, (header.pack(), body))


def _recoded(data: bytes, header: BatchHeader, target: Codec, rules: Rules) -> tuple[bytes, BatchHeader]:
    built = build_batch(
        read_batch(data, limit=rules.unpacked_bytes_max),
        codec=target,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
    )
    if len(built) > rules.max_message_bytes:
        raise _too_large(len(built), rules)
    return built, read_header(built)


def _convert(data: bytes, rules: Rules, *, base_offset: int, leader_epoch: int, now_ms: int) -> Validated:
    """A message set of magic 0 or 1 as one batch."""
    if len(data) > rules.max_message_bytes:
        raise _too_large(len(data), rules)
    records, codec = read_message_set(data, limit=rules.unpacked_bytes_max)
    if rules.compacted:
        _refuse_keyless(records)
    by_log = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    if by_log:
        records = [record._replace(timestamp=now_ms) for record in records]
    else:
        _refuse_out_of_range(records, rules, now_ms=now_ms)
    built = build_batch(
        records,
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
        codec=CODEC_BY_NAME.get(rules.compression_type, codec),
        timestamp_type=rules.timestamp_type,
    )
    if len(built) > rules.max_message_bytes:
        raise _too_large(len(built), rules)
    return Validated(read_header(built), (built[:HEADER_BYTES], built[HEADER_BYTES:]))


def _too_large(size: int, rules: Rules) -> MessageTooLargeError:
    return MessageTooLargeError(f"a batch of {size} bytes; max.message.bytes allows {rules.max_message_bytes}")
