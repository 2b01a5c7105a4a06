"""Rows in the form that was asked for, as they come: there may be more of them than memory holds."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa


def plain(value: Any) -> Any:
    """A value as JSON can hold it: bytes as text where they are text, else in base64; instants in RFC 3339."""
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return base64.b64encode(value).decode()
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case timedelta() | Decimal() | pa.MonthDayNano():
            return str(value)
        case list():
            return [plain(item) for item in value]
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case _:
            return value


def write_json_lines(reader: pa.RecordBatchReader, out: IO[bytes]) -> int:
    rows = 0
    for batch in reader:
        for row in batch.to_pylist():
            out.write(json.dumps(plain(row), ensure_ascii=False).encode() + b"\n")
        rows += batch.num_rows
        out.flush()
    return rows


def write_json(reader: pa.RecordBatchReader, out: IO[bytes]) -> int:
    """One array of objects."""
    rows = 0
    out.write(b"[")
    for batch in reader:
        for row in batch.to_pylist():
            out.write((b",\n" if rows else b"\n") + json.dumps(plain(row), ensure_ascii=False).encode())
            rows += 1
    out.write(b"\n]\n")
    return rows


def write_csv(reader: pa.RecordBatchReader, out: IO[bytes]) -> int:
    import csv
    import io

    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    rows = 0
    try:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(reader.schema.names)
        for batch in reader:
            for row in batch.to_pylist():
                writer.writerow(_cell(value) for value in row.values())
            rows += batch.num_rows
    finally:
        text.detach()
    return rows


def write_parquet(reader: pa.RecordBatchReader, out: IO[bytes]) -> int:
    import pyarrow.parquet as pq

    rows = 0
    with pq.ParquetWriter(out, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def write_arrow(reader: pa.RecordBatchReader, out: IO[bytes]) -> int:
    """Arrow's stream, for whatever reads it on the other end of a pipe."""
    rows = 0
    with pa.ipc.new_stream(out, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


WRITERS: dict[str, Callable[[pa.RecordBatchReader, IO[bytes]], int]] = {
    "json": write_json,
    "jsonl": write_json_lines,
    "csv": write_csv,
    "parquet": write_parquet,
    "arrow": write_arrow,
}


def _cell(value: Any) -> Any:
    made = plain(value)
    return json.dumps(made, ensure_ascii=False) if isinstance(made, dict | list) else made
