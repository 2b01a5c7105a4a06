"""Batches built, read and refused."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import cramjam
import pytest

from ottla.records import AppendOrigin, Codec, Record, Rules, TimestampType, build_batch, frames, read_batch, validate
from ottla.records.batch import HEADER_BYTES, BatchHeader, compute_crc, read_header, stamped
from ottla.records.codecs import CODEC_BY_NAME, pack, unpack
from ottla.records.control import ControlType, EndTransactionMarker, build_marker, read_marker
from ottla.records.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    LaboriousError,
    MessageTooLargeError,
    RecordsError,
    UnsupportedCompressionTypeError,
)
from ottla.records.legacy import check_any, first_offset, read_any
from ottla.records.record import put_varint
from ottla.records.validate import vet
from tests.unit.records.old import old_message, old_run

NOW_MS = 1_700_000_000_000
RECORDS = [Record(b"k%d" % i, b"v" * i, NOW_MS + i % 7, ((b"h", None), (b"", b"x"))) for i in range(40)]


def validated(data: bytes, rules: Rules | None = None, origin: AppendOrigin = AppendOrigin.CLIENT) -> bytes:
    found = validate(data, rules or Rules(), base_offset=1000, leader_epoch=7, now_ms=NOW_MS, origin=origin)
    stored = b"".join(found.parts)
    assert read_header(stored) == found.header
    assert compute_crc(stored, 0, len(stored)) == found.header.crc
    return stored


def changed(data: bytes, change: Callable[[BatchHeader], BatchHeader]) -> bytes:
    """A batch with another header, whose checksum is right all the same."""
    body = data[HEADER_BYTES:]
    return stamped(change(read_header(data)), body).pack() + body


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_gets_its_offsets_and_keeps_its_body(codec: Codec) -> None:
    data = build_batch(RECORDS, codec=codec, producer_id=4, producer_epoch=2, base_sequence=9)
    stored = validated(data)
    assert stored[HEADER_BYTES:] == data[HEADER_BYTES:]
    header = read_header(stored)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (1000, 1039, 7)
    assert list(read_batch(stored)) == [r._replace(offset=1000 + i) for i, r in enumerate(RECORDS)]


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(CODEC_BY_NAME))
def test_the_topic_may_ask_for_a_codec(source: Codec, target: str) -> None:
    stored = validated(build_batch(RECORDS, codec=source), Rules(compression_type=target))
    assert read_header(stored).codec_id == CODEC_BY_NAME[target]
    assert [record.value for record in read_batch(stored)] == [record.value for record in RECORDS]


def test_log_append_time() -> None:
    rules = Rules(timestamp_type=TimestampType.LOG_APPEND_TIME)
    stored = validated(build_batch([Record(b"k", b"v", 5)]), rules)
    assert next(read_batch(stored)).timestamp == NOW_MS


def test_a_wrong_largest_timestamp_is_put_right() -> None:
    stored = validated(changed(build_batch(RECORDS), lambda header: header.replace(max_timestamp=1)))
    assert read_header(stored).max_timestamp == NOW_MS + 6


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.replace(base_offset=1),
        lambda h: h.replace(record_count=39),
        lambda h: h.replace(record_count=41),
        lambda h: h.replace(record_count=39, last_offset_delta=38),
        lambda h: h.replace(record_count=41, last_offset_delta=40),
        lambda h: h.replace(record_count=0, last_offset_delta=-1),
        lambda h: h.replace(record_count=-1, last_offset_delta=-2),
        lambda h: h.replace(last_offset_delta=40),
        lambda h: h.replace(attributes=0x20),
        lambda h: h.replace(producer_id=3, producer_epoch=0, base_sequence=-1),
    ],
)
def test_headers_that_are_refused(change: Callable[[BatchHeader], BatchHeader]) -> None:
    with pytest.raises(InvalidRecordError) as caught:
        validated(changed(build_batch(RECORDS), change))
    assert caught.value.error == "INVALID_RECORD"


def test_every_flipped_bit_is_noticed() -> None:
    data = build_batch(RECORDS[:3])
    for bit in range(8 * 16, 8 * len(data)):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordsError):
            validated(bytes(broken))


@pytest.mark.parametrize("codec", list(Codec))
def test_every_flipped_bit_of_the_records_is_survived(codec: Codec) -> None:
    """The checksum is right, whatever was meant: a producer that is broken, or means harm."""
    data = build_batch(RECORDS[:3], codec=codec)
    for bit in range(8 * HEADER_BYTES, 8 * len(data)):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        sent = changed(bytes(broken), lambda header: header)
        try:
            stored = validated(sent)
        except RecordsError:
            continue
        assert len(list(read_batch(stored))) == 3


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_batch_that_ends_early_is_no_batch(cut: int) -> None:
    with pytest.raises(InvalidRecordError):
        validated(build_batch(RECORDS)[:-cut])


def test_two_batches_are_one_too_many() -> None:
    with pytest.raises(InvalidRecordError):
        validated(build_batch(RECORDS) * 2)


def test_offsets_within_a_batch_follow_each_other() -> None:
    one, other = (build_batch([Record(b"k", b"v", 1)])[HEADER_BYTES:] for _ in range(2))
    header = read_header(build_batch(RECORDS[:2]))
    with pytest.raises(InvalidRecordError):
        validated(stamped(header, one + other).pack() + one + other)


def test_keys_on_compacted_topics() -> None:
    keyless = [Record(b"k", b"v"), Record(None, b"v"), Record(b"", b"v"), Record(None, b"v")]
    with pytest.raises(InvalidRecordError) as caught:
        validated(build_batch(keyless), Rules(compacted=True))
    assert [error.batch_index for error in caught.value.record_errors] == [1, 3]
    validated(build_batch(RECORDS), Rules(compacted=True))


def test_timestamps_out_of_range() -> None:
    rules = Rules(before_max_ms=100, after_max_ms=10)
    times = [NOW_MS, NOW_MS - 100, NOW_MS - 101, NOW_MS + 10, NOW_MS + 11, -1]
    with pytest.raises(InvalidTimestampError) as caught:
        validated(build_batch(Record(b"k", b"v", time) for time in times), rules)
    assert [error.batch_index for error in caught.value.record_errors] == [2, 4]
    validated(build_batch([Record(b"k", b"v", -1)]), rules)


@pytest.mark.parametrize(("base", "delta"), [((1 << 63) - 1, 5), (-1 << 63, -5), (1000, (1 << 63) - 1)])
@pytest.mark.parametrize("rules", [Rules(), Rules(timestamp_type=TimestampType.LOG_APPEND_TIME)])
def test_timestamps_beyond_64_bits(base: int, delta: int, rules: Rules) -> None:
    """A header and a delta that are both right, and no time together."""
    sent = build_batch([Record(b"k", b"v", 0), Record(b"k", b"v", delta)])
    with pytest.raises(InvalidTimestampError, match="64 bits"):
        validated(changed(sent, lambda header: header.replace(base_timestamp=base)), rules)


def test_no_time_is_too_early_where_nothing_limits_it() -> None:
    earliest = -1 << 63
    assert read_header(validated(build_batch([Record(b"k", b"v", earliest)]))).base_timestamp == earliest


def test_too_large_as_sent_and_once_unpacked() -> None:
    large = [Record(b"k", bytes(100_000), NOW_MS)] * 100
    with pytest.raises(MessageTooLargeError):
        validated(build_batch(large))
    for codec in list(Codec)[1:]:
        data = build_batch(large, codec=codec)
        with pytest.raises(MessageTooLargeError) as caught:
            vet(data, Rules(unpacked_bytes_max=9_999_999), now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
        assert caught.value.error == "MESSAGE_TOO_LARGE"


def test_chunks_are_bounded_however_well_it_was_packed() -> None:
    data = bytes(32 << 20)
    for codec in list(Codec)[1:]:
        assert max(map(len, unpack(codec, pack(codec, data)))) <= 64 << 10


def test_a_snappy_block_that_claims_too_much_is_not_tried() -> None:
    with pytest.raises(MessageTooLargeError):
        list(unpack(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(10)))


def test_unframed_snappy_is_read() -> None:
    plain = b"records" * 99
    assert b"".join(unpack(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(plain)))) == plain


def test_codecs_that_do_not_exist() -> None:
    with pytest.raises(UnsupportedCompressionTypeError):
        validated(changed(build_batch(RECORDS), lambda header: header.replace(attributes=5)))


def test_markers() -> None:
    marker = EndTransactionMarker(ControlType.ABORT, 12)
    data = build_marker(marker, producer_id=5, producer_epoch=1, timestamp=NOW_MS)
    assert read_marker(data) == marker
    with pytest.raises(InvalidRecordError):
        validated(data)
    assert read_header(validated(data, origin=AppendOrigin.COORDINATOR)).is_control


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_messages_are_read_with_their_offsets(magic: int, codec: Codec) -> None:
    data = old_run(magic, codec)
    found = [record for frame in frames(data) for record in read_any(data, frame.position)]
    assert [(r.offset, r.value, r.timestamp) for r in found] == [
        (100 + i, b"v%d" % i, 5 + i if magic else -1) for i in range(5)
    ]
    assert first_offset(data) == 100
    assert [check_any(data, frame).last_offset for frame in frames(data)][-1] == 104


def test_old_messages_cannot_be_sent() -> None:
    for magic in (0, 1):
        with pytest.raises(InvalidRecordError, match="only magic 2"):
            validated(old_message(magic, b"v"))


def test_old_messages_that_cannot_be_read() -> None:
    good = old_message(1, b"v")
    for bad, error in (
        (good[:-1] + b"w", CorruptMessageError),
        (old_message(1, pack(Codec.GZIP, old_message(0, b"v")), attributes=1), InvalidRecordError),
        (old_message(1, pack(Codec.GZIP, old_message(1, good, attributes=1)), attributes=1), InvalidRecordError),
        (old_message(1, pack(Codec.GZIP, good + b"more"), attributes=1), InvalidRecordError),
        (old_message(1, pack(Codec.GZIP, b""), attributes=1), InvalidRecordError),
        (old_message(1, b"not gzip", attributes=1), CorruptMessageError),
    ):
        with pytest.raises(error):
            list(read_any(bad))


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_what_unpacks_to_very_much_is_judged_elsewhere(codec: Codec) -> None:
    data = build_batch([Record(b"k", bytes(100_000), NOW_MS)] * 100, codec=codec)
    with pytest.raises(LaboriousError):
        validated(data)
    vetted = vet(data, Rules(), now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    found = validate(vetted, Rules(), base_offset=7, leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    assert (found.header.base_offset, found.header.last_offset) == (7, 106)
    assert b"".join(found.parts)[HEADER_BYTES:] == data[HEADER_BYTES:]


@pytest.mark.parametrize(
    ("target", "size", "level", "elsewhere"),
    [
        ("gzip", 60_000, None, False),
        ("gzip", 70_000, None, True),
        ("gzip", 20_000, 9, True),
        ("zstd", 500_000, None, False),
        ("zstd", 600_000, None, True),
        ("lz4", 1_000_000, None, False),
    ],
)
def test_what_takes_long_to_pack_is_packed_elsewhere(
    target: str, size: int, level: int | None, *, elsewhere: bool
) -> None:
    data = build_batch([Record(b"k", bytes(size), NOW_MS)])
    rules = Rules(compression_type=target, compression_level=level, max_message_bytes=10_000_000)
    if elsewhere:
        with pytest.raises(LaboriousError):
            validated(data, rules)
        data = b"".join(map(bytes, (vet(data, rules, now_ms=NOW_MS, origin=AppendOrigin.CLIENT).data,)))
    stored = validated(data, rules)
    assert read_header(stored).codec_id == CODEC_BY_NAME[target]
    assert [record.value for record in read_batch(stored)] == [bytes(size)]


@pytest.mark.parametrize(("target", "low", "high"), [("gzip", 1, 9), ("zstd", 1, 19), ("lz4", 1, 17)])
def test_a_higher_level_packs_tighter(target: str, low: int, high: int) -> None:
    words = b" ".join(b"%d-%d" % (number * number % 977, number % 13) for number in range(1500))
    data = build_batch([Record(b"k", words, NOW_MS)])
    sizes = [len(validated(data, Rules(compression_type=target, compression_level=level))) for level in (low, high)]
    assert sizes[0] > sizes[1]


def test_wrong_records_among_very_many_are_looked_for_elsewhere() -> None:
    data = build_batch([Record(b"k", b"", NOW_MS)] * 20_000 + [Record(None, b"", NOW_MS)] * 2000)
    rules = Rules(compacted=True)
    with pytest.raises(LaboriousError):
        validated(data, rules)
    with pytest.raises(InvalidRecordError) as caught:
        vet(data, rules, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    assert [error.batch_index for error in caught.value.record_errors] == list(range(20_000, 21_000))


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_memory_is_constant_however_much_there_is(codec: Codec) -> None:
    """Judging, packing anew, saying what is wrong, reading: none of them holds what 64 MB unpack to."""
    large = Record(b"k", bytes(1 << 20), NOW_MS)
    data = build_batch([large] * 64, codec=codec)
    rules = Rules(max_message_bytes=len(data) + (8 << 20))
    late = Rules(max_message_bytes=rules.max_message_bytes, before_max_ms=0)
    other = "gzip" if codec is not Codec.GZIP else "zstd"
    tracemalloc.start()
    try:
        vet(data, rules, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
        vet(data, replace(rules, compression_type=other), now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
        with pytest.raises(InvalidTimestampError):
            vet(data, late, now_ms=NOW_MS + 1, origin=AppendOrigin.CLIENT)
        with pytest.raises(MessageTooLargeError):
            vet(data, replace(rules, compression_type="uncompressed"), now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
        assert sum(1 for _ in read_batch(data)) == 64
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(data) + (24 << 20)


def test_varints() -> None:
    assert put_varint(0) == b"\0"
    assert put_varint(-1) == b"\1"
    assert put_varint(1) == b"\2"
    assert put_varint(-(1 << 63)) == b"\xff" * 9 + b"\1"
