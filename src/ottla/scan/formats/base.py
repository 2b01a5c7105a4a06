"""What a format is, and how one bad value does not spoil the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

Parsed = dict[str, pa.Array]
_UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError)


class Decoding(NamedTuple):
    """Typed columns, and which of the values were malformed (None: none of them)."""

    columns: Parsed
    malformed: pa.Array | None


class Format(ABC):
    """Columns, and values decoded into them."""

    name: str

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    @abstractmethod
    def decode(self, values: pa.Array, names: Sequence[str]) -> Decoding:
        """The columns of these names. ``values`` is binary and may hold nulls."""

    def fault(self, value: bytes) -> str:
        """What is wrong with a value that is malformed, for people."""
        return f"{len(value)} bytes that are no {self.name} of these columns"

    def narrowed(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])


class BulkFormat(Format):
    """A format whose values are parsed many at a time, all or none. Bad ones are found by halving."""

    @abstractmethod
    def parse(self, values: pa.Array, wanted: pa.Schema) -> Parsed | None:
        """Every value as a row; None if any of them is malformed."""

    def decode(self, values: pa.Array, names: Sequence[str]) -> Decoding:
        wanted = self.narrowed(names)
        if not len(values):
            return Decoding({field.name: pa.array([], field.type) for field in wanted}, None)
        parsed = self.parse(values, wanted)
        if parsed is not None:
            return Decoding(parsed, None)
        pieces: list[Parsed] = []
        marks: list[pa.Array] = []
        self._halve(values, wanted, pieces, marks)
        columns = {name: pa.concat_arrays([piece[name] for piece in pieces]) for name in wanted.names}
        return Decoding(columns, pa.concat_arrays(marks))

    def _halve(self, values: pa.Array, wanted: pa.Schema, pieces: list[Parsed], marks: list[pa.Array]) -> None:
        """``values`` are known to hold a bad one."""
        if len(values) == 1:
            pieces.append({field.name: pa.nulls(1, field.type) for field in wanted})
            marks.append(pa.array([True]))
            return
        middle = len(values) // 2
        for part in (values[:middle], values[middle:]):
            parsed = self.parse(part, wanted)
            if parsed is None:
                self._halve(part, wanted, pieces, marks)
            else:
                pieces.append(parsed)
                marks.append(pa.repeat(pa.scalar(False), len(part)))


class RowFormat(Format):
    """A format whose values are parsed one by one."""

    @abstractmethod
    def parse_row(self, value: bytes) -> Sequence[object] | None:
        """Every column of the schema, in its order; None if the value is malformed."""

    def decode(self, values: pa.Array, names: Sequence[str]) -> Decoding:
        nothing = (None,) * len(self.schema)
        rows: list[Sequence[object]] = []
        marks: list[bool] = []
        for value in values.to_pylist():
            row = nothing if value is None else self.parse_row(value)
            marks.append(row is None)
            rows.append(nothing if row is None else row)
        try:
            columns = self._columns(rows, names)
        except _UNFIT:
            # A number too large for its column, say: such a value is malformed, too.
            for number, row in enumerate(rows):
                if not self._fits(row):
                    rows[number], marks[number] = nothing, True
            columns = self._columns(rows, names)
        return Decoding(columns, pa.array(marks) if any(marks) else None)

    def _columns(self, rows: Sequence[Sequence[object]], names: Sequence[str]) -> Parsed:
        places = [(name, self.schema.get_field_index(name)) for name in names]
        return {name: pa.array([row[at] for row in rows], self.schema.field(at).type) for name, at in places}

    def _fits(self, row: Sequence[object]) -> bool:
        try:
            self._columns([row], self.schema.names)
        except _UNFIT:
            return False
        return True


def joined(values: pa.Array, separator: str | bytes) -> pa.Buffer:
    """All values in one piece, with the separator between them."""
    as_list = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return pc.binary_join(as_list, separator)[0].as_buffer()


def is_text(values: pa.Array) -> bool:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def as_text(values: pa.Array) -> pa.Array:
    """Bytes as text; what is no UTF-8 in them is replaced by U+FFFD."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(decoded, pa.string())
