"""What a producer sent, held to Kafka's rules and made ready for the log.

The rules are those of Kafka's LogValidator: a checksum that is right, one batch for a partition, offsets that follow each
other from 0, a count that matches, every record within its lengths, no control records and no LogAppendTime from clients,
timestamps within ``message.timestamp.before.max.ms`` and ``.after.max.ms``, a key for compacted topics. One rule is
stricter: Kafka stores an uncompressed batch whose records carry other offset deltas than 0, 1, 2, …, and consumers then
see offsets that the log does not have; here that is INVALID_RECORD.

A batch that may stay as it is gets new first bytes and keeps the rest, unseen by anything but the walk. Where the topic asks for
another codec its records are packed anew as they are, chunk by chunk. Formats before magic 2 came with Produce before
version 3, which nobody offers any more, and are refused.

Memory is constant: whatever a batch unpacks to, a chunk of it is held at a time. Time is not, so ``validate`` gives up with
``LaboriousError`` once a client's batch has unpacked to LOOP_BYTES_MAX: the loop serves others meanwhile, ``vet`` does the
work in a thread, where decompressors release the interpreter, and ``validate`` takes what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    COPIED_BYTES_MAX,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
    compute_crc,
    frames,
    read_header,
    stamped,
)
from ottla.records.codecs import CODEC_BY_NAME, UNPACKED_BYTES_MAX, Codec, codec_of, pack_stream, unpack
from ottla.records.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    LaboriousError,
    MessageTooLargeError,
    RecordError,
)
from ottla.records.record import Record, read_batch
from ottla.records.walk import FAULTS, OK, StreamWalk, Walked, walk

UNLIMITED_MS: Final = (1 << 63) - 1
_EARLIEST: Final = -1 << 63
LOOP_BYTES_MAX: Final = 8 << 20
"""What a batch may unpack to before it is too much to be judged while others wait: some 8 ms."""
LOOP_GZIP_BYTES_MAX: Final = 2 << 20
"""Likewise where unpacking takes several times as long."""
LOOP_RECORDS_MAX: Final = 10_000
"""Likewise, where records have to be looked at one by one to say which of them are wrong."""
LOOP_PACKED_BYTES_MAX: Final = {
    Codec.NONE: LOOP_BYTES_MAX,
    Codec.GZIP: 64 << 10,
    Codec.SNAPPY: 2 << 20,
    Codec.LZ4: 2 << 20,
    Codec.ZSTD: 512 << 10,
}
"""What may be packed anew while others wait, at the default level: some 3 ms."""
LOOP_PACKED_HARD_BYTES_MAX: Final = 16 << 10
"""Likewise at any other level, which may take ten times as long."""
RECORD_ERRORS_MAX: Final = 1000
_KEYLESS: Final = "compacted topics cannot accept records without a key"
_PATIENT: Final = 1 << 62


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
    compression_level: int | None = None
    """Of ``compression_type``; None for its default."""


class Validated:
    """One batch as it goes into the log."""

    __slots__ = ("header", "parts")

    def __init__(self, header: BatchHeader, parts: tuple[bytes | memoryview, ...]) -> None:
        self.header = header
        self.parts = parts
        """To be written one behind the other."""


class Vetted:
    """A batch that was found right, before it has offsets."""

    __slots__ = ("data", "header", "walked")

    def __init__(self, data: bytes, header: BatchHeader, walked: Walked) -> None:
        self.data = data
        self.header = header
        self.walked = walked


def validate(
    data: bytes | Vetted, rules: Rules, *, base_offset: int, leader_epoch: int, now_ms: int, origin: AppendOrigin
) -> Validated:
    """Check the records of one partition in a produce request, and give them their offsets."""
    if not isinstance(data, Vetted):
        patience = LOOP_BYTES_MAX if origin is AppendOrigin.CLIENT else _PATIENT
        data = vet(data, rules, now_ms=now_ms, origin=origin, patience=patience)
    return _assigned(data, rules, base_offset=base_offset, leader_epoch=leader_epoch, now_ms=now_ms)


def vet(data: bytes, rules: Rules, *, now_ms: int, origin: AppendOrigin, patience: int = _PATIENT) -> Vetted:
    """Check everything that does not depend on where in the log the records will lie."""
    header = _only_batch(data)
    if header.size > rules.max_message_bytes:
        raise _too_large(header.size, rules)
    if compute_crc(data, 0, header.size) != header.crc:
        raise CorruptMessageError("the batch fails its checksum")
    if origin is AppendOrigin.CLIENT:
        _check_client_header(header)
    codec = codec_of(header.attributes & CODEC_MASK)
    walked = _walked(data, header, codec, rules, patience)
    _check_records(data, header, walked, rules, now_ms=now_ms, origin=origin, patience=patience)
    target = CODEC_BY_NAME.get(rules.compression_type, codec)
    if target is not codec and not header.is_control:
        data, header = _recoded(data, header, target, rules, patience)
    return Vetted(data, header, walked)


def _only_batch(data: bytes) -> BatchHeader:
    """The header of the one batch that ``data`` has to be. What is left of another one behind it is ignored."""
    if len(data) >= HEADER_BYTES:
        header = read_header(data)
        if header.magic == MAGIC and header.size == len(data):
            return header
    frame = next(frames(data), None)
    if frame is None:
        raise InvalidRecordError("no whole batch was sent")
    if frame.magic != MAGIC:
        raise InvalidRecordError(f"a batch of magic {frame.magic}; only magic {MAGIC} can be sent")
    if next(frames(data, frame.size), None) is not None:
        raise InvalidRecordError("more than one batch was sent for a partition")
    if frame.size < HEADER_BYTES:
        raise CorruptMessageError(f"a batch of {frame.size} bytes is shorter than its header")
    return read_header(data)


def _check_client_header(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise InvalidRecordError(f"the base offset of a batch that is sent has to be 0, not {header.base_offset}")
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecordError(f"{header.record_count} records cannot end at offset delta {header.last_offset_delta}")
    if header.attributes & CONTROL_FLAG:
        raise InvalidRecordError("clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecordError(f"producer {header.producer_id} sent sequence number {header.base_sequence}")


def _walked(data: bytes, header: BatchHeader, codec: Codec, rules: Rules, patience: int) -> Walked:
    start, end = HEADER_BYTES, header.size
    if codec is Codec.NONE:
        walked = walk(data, start, end, header.record_count)
    else:
        stream = StreamWalk(header.record_count)
        for chunk in unpack(codec, memoryview(data)[start:end], limit=rules.unpacked_bytes_max):
            if not stream.feed(chunk):
                break
            patience -= len(chunk) * (LOOP_BYTES_MAX // LOOP_GZIP_BYTES_MAX if codec is Codec.GZIP else 1)
            if patience < 0:
                raise LaboriousError("a batch that unpacks to very much")
        walked = stream.finish()
    if walked[0] != OK:
        raise InvalidRecordError(f"record {walked[1]} of {header.record_count}: {FAULTS[int(walked[0])]}")
    return walked


def _check_records(
    data: bytes,
    header: BatchHeader,
    walked: Walked,
    rules: Rules,
    *,
    now_ms: int,
    origin: AppendOrigin,
    patience: int,
) -> None:
    """The rules of the topic for each record; which ones break them is looked up only if one does."""
    if origin is not AppendOrigin.CLIENT:
        return
    _, _, low, high, keyless = walked
    # Compiled, the sum of two i64 would be one.
    smallest, largest = int(header.base_timestamp) + int(low), int(header.base_timestamp) + int(high)
    if smallest < _EARLIEST or largest > UNLIMITED_MS:
        raise InvalidTimestampError("timestamps beyond 64 bits")
    keys_lack = rules.compacted and keyless >= 0
    stamped_by_log = bool(header.attributes & LOG_APPEND_TIME_FLAG)
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        if keys_lack:
            _refuse(_each(data, header, rules, patience), rules, now_ms=None)
        if stamped_by_log:
            raise InvalidTimestampError("producers should not set the timestamp type to LogAppendTime")
        return
    if stamped_by_log:
        smallest = largest = header.max_timestamp
    if keys_lack or _is_late(smallest, rules, now_ms) or largest - now_ms > rules.after_max_ms:
        _refuse(_each(data, header, rules, patience), rules, now_ms=now_ms)


def _each(data: bytes, header: BatchHeader, rules: Rules, patience: int) -> Iterator[Record]:
    if patience < _PATIENT and header.record_count > LOOP_RECORDS_MAX:
        raise LaboriousError("a batch of very many records, some of them wrong")
    return read_batch(data, limit=rules.unpacked_bytes_max)


def _refuse(records: Iterator[Record], rules: Rules, *, now_ms: int | None) -> None:
    """Say of every record what is wrong with it, if anything is. One that is out of time gives the whole its name, as with Kafka."""
    errors: list[RecordError] = []
    untimely = ""
    for index, record in enumerate(records):
        if rules.compacted and record.key is None:
            errors.append(RecordError(index, _KEYLESS))
        elif now_ms is not None and (message := _out_of_range(record, rules, now_ms)):
            untimely = untimely or message
            errors.append(RecordError(index, message))
        if len(errors) == RECORD_ERRORS_MAX:
            break
    if untimely:
        raise InvalidTimestampError(untimely, tuple(errors))
    if errors:
        raise InvalidRecordError(_KEYLESS, tuple(errors))


def _is_late(timestamp: int, rules: Rules, now_ms: int) -> bool:
    """Further back than is allowed; nothing is, if nothing limits it."""
    return now_ms - timestamp > rules.before_max_ms != UNLIMITED_MS


def _out_of_range(record: Record, rules: Rules, now_ms: int) -> str:
    """What is wrong with the time of a record; one without a timestamp is in no range and out of none."""
    early = record.timestamp - now_ms
    if record.timestamp == NO_TIMESTAMP or (
        not _is_late(record.timestamp, rules, now_ms) and early <= rules.after_max_ms
    ):
        return ""
    return (
        f"timestamp {record.timestamp} is out of range: it should lie within "
        f"[{now_ms - rules.before_max_ms}, {now_ms + rules.after_max_ms}]"
    )


def _assigned(vetted: Vetted, rules: Rules, *, base_offset: int, leader_epoch: int, now_ms: int) -> Validated:
    """Offsets, epoch and time as the log has them; the checksum only where something below it changed."""
    header = vetted.header
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes = header.attributes | LOG_APPEND_TIME_FLAG
        max_timestamp = now_ms
    else:
        attributes = header.attributes & ~LOG_APPEND_TIME_FLAG
        max_timestamp = header.base_timestamp + int(vetted.walked[3])
    data, size = vetted.data, header.size
    changed = attributes != header.attributes or max_timestamp != header.max_timestamp
    header = header.assigned(base_offset, leader_epoch, attributes, max_timestamp)
    if changed:
        body = memoryview(data)[HEADER_BYTES:size]
        header = stamped(header, body)
        return Validated(header, (header.pack(), body))
    if size <= COPIED_BYTES_MAX:
        return Validated(header, (header.pack_assigned() + data[MAGIC_AT:size],))
    return Validated(header, (header.pack_assigned(), memoryview(data)[MAGIC_AT:size]))


def _recoded(data: bytes, header: BatchHeader, target: Codec, rules: Rules, patience: int) -> tuple[bytes, BatchHeader]:
    """The same records under another codec: they are counted from the same offset and time, so not a byte of them changes."""
    if patience < _PATIENT:
        patience = LOOP_PACKED_BYTES_MAX[target] if rules.compression_level is None else LOOP_PACKED_HARD_BYTES_MAX
        if header.size > patience:
            raise LaboriousError("a batch that takes long to pack")
    body = memoryview(data)[HEADER_BYTES : header.size]
    plain = unpack(codec_of(header.codec_id), body, limit=rules.unpacked_bytes_max)
    parts, size = [], HEADER_BYTES
    for part in pack_stream(target, _patiently(plain, patience), rules.compression_level):
        size += len(part)
        if size > rules.max_message_bytes:
            raise _too_large(size, rules)
        parts.append(part)
    packed = b"".join(parts)
    # As with Kafka, bits that mean nothing yet do not outlive it.
    kept = header.attributes & (LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG)
    header = stamped(header.replace(attributes=kept | target), packed)
    return header.pack() + packed, header


def _patiently(chunks: Iterator[bytes], patience: int) -> Iterator[bytes]:
    for chunk in chunks:
        patience -= len(chunk)
        if patience < 0:
            raise LaboriousError("a batch that takes long to pack")
        yield chunk


def _too_large(size: int, rules: Rules) -> MessageTooLargeError:
    return MessageTooLargeError(f"a batch of {size} bytes; max.message.bytes allows {rules.max_message_bytes}")
