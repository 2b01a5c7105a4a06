"""Records out of lines and JSON, and rows as tables and documents."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.client.jsonrecord import dump_line, parse_line
from ottla.cli.client.output import Column, Table, field, table_lines, yaml_lines
from ottla.cli.client.reading import read_json_lines, read_lines
from ottla.cli.client.record import CREATE_TIME, LOG_APPEND_TIME, ClientRecord, RecordInputError

NULLABLE = st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=20).map(str.encode))

RECORDS = st.builds(
    ClientRecord,
    key=NULLABLE,
    value=NULLABLE,
    headers=st.lists(st.tuples(st.text(max_size=5), NULLABLE), max_size=3).map(tuple),
    topic=st.from_regex(r"\A[a-zA-Z0-9._-]{0,9}\Z"),
    partition=st.integers(-1, (1 << 31) - 1),
    offset=st.integers(-1, (1 << 63) - 1),
    timestamp=st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1)),
    timestamp_type=st.sampled_from(["", CREATE_TIME, LOG_APPEND_TIME]),
    leader_epoch=st.just(-1),
    lacks_headers=st.just(False),
)


@given(st.lists(RECORDS))
def test_json_lines_are_read_as_they_were_written(records: list[ClientRecord]) -> None:
    lines = b"".join(map(dump_line, records))
    assert lines.count(b"\n") == len(records)
    assert list(read_json_lines(io.BytesIO(lines), limit=1 << 20)) == records


def test_bytes_that_are_no_text_are_marked() -> None:
    line = json.loads(dump_line(ClientRecord(b"\xff", b"", (("h", b"\x80"),))))
    assert line["key"] == {"base64": "/w=="}
    assert line["value"] == ""
    assert line["headers"] == [{"key": "h", "value": {"base64": "gA=="}}]


def test_everything_may_be_left_out() -> None:
    assert parse_line(b"{}") == ClientRecord()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"3", "no JSON object"),
        (b'{"val": "x"}', "unknown field 'val'"),
        (b'{"value": 3}', "value: neither a string"),
        (b'{"value": {"base64": "*"}}', "value: what is in base64"),
        (b'{"value": {"base64": "AA==", "x": 1}}', "value: neither"),
        (b'{"key": "\\ud800"}', "key: half of a surrogate"),
        (b'{"partition": true}', "partition"),
        (b'{"partition": 4294967296}', "partition"),
        (b'{"timestamp": "now"}', "timestamp"),
        (b'{"timestamp": -9223372036854775809}', "timestamp"),
        (b'{"timestamp_type": "x"}', "timestamp_type"),
        (b'{"topic": 3}', "topic"),
        (b'{"headers": {}}', "headers: no list"),
        (b'{"headers": [["a", "b"]]}', "headers: a header"),
        (b'{"headers": [{"key": "a", "wert": 1}]}', "headers: a header"),
    ],
)
def test_lines_that_are_no_records(line: bytes, reason: str) -> None:
    with pytest.raises(RecordInputError) as caught:
        parse_line(line)
    assert reason in str(caught.value)


def test_lines() -> None:
    assert [record.value for record in read_lines(io.BytesIO(b"a\n\nb"), limit=9)] == [b"a", b"", b"b"]
    assert list(read_lines(io.BytesIO(b"k::v::w\n"), limit=9, key_delimiter=b"::")) == [ClientRecord(b"k", b"v::w")]
    with pytest.raises(RecordInputError, match="no '::' in the line"):
        list(read_lines(io.BytesIO(b"kv\n"), limit=9, key_delimiter=b"::"))


class Endless:
    """A line that never ends, and how much of it was asked for."""

    def __init__(self) -> None:
        self.given = 0

    def read1(self, size: int, /) -> bytes:
        self.given += size
        return b"x" * size


def test_a_line_without_end_costs_no_more_than_the_limit() -> None:
    stream = Endless()
    with pytest.raises(RecordInputError, match="without"):
        next(read_lines(stream, limit=1 << 20))
    assert stream.given < 2 << 20


# ---------------------------------------------------------------- rows


def test_a_table_aligns_numbers_to_the_right() -> None:
    rows = [
        {"name": "a", "count": 5, "ids": [1, 2], "on": True},
        {"name": "long", "count": 1000, "ids": [], "on": None},
    ]
    columns = [field("NAME", "name"), field("COUNT", "count"), field("IDS", "ids"), Column("ON", lambda row: row["on"])]
    assert list(table_lines(rows, columns, header=True)) == [
        "NAME  COUNT  IDS  ON",
        "a         5  1,2  yes",
        "long   1000       -",
    ]
    assert len(list(table_lines(rows, columns, header=False))) == 2
    assert list(table_lines([], columns, header=True)) == ["NAME  COUNT  IDS  ON"]


def test_columns_stay_where_they_are_when_rows_come_in_parts() -> None:
    table = Table([field("NAME", "name"), field("N", "n")], header=True)
    assert list(table.lines([{"name": "longest", "n": 100}])) == ["NAME       N", "longest  100"]
    assert list(table.lines([{"name": "a", "n": 7}, {"name": "b", "n": None}])) == ["a          7", "b          -"]
    assert list(table.lines([{"name": "c", "n": 1000}])) == ["c        1000"]


def test_yaml() -> None:
    document = {
        "version": 1,
        "topics": [{"name": "a b", "ids": [1, 2], "none": None, "map": {}}, {"name": "no"}],
        "empty": [],
    }
    assert list(yaml_lines(document)) == [
        "version: 1",
        "topics:",
        '  - name: "a b"',
        "    ids:",
        "      - 1",
        "      - 2",
        "    none: null",
        "    map: {}",
        '  - name: "no"',
        "empty: []",
    ]
