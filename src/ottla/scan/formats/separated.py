"""CSV: one line a value, by pyarrow's reader over all values at once."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ottla.scan.columns import TIMESTAMP
from ottla.scan.formats.base import BulkFormat, Parsed, is_text, joined

_NULLS = ["", "null", "NULL"]


class CsvFormat(BulkFormat):
    """Columns in the order of the fields of a line. An empty field is null, but for text, where it is empty unless unquoted."""

    name = "csv"

    def __init__(self, schema: pa.Schema, *, delimiter: str = ",", threads: bool = True) -> None:
        super().__init__(schema)
        self._delimiter = delimiter
        self._threads = threads
        self._nothing = pa.scalar((delimiter * max(len(schema) - 1, 0)).encode())

    def parse(self, values: pa.Array, wanted: pa.Schema) -> Parsed | None:
        # A line feed within a value would be a row of its own; so would an empty value be none.
        breaks = pc.any(pc.match_substring_regex(values, r"[\r\n]")).as_py()
        if breaks or not is_text(values) or pc.any(pc.equal(values, pa.scalar(b""))).as_py():
            return None
        nulls = values.is_null()
        text = joined(pc.fill_null(values, self._nothing), b"\n")
        longest = pc.max(pc.binary_length(values)).as_py() or 0
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(text),
                pa.csv.ReadOptions(
                    column_names=self.schema.names,
                    use_threads=self._threads,
                    block_size=max(1 << 20, 2 * longest + 2),
                ),
                pa.csv.ParseOptions(delimiter=self._delimiter, ignore_empty_lines=False),
                pa.csv.ConvertOptions(
                    column_types=self.schema,
                    include_columns=wanted.names or self.schema.names[:1],
                    null_values=_NULLS,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if table.num_rows != len(values):
            return None
        columns = {name: table.column(name).combine_chunks() for name in wanted.names}
        if not values.null_count:
            return columns
        return {name: pc.if_else(nulls, pa.scalar(None, column.type), column) for name, column in columns.items()}


def infer_csv(values: Iterable[bytes | None], *, delimiter: str = ",", header: str | None = None) -> pa.Schema | None:
    """Columns of the types that all samples have, named by ``header`` or _c0, _c1, ...; None if there is no sample."""
    lines = [value for value in values if value]
    if not lines:
        return None
    width = max(lines[0].decode("utf-8", "replace").count(delimiter) + 1, 1)
    names = [name.strip() for name in header.split(delimiter)] if header else [f"_c{number}" for number in range(width)]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(b"\n".join(lines)),
            pa.csv.ReadOptions(column_names=names),
            pa.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=lambda _: "skip"),
            pa.csv.ConvertOptions(null_values=_NULLS, strings_can_be_null=True),
        )
    except pa.ArrowInvalid:
        return pa.schema([(name, pa.string()) for name in names])
    return pa.schema([(field.name, _settled(field.type)) for field in table.schema])


def _settled(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    return pa.string() if pa.types.is_null(kind) else kind
