"""Avro, with the schema in a file (.avsc). Values may carry the five bytes of a schema registry in front, which are passed over."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from ottla.scan.columns import TIMESTAMP
from ottla.scan.errors import OptionError
from ottla.scan.formats.base import RowFormat

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "null": pa.null(),
}
_LOGICAL = {
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "uuid": pa.string(),
}
_REGISTRY_BYTES = 5


class AvroFormat(RowFormat):
    name = "avro"

    def __init__(self, schema: Mapping[str, Any]) -> None:
        try:
            self._schema: Any = fastavro.parse_schema(dict(schema))
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
            raise OptionError(f"no schema of Avro: {error}") from None
        fields = self._schema.get("fields") if isinstance(self._schema, dict) else None
        if fields is None:
            raise OptionError("the schema of Avro values has to be a record")
        self._names = [field["name"] for field in fields]
        known: dict[str, pa.DataType] = {}
        super().__init__(pa.schema([(field["name"], arrow_type(field["type"], known)) for field in fields]))

    def parse_row(self, value: bytes) -> Sequence[object] | None:
        # A record may begin with a zero, too: what is read from there has to fill the value.
        for skipped in (0, _REGISTRY_BYTES) if value[:1] == b"\0" else (0,):
            row = self._row(value, skipped)
            if row is not None:
                return row
        return None

    def _row(self, value: bytes, start: int) -> Sequence[object] | None:
        stream = io.BytesIO(value)
        stream.seek(start)
        try:
            record: Any = fastavro.schemaless_reader(stream, self._schema, None)
        except (EOFError, ValueError, IndexError, OverflowError, TypeError, KeyError, StopIteration):
            return None
        if stream.tell() != len(value):
            return None
        return [_plain(record[name]) for name in self._names]


def open_avro(path: str) -> AvroFormat:
    try:
        return AvroFormat(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise OptionError(f"valueSchemaFile={path}: {error}") from None


def arrow_type(schema: Any, known: dict[str, pa.DataType]) -> pa.DataType:
    """Of an Avro schema as it was parsed; a union may have null and one type more."""
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise OptionError(f"a union of {len(others)} types has no column type: {json.dumps(schema)[:80]}")
        return arrow_type(others[0], known)
    if isinstance(schema, str):
        found = _PRIMITIVES.get(schema) or known.get(schema)
        if found is None:
            raise OptionError(f"the type {schema} of Avro is not known where it is used; a type cannot contain itself")
        return found
    kind = schema["type"]
    if schema.get("logicalType") == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if schema.get("logicalType") in _LOGICAL:
        return _LOGICAL[schema["logicalType"]]
    match kind:
        case "record" | "error":
            made = pa.struct([(field["name"], arrow_type(field["type"], known)) for field in schema["fields"]])
        case "enum":
            made = pa.string()
        case "fixed":
            made = pa.binary()
        case "array":
            return pa.list_(arrow_type(schema["items"], known))
        case "map":
            return pa.map_(pa.string(), arrow_type(schema["values"], known))
        case _:
            return arrow_type(kind, known)
    known[schema["name"]] = made
    return made


def _plain(value: Any) -> Any:
    """Maps as the pairs that Arrow wants; uuids as text."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case dict():
            return {name: _plain(content) for name, content in value.items()}
        case list():
            return [_plain(item) for item in value]
    return str(value) if type(value).__name__ == "UUID" else value
