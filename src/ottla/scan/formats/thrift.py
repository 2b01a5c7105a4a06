"""Thrift, with the structs in a file (.thrift); in the binary protocol, or the compact one with ``valueProtocol=compact``.

thriftpy2 reads the file. It does not read the values: its compiled reader goes beyond the end of one that is cut off, and hands out
what lies there in memory; so they are read here (``thriftwire``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import thriftpy2
from thriftpy2.parser.exc import ThriftParserError

from ottla.scan.errors import OptionError
from ottla.scan.formats import thriftwire as wire
from ottla.scan.formats.base import RowFormat

BINARY = 18
"""What thriftpy2 calls the type of a string that is no text; on the wire it is one."""

_NUMBERS = {
    wire.BOOL: pa.bool_(),
    wire.BYTE: pa.int8(),
    wire.I16: pa.int16(),
    wire.I32: pa.int32(),
    wire.I64: pa.int64(),
    wire.DOUBLE: pa.float64(),
}
_DEPTH_MAX = 16
Convert = Callable[[Any], Any]


class ThriftFormat(RowFormat):
    name = "thrift"

    def __init__(self, struct: type[Any], *, compact: bool = False) -> None:
        self._compact = compact
        kind, self._convert = _struct(struct, 0)
        super().__init__(pa.schema(list(kind)))

    def parse_row(self, value: bytes) -> Sequence[object] | None:
        try:
            row: dict[str, object] = self._convert(wire.read_struct(value, compact=self._compact))
        except ValueError:
            return None
        return list(row.values())


def open_thrift(path: str, message: str, *, compact: bool) -> ThriftFormat:
    try:
        module = thriftpy2.load(str(Path(path).resolve()), module_name=f"schema_{abs(hash(path))}_thrift")
    except (OSError, ThriftParserError) as error:
        raise OptionError(f"valueSchemaFile={path}: {error}") from None
    struct = getattr(module, message, None)
    if struct is None or not hasattr(struct, "thrift_spec"):
        raise OptionError(f"valueMessage={message}: there is no such struct in {path}")
    return ThriftFormat(struct, compact=compact)


def _struct(struct: Any, depth: int) -> tuple[pa.DataType, Convert]:
    """A field of another type than the schema says is passed over, as Thrift does; one that is required has to be there."""
    if depth > _DEPTH_MAX:
        raise OptionError(f"the struct {struct.__name__} contains itself, which no column type can")
    fields = []
    for number, spec in sorted(struct.thrift_spec.items()):
        inner = spec[2] if len(spec) > 3 else None
        made, convert = _column(spec[0], inner, depth + 1)
        fields.append((number, _on_wire(spec[0]), spec[1], bool(spec[-1]), made, convert))

    def taken(found: wire.Fields) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for number, kind, name, required, _, convert in fields:
            known, content = found.get(number, (kind, None))
            if known != kind or content is None:
                if required:
                    raise wire.MalformedError(f"{name} is missing")
                row[name] = None
            else:
                row[name] = convert(content)
        return row

    if not fields:
        return pa.struct([("_", pa.string())]), lambda _: {"_": None}
    return pa.struct([(name, made) for _, _, name, _, made, _ in fields]), taken


def _column(kind: int, inner: Any, depth: int) -> tuple[pa.DataType, Convert]:
    """The type of a column, and how a value from the wire is made into one of it."""
    if kind == wire.STRUCT:
        return _struct(inner, depth)
    if kind in (wire.LIST, wire.SET):
        element, within = _inner(inner)
        made, convert = _column(element, within, depth + 1)
        return pa.list_(made), lambda found: [convert(item) for item in _elements(found[1], (found[0], element))]
    if kind == wire.MAP:
        (key, in_key), (value, in_value) = _inner(inner[0]), _inner(inner[1])
        key_type, to_key = _column(key, in_key, depth + 1)
        value_type, to_value = _column(value, in_value, depth + 1)
        return pa.map_(key_type, value_type), lambda found: [
            (to_key(one), to_value(other)) for one, other in _elements(found[2], (found[0], key), (found[1], value))
        ]
    if kind == wire.I32 and inner is not None and hasattr(inner, "_VALUES_TO_NAMES"):
        names = inner._VALUES_TO_NAMES
        return pa.string(), lambda number: names.get(number, str(number))
    if kind == wire.STRING:
        return pa.string(), bytes.decode
    return (pa.binary(), bytes) if kind == BINARY else (_NUMBERS[kind], _same)


def _elements(items: list[Any], *kinds: tuple[int, int]) -> list[Any]:
    """The elements of a list or map, if they are of the types that the schema says."""
    if items and any(found != _on_wire(wanted) for found, wanted in kinds):
        raise wire.MalformedError("elements of another type than the schema says")
    return items


def _on_wire(kind: int) -> int:
    return wire.STRING if kind == BINARY else kind


def _inner(spec: Any) -> tuple[int, Any]:
    """An element's type: a number, or one with what is inside."""
    return (spec[0], spec[1]) if isinstance(spec, tuple) else (spec, None)


def _same(value: Any) -> Any:
    return value
