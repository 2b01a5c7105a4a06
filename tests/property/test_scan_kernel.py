"""The kernel's columns against the reader that makes a value of each record."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.records.batch import HEADER_BYTES, TimestampType, check_batch, frames, read_header, stamped
from ottla.records.codecs import Codec
from ottla.records.control import ControlType, EndTransactionMarker, build_marker
from ottla.records.record import Record, build_batch, read_records
from ottla.scan.columns import EVERYTHING, RAW, Filter, select
from ottla.scan.decoding import Run, Source, decode

contents = st.none() | st.binary(max_size=80)
records = st.builds(
    Record,
    key=st.none() | st.sampled_from([b"", b"a", b"b"]) | st.binary(max_size=300),
    value=contents,
    timestamp=st.integers(-1, 1 << 41),
    headers=st.lists(st.tuples(st.text(max_size=3).map(str.encode), contents), max_size=3).map(tuple),
)
SOURCE = Source("events", 3)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@st.composite
def runs(draw: st.DrawFn) -> bytes:
    parts, offset = [], draw(st.integers(0, 1 << 40))
    for batch in draw(st.lists(st.lists(records, min_size=1, max_size=12), max_size=5)):
        codec = draw(st.sampled_from(Codec))
        kind = draw(st.sampled_from(TimestampType))
        parts.append(build_batch(batch, base_offset=offset, codec=codec, timestamp_type=kind))
        offset += len(batch) + draw(st.integers(0, 3))
    return b"".join(parts)


def rows(data: bytes, names: list[str], passing: Filter = EVERYTHING, **more: Any) -> list[dict[str, Any]]:
    run = Run(data, 0, len(data), **more)
    made = []
    for arrays, count in decode(run, SOURCE, frozenset(names), passing):
        batch = pa.RecordBatch.from_arrays([arrays[name] for name in names], schema=select(names))
        batch.validate(full=True)
        assert batch.num_rows == count
        made += batch.to_pylist()
    return made


def expected(data: bytes, passing: Filter = EVERYTHING) -> list[dict[str, Any]]:
    made = []
    for frame in frames(data):
        header = check_batch(data, frame)
        for record in read_records(data[frame.position : frame.position + frame.size]):
            if not passing.first_offset <= record.offset < passing.end_offset:
                continue
            if not passing.timestamp_from <= record.timestamp < passing.timestamp_until:
                continue
            if passing.keys is not None and record.key not in passing.keys:
                continue
            made.append(
                {
                    "key": record.key,
                    "value": record.value,
                    "topic": SOURCE.topic,
                    "partition": SOURCE.partition,
                    "offset": record.offset,
                    "timestamp": EPOCH + timedelta(milliseconds=record.timestamp),
                    "timestampType": int(header.timestamp_type),
                    "headers": [{"key": key.decode(), "value": value} for key, value in record.headers] or None,
                }
            )
    return made


@given(runs())
def test_every_column_is_what_the_reader_finds(data: bytes) -> None:
    assert rows(data, list(RAW.names)) == expected(data)


@given(runs(), st.lists(st.sampled_from(RAW.names), unique=True, min_size=1))
def test_only_what_was_asked_for_is_there(data: bytes, names: list[str]) -> None:
    assert rows(data, names) == [{name: row[name] for name in names} for row in expected(data)]


@given(runs(), st.data())
def test_a_filter_passes_what_it_says(data: bytes, draw: st.DataObject) -> None:
    every = list(read_records(data))
    offsets = st.sampled_from([record.offset for record in every] or [0])
    times = st.sampled_from([record.timestamp for record in every] or [0])
    passing = Filter(
        first_offset=draw.draw(st.just(0) | offsets),
        end_offset=draw.draw(st.just(1 << 62) | offsets),
        timestamp_from=draw.draw(st.just(-1) | times),
        timestamp_until=draw.draw(st.just(1 << 62) | times),
        keys=draw.draw(st.none() | st.just((b"a", b""))),
    )
    assert rows(data, ["offset", "value"], passing) == [
        {"offset": row["offset"], "value": row["value"]} for row in expected(data, passing)
    ]
    run = Run(data, 0, len(data))
    assert sum(found.rows for found in decode(run, SOURCE, frozenset(), passing)) == len(expected(data, passing))


@given(runs(), st.integers(1, 60))
def test_what_is_left_of_a_batch_at_the_end_is_passed_over(data: bytes, cut: int) -> None:
    torn = data[:-cut]
    whole = sum(frame.size for frame in frames(torn))
    assert rows(torn, ["offset"]) == rows(data[:whole], ["offset"])


@given(st.lists(records, min_size=1, max_size=5), st.data())
def test_damage_is_told_and_never_read(batch: list[Record], draw: st.DataObject) -> None:
    data = bytearray(build_batch(batch))
    at = draw.draw(st.integers(HEADER_BYTES, len(data) - 1))
    data[at] ^= draw.draw(st.integers(1, 255))
    with pytest.raises(CorruptionError, match="events-3"):
        rows(bytes(data), list(RAW.names))
    # The same with a checksum that is right: only what can be no record is refused, and nothing else raises.
    header = read_header(bytes(data))
    body = bytes(data[HEADER_BYTES:])
    with suppress(CorruptionError):
        rows(stamped(header, body).pack() + body, list(RAW.names))


def test_aborted_transactions_are_left_out_from_their_first_offset_to_their_marker() -> None:
    def batch(offset: int, producer_id: int, value: bytes) -> bytes:
        return build_batch(
            [Record(None, value, 1)],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=producer_id >= 0,
        )

    def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
        end = EndTransactionMarker(kind, 0)
        return build_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset)

    data = b"".join(
        [
            batch(0, 1, b"committed before"),
            marker(1, 1, ControlType.COMMIT),
            batch(2, 1, b"aborted"),
            batch(3, 2, b"committed"),
            batch(4, -1, b"of no transaction"),
            batch(5, 1, b"aborted too"),
            marker(6, 1, ControlType.ABORT),
            marker(7, 2, ControlType.COMMIT),
            batch(8, 1, b"committed after"),
            marker(9, 1, ControlType.COMMIT),
        ]
    )
    committed = [row["value"] for row in rows(data, ["value"], aborted=((1, 2),))]
    assert committed == [b"committed before", b"committed", b"of no transaction", b"committed after"]
    assert len(rows(data, ["value"])) == 6
