"""Rows to topics, in a batch or in a stream: at least once, with an idempotent producer in every task.

Columns: ``value``, and if there are any ``key``, ``headers``, ``topic``, ``partition``; others stay where they are, so that what was read can be written as
it is. Keys and values are text or bytes. Every record of a task is acknowledged before the task counts as done; a task that runs
again sends its records again.

    topic               of all records; a column ``topic`` is for rows to choose their own
    partitioner         key (default: by Java's hash of the key, so keys lie where other producers put them), roundRobin, or the
                        name of a function, "package.module:function", that is called with (key, value, partitions)
    compression         none, gzip, snappy, lz4, zstd; the same as kafka.compression.type
    deadLetterTopic     for records that no broker will take, instead of an error
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.scan.errors import OptionError
from pyspark_ottla.options import kafka_options
from pyspark_ottla.sending import Outgoing, Sending, WriteOptions, chooser

COLUMNS: dict[str, tuple[str, ...]] = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
}
"""Of a record, with the types that each may have."""
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    records: int


def parse_write_options(given: Mapping[str, str], schema: StructType) -> WriteOptions:
    options = {name.lower(): value for name, value in given.items()}
    kafka = kafka_options(options)
    compression = options.get("compression", kafka.get("compression.type"))
    if compression is not None:
        kafka["compression.type"] = _compression(compression)
    types = {field.name: field.dataType.simpleString() for field in schema.fields if field.name in COLUMNS}
    if "value" not in types:
        raise OptionError("there is no column value to write")
    for name, found in types.items():
        if found not in COLUMNS[name]:
            raise OptionError(f"{name} is {found}: it has to be {' or '.join(COLUMNS[name])}")
    topic = options.get("topic")
    if topic is None and "topic" not in types:
        raise OptionError("no topic to write to: give the option topic, or a column of that name")
    partitioner = options.get("partitioner", "key")
    chooser(partitioner)
    letters = options.get("deadlettertopic") or None
    if letters is not None and letters == topic:
        raise OptionError(f"deadLetterTopic={letters}: what this topic does not take cannot go there")
    return WriteOptions(kafka, topic, partitioner, letters)


def _compression(text: str) -> str:
    # What is not packed is "uncompressed" to files of Spark and to topics.
    name = text.lower().replace("uncompressed", "none")
    if name not in COMPRESSIONS:
        raise OptionError(f"compression={text}: give one of {', '.join(COMPRESSIONS)}")
    return name


class OttlaBatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return send(self._options, iterator)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return send(self._options, iterator)


def send(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """In a worker: everything, acknowledged."""
    sending = Sending(options)
    for batch in batches:
        for record in _records(options, batch):
            sending.put(record)
        sending.check()
    sending.finish()
    return Written(sending.sent)


def _records(options: WriteOptions, batch: pa.RecordBatch) -> Iterator[Outgoing]:
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name in COLUMNS}
    nothing = [None] * batch.num_rows
    topics = nothing if options.topic is not None else columns["topic"]
    for topic, partition, key, value, headers in zip(
        topics,
        columns.get("partition", nothing),
        columns.get("key", nothing),
        columns["value"],
        columns.get("headers", nothing),
        strict=True,
    ):
        pairs = None if headers is None else [_pair(header) for header in headers]
        yield Outgoing(options.topic or topic, partition, _bytes(key), _bytes(value), pairs)


def _pair(header: Mapping[str, Any] | None) -> tuple[str | None, bytes | None]:
    return (None, None) if header is None else (header["key"], header["value"])


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
