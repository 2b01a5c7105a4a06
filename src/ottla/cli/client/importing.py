"""Files into a topic, so that an import that was broken off goes on where it was.

A file of records (with a column ``value``, as ``ottla export`` writes them) becomes those records again. Of any other, each row becomes
a JSON object, and a column may be the key. How many rows of each file are acknowledged is written down in a small state file after
every few thousand: what was sent behind that is sent again, so it is at least once. Rows are counted, and what they held is summed
up, so a file that has others in their place by now is refused; one that grew, or was mended behind them, goes on. So is a state
refused that is of another topic of that name.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ottla.base.errors import Error
from ottla.cli.client.jsonrecord import FIELDS, parse_line
from ottla.cli.client.record import ANY_PARTITION, ClientRecord, RecordInputError
from ottla.sql.output import plain

STEP = 5000
"""Records between two notes of how far it is."""
FORMATS = ("parquet", "csv", "jsonl")


class ImportFailedError(Error):
    """A file that cannot be imported; the message names it and the row."""


class Reading(NamedTuple):
    topic: str
    key: str | None = None
    """The column that is the key, where rows become objects."""
    keep_partitions: bool = False
    keep_times: bool = True


class Sent:
    """The rows of a file that were sent: how many, and a sum of what they held."""

    def __init__(self) -> None:
        self.rows = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, found: Iterable[ClientRecord]) -> None:
        for record in found:
            self.rows += 1
            for part in (record.key, record.value):
                self._digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


class Noted(NamedTuple):
    """What was written down of a file."""

    rows: int = 0
    digest: str = ""


NOTHING = Noted()


class State:
    """How far each file is, for one topic: ``{"topic": ID, "files": {"/data/users.csv": {"rows": 5000, "digest": ...}}}``."""

    def __init__(self, path: Path, topic_id: str | None = None) -> None:
        self._path = path
        self._topic_id = topic_id
        try:
            found = json.loads(path.read_text()) if path.exists() else {}
            self._files = {file: Noted(**noted) for file, noted in found.get("files", {}).items()}
            known = found.get("topic")
        except (ValueError, TypeError, AttributeError) as error:
            raise ImportFailedError(f"{path}: is not what ottla import wrote: {error}") from error
        if known is not None and topic_id is not None and known != topic_id:
            raise ImportFailedError(f"{path}: is of an earlier topic of that name; remove it to begin anew")

    def of(self, file: Path) -> Noted:
        return self._files.get(str(file.resolve()), NOTHING)

    def note(self, file: Path, sent: Sent) -> None:
        self._files[str(file.resolve())] = Noted(sent.rows, sent.digest)
        self.save()

    def save(self) -> None:
        temporary = self._path.with_name(self._path.name + ".tmp")
        files = {file: noted._asdict() for file, noted in self._files.items()}
        with temporary.open("w") as out:
            json.dump({"topic": self._topic_id, "files": files}, out)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(self._path)


def form_of(path: Path) -> str:
    form = path.suffix.lstrip(".").lower()
    form = {"json": "jsonl", "ndjson": "jsonl", "pq": "parquet"}.get(form, form)
    if form not in FORMATS:
        raise ImportFailedError(f"{path}: what it holds cannot be told by its name; --format does")
    return form


def records(
    path: Path, form: str, reading: Reading, *, sent: Sent | None = None, noted: Noted = NOTHING
) -> Iterator[ClientRecord]:
    """The records of a file behind those that are noted, which ``sent`` takes up."""
    try:
        made = _lines(path, reading) if form == "jsonl" else _rows(path, form, reading)
        if noted.rows:
            sent = sent or Sent()
            sent.add(islice(made, noted.rows))
            if (sent.rows, sent.digest) != noted:
                raise ImportFailedError(
                    f"{path}: the {noted.rows} rows that were sent of it are not in it any more; "
                    f"remove the state file to send all of it again"
                )
        yield from made
    except (pa.ArrowInvalid, OSError, RecordInputError) as error:
        raise ImportFailedError(f"{path}: {error}") from error


def steps(found: Iterator[ClientRecord]) -> Iterator[list[ClientRecord]]:
    while step := list(islice(found, STEP)):
        yield step


def _lines(path: Path, reading: Reading) -> Iterator[ClientRecord]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield _of_line(line, reading)
            except (RecordInputError, ValueError) as error:
                raise ImportFailedError(f"{path}: line {number}: {error}") from None


def _of_line(line: bytes, reading: Reading) -> ClientRecord:
    document = json.loads(line)
    if isinstance(document, dict) and "value" in document and not set(document) - set(FIELDS):
        record = parse_line(line)
        return record._replace(
            topic=reading.topic,
            partition=record.partition if reading.keep_partitions else ANY_PARTITION,
            timestamp=record.timestamp if reading.keep_times else None,
        )
    if not isinstance(document, dict):
        raise RecordInputError("no JSON object")
    return _of_object(document, reading)


def _rows(path: Path, form: str, reading: Reading) -> Iterator[ClientRecord]:
    for batch in _batches(path, form):
        are_records = "value" in batch.schema.names and not set(batch.schema.names) - set(_COLUMNS)
        for row in batch.to_pylist():
            yield _of_record(row, reading) if are_records else _of_object(row, reading)


def _batches(path: Path, form: str) -> Iterator[pa.RecordBatch]:
    if form == "csv":
        yield from pa.csv.open_csv(path)
        return
    with pa.parquet.ParquetFile(path) as file:
        yield from file.iter_batches(STEP)


_COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestampType")


def _of_record(row: Mapping[str, Any], reading: Reading) -> ClientRecord:
    headers = row.get("headers")
    pairs = json.loads(headers) if isinstance(headers, str) and headers else headers or ()
    partition = row.get("partition")
    timestamp = row.get("timestamp")
    return ClientRecord(
        _bytes(row.get("key")),
        _bytes(row["value"]),
        tuple((pair["key"], _bytes(pair["value"])) for pair in pairs),
        reading.topic,
        partition if reading.keep_partitions and partition is not None else ANY_PARTITION,
        timestamp=_milliseconds(timestamp) if reading.keep_times and timestamp is not None else None,
    )


def _of_object(row: Mapping[str, Any], reading: Reading) -> ClientRecord:
    if reading.key is not None and reading.key not in row:
        raise RecordInputError(f"there is no column {reading.key} for the key, but {', '.join(row)}")
    key = None if reading.key is None else row[reading.key]
    value = json.dumps(plain(dict(row)), ensure_ascii=False, separators=(",", ":"))
    text = None if key is None else key if isinstance(key, bytes) else str(plain(key)).encode()
    return ClientRecord(text, value.encode(), topic=reading.topic)


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def _milliseconds(value: Any) -> int:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return int(value)
