"""A topic into files, so that an export that was broken off goes on where it was.

    DIR/clicks-0-00000000000000000000-00000000000000250000.parquet       topic, partition, first offset, the offset behind the last
    DIR/.clicks.export                                                  {"cluster": "...", "topic": "..."}: the ids of both

A file is written under another name and renamed once it is whole, so a file that is there is complete, and the names say how far
every partition has come. Offsets mean something in one topic alone, so another of the same name is not exported behind it. Columns are those of the record; with ``typed`` those that ``ottla sql`` shows.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import pyarrow as pa

from ottla.base.errors import Error
from ottla.cli.client.jsonrecord import dump_line
from ottla.cli.client.record import CREATE_TIME, LOG_APPEND_TIME, ClientRecord
from ottla.metadata.ids import format_id
from ottla.scan import sampling
from ottla.scan.cluster import LATEST, Cluster, TopicPartition
from ottla.scan.columns import RAW
from ottla.scan.errors import UnknownTopicError
from ottla.scan.fetching import Fetching, Range
from ottla.scan.reading import batches, ranges, read
from ottla.scan.typed import Table
from ottla.sql.output import write_csv, write_json_lines, write_parquet

FILE_RECORDS = 250_000
_NAME = re.compile(r"(.+)-(\d+)-(\d{20})-(\d{20})\.(\w+)")


class OtherTopicError(Error):
    """The directory has files of another topic of the same name."""


class Request(NamedTuple):
    topic: str
    directory: Path
    form: str
    """parquet, csv or jsonl."""
    typed: bool = False
    read_committed: bool = False
    file_records: int = FILE_RECORDS


class Done(NamedTuple):
    """One file that is there now."""

    path: Path
    records: int
    bytes: int
    left: int
    """Offsets that are still to come, over all partitions."""


def export(cluster: Cluster, request: Request) -> Iterator[Done]:
    """Everything that is in the topic now and not in the directory yet."""
    found = cluster.partitions([request.topic])
    if request.topic not in found:
        raise UnknownTopicError(f"there is no topic {request.topic} in this cluster")
    places = [TopicPartition(request.topic, partition) for partition in found[request.topic]]
    request.directory.mkdir(parents=True, exist_ok=True)
    exported = already(request)
    _check_same(cluster, request, exported, places)
    wanted = [
        Range(one.place, max(one.start, exported.get(one.place, 0)), one.end)
        for one in ranges(cluster, places, read_committed=request.read_committed)
    ]
    write = _writer(cluster, request, wanted)
    left = sum(len(one) for one in wanted)
    for one in wanted:
        for start in range(one.start, one.end, request.file_records):
            part = Range(one.place, start, min(start + request.file_records, one.end))
            left -= len(part)
            yield _write_whole(request, part, write, left)


def already(request: Request) -> dict[TopicPartition, int]:
    """How far each partition has come in the directory."""
    behind: dict[TopicPartition, int] = {}
    for path in request.directory.iterdir():
        match = _NAME.fullmatch(path.name)
        if match and match[1] == request.topic and match[5] == request.form:
            place = TopicPartition(match[1], int(match[2]))
            behind[place] = max(behind.get(place, 0), int(match[4]))
    return behind


def _check_same(
    cluster: Cluster, request: Request, exported: dict[TopicPartition, int], places: list[TopicPartition]
) -> None:
    """What is in the directory came from this topic, or there is nothing of it."""
    path = request.directory / f".{request.topic}.export"
    cluster_id, topic_id = cluster.identity(request.topic)
    now = {"cluster": cluster_id, "topic": None if topic_id is None else format_id(topic_id)}
    before = json.loads(path.read_text()) if path.exists() else {}
    for what, known in before.items():
        if known is not None and now.get(what) not in (known, None):
            raise OtherTopicError(
                f"{request.directory} has files of another {what}, whose id was {known} and now is {now[what]}: "
                f"give another directory, or remove them and {path.name}"
            )
    ends = cluster.offsets(dict.fromkeys((place for place in places if place in exported), LATEST))
    for place, end in sorted(exported.items()):
        if ends.get(place, 0) < end:
            raise OtherTopicError(
                f"{request.directory} has {place} up to offset {end}, and now it ends at {ends.get(place, 0)}: "
                "the topic was made anew or lost records; give another directory"
            )
    if not before:
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(json.dumps(now) + "\n")
        temporary.replace(path)


Write = Callable[[Range, IO[bytes]], int]


def _write_whole(request: Request, part: Range, write: Write, left: int) -> Done:
    path = request.directory / f"{part.place}-{part.start:020d}-{part.end:020d}.{request.form}"
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as out:
        records = write(part, out)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)
    return Done(path, records, path.stat().st_size, left)


def _writer(cluster: Cluster, request: Request, wanted: list[Range]) -> Write:
    how = Fetching(read_committed=request.read_committed)
    if request.typed:
        table = _table(cluster, wanted)

        def typed(part: Range) -> pa.RecordBatchReader:
            decoded = read(cluster, [part], table.raw(table.schema.names), how=how)
            return pa.RecordBatchReader.from_batches(table.schema, table.batches(decoded, table.schema))

        return lambda part, out: _WRITERS[request.form](typed(part), out)
    if request.form == "jsonl":
        return lambda part, out: _json_lines(batches(cluster, [part], RAW, how=how), out)

    def raw(part: Range) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(RAW, batches(cluster, [part], RAW, how=how))

    return lambda part, out: _WRITERS[request.form](raw(part), out)


def _table(cluster: Cluster, wanted: list[Range]) -> Table:
    how = Fetching(fetch_bytes=sampling.FETCH_BYTES)
    return sampling.guess(sampling.gather(read(cluster, sampling.ends(wanted), sampling.COLUMNS, how=how)))


def _json_lines(found: Iterator[pa.RecordBatch], out: IO[bytes]) -> int:
    """Records as ``ottla produce -f jsonl`` reads them."""
    records = 0
    for batch in found:
        for row in batch.to_pylist():
            headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
            record = ClientRecord(
                row["key"],
                row["value"],
                headers,
                row["topic"],
                row["partition"],
                row["offset"],
                round(row["timestamp"].timestamp() * 1000),
                LOG_APPEND_TIME if row["timestampType"] else CREATE_TIME,
            )
            out.write(dump_line(record))
        records += batch.num_rows
    return records


_WRITERS = {"parquet": write_parquet, "csv": write_csv, "jsonl": write_json_lines}
