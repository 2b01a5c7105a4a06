from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from ottla.scan.errors import OptionError
from pyspark_ottla.sending import Outgoing, Sending, WriteError, WriteOptions, _letter
from pyspark_ottla.sink import _records, parse_write_options

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1"}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORD = {
    "key": pa.string(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": HEADERS,
}


def parsed(columns: Mapping[str, pa.DataType] = RECORD, options: Mapping[str, str] | None = None) -> WriteOptions:
    schema = from_arrow_schema(pa.schema(list(columns.items())))
    return parse_write_options({**NOWHERE, "topic": "clicks", **(options or {})}, schema)


def test_what_was_read_can_be_written_as_it_is() -> None:
    options = parsed({**RECORD, "offset": pa.int64(), "other": pa.map_(pa.string(), pa.int32())})
    batch = pa.RecordBatch.from_pydict({"value": [b"v"], "offset": [7], "other": pa.array([{"a": 1}])})
    assert list(_records(options, batch)) == [Outgoing("clicks", None, None, b"v", None)]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"key": pa.string()}, "no column value"),
        ({"value": pa.int32()}, "value is int: it has to be string or binary"),
        ({**RECORD, "key": pa.int32()}, "key is int"),
        ({**RECORD, "topic": pa.int32()}, "topic is int: it has to be string"),
        ({**RECORD, "partition": pa.int64()}, "partition is bigint: it has to be int"),
        ({**RECORD, "headers": pa.map_(pa.string(), pa.binary())}, "headers is map<string,binary>: it has to be array"),
        ({**RECORD, "headers": pa.list_(pa.string())}, "headers is array<string>"),
    ],
)
def test_columns_of_other_types_are_refused_before_anything_is_written(
    columns: dict[str, pa.DataType], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        parsed(columns)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"compression": "bogus"}, "compression=bogus: give one of none, gzip"),
        ({"kafka.compression.type": "bogus"}, "compression=bogus"),
        ({"partitioner": "math:sqrt"}, "partitioner=math:sqrt: too many positional arguments"),
        ({"partitioner": "math:pi"}, "partitioner=math:pi: .* is not a callable"),
        ({"partitioner": "math:nothing"}, "partitioner=math:nothing"),
    ],
)
def test_options_that_no_task_could_use_are_refused_before_anything_is_written(
    options: dict[str, str], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        parsed(options=options)


def test_compression_is_called_as_topics_and_files_call_it() -> None:
    assert parsed(options={"compression": "ZSTD"}).kafka["compression.type"] == "zstd"
    assert parsed(options={"kafka.compression.type": "uncompressed"}).kafka["compression.type"] == "none"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"headers": [{"key": None, "value": b"1"}]}, "a header has no key"),
        ({"headers": [None]}, "a header has no key"),
        ({"partition": -1}, "partition -1: a partition number should be non-negative or null"),
    ],
)
def test_a_record_that_cannot_be_is_refused_and_not_written_as_another(record: dict[str, object], reason: str) -> None:
    options = parsed()
    schema = pa.schema(
        [
            ("value", pa.binary()),
            ("partition", pa.int32()),
            ("headers", HEADERS),
        ]
    )
    [made] = _records(options, pa.RecordBatch.from_pylist([{"value": b"v", **record}], schema))
    with pytest.raises(WriteError, match=reason):
        Sending(options).put(made)


def test_a_letter_has_the_headers_that_can_be_written() -> None:
    record = Outgoing("clicks", None, b"k", b"v", [(None, b"1"), ("h", b"2")])
    letter = _letter(record, "a header has no key", WriteOptions({}, "clicks", dead_letter_topic="letters"))
    assert letter.headers == [("h", b"2"), ("reason", b"a header has no key"), ("topic", b"clicks")]
