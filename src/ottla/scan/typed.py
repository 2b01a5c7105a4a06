"""A topic as a table: the typed columns of its values, and where each record came from.

Of the value, by its format: its own columns. Of the record: ``_key``, ``_partition``, ``_offset``, ``_timestamp``, ``_headers``,
``_topic`` and the value as it is, ``_value``. ``_corrupt`` holds the value where it is malformed, and is null elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ottla.scan.columns import RAW, batch_of
from ottla.scan.decoding import Decoded
from ottla.scan.formats.base import Format, as_text

CORRUPT = "_corrupt"
META = {
    "_key": "key",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
    "_headers": "headers",
    "_topic": "topic",
    "_timestampType": "timestampType",
    "_value": "value",
}
"""The columns of every table, and the raw ones that they are."""


class Table:
    """Which columns there are, and how decoded records become rows of those that are wanted."""

    def __init__(self, form: Format, *, text_keys: bool, text_values: bool, in_sql: bool = False) -> None:
        """``in_sql``: fields that SQL has no name for, or cannot tell from another column, are found in ``_value`` alone."""
        self.form = form
        self._texts = {"_key": text_keys, "_value": text_values, CORRUPT: text_values}
        own = [field for field in form.schema if field.name not in META and field.name != CORRUPT]
        own = _sayable(own) if in_sql else own
        meta = [pa.field(name, self._type(name, RAW.field(raw).type)) for name, raw in META.items()]
        self.schema = pa.schema([*own, *meta, pa.field(CORRUPT, self._type(CORRUPT, pa.binary()))])

    def raw(self, names: Sequence[str]) -> frozenset[str]:
        """The raw columns that these columns are made of."""
        return frozenset(META.get(name, "value") for name in names)

    def batch(self, found: Decoded, wanted: pa.Schema) -> pa.RecordBatch:
        """Rows with the columns of ``wanted``, which are among those of the table."""
        own = [name for name in wanted.names if name not in META and name != CORRUPT]
        made: dict[str, pa.Array] = {}
        malformed = None
        if CORRUPT in wanted.names:
            # Whether a value is malformed must not depend on which of its columns are asked for.
            own = [name for name in self.schema.names if name not in META and name != CORRUPT]
        if own or CORRUPT in wanted.names:
            made, malformed = self.form.decode(found.arrays["value"], own)
        for name in wanted.names:
            if name in META:
                made[name] = self._shown(name, found.arrays[META[name]])
            elif name == CORRUPT:
                made[name] = self._corrupt(found.arrays["value"], malformed, found.rows)
        return batch_of(wanted, made, found.rows)

    def batches(self, decoded: Iterator[Decoded], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        for found in decoded:
            yield self.batch(found, wanted)

    def _type(self, name: str, raw: pa.DataType) -> pa.DataType:
        return pa.string() if self._texts.get(name) else raw

    def _shown(self, name: str, array: pa.Array) -> pa.Array:
        return as_text(array) if self._texts.get(name) else array

    def _corrupt(self, values: pa.Array, malformed: pa.Array | None, rows: int) -> pa.Array:
        if malformed is None:
            return pa.nulls(rows, self._type(CORRUPT, pa.binary()))
        return self._shown(CORRUPT, pc.if_else(malformed, values, pa.scalar(None, pa.binary())))


def _sayable(fields: Sequence[pa.Field]) -> list[pa.Field]:
    """One column of each name, as SQL does not look at the case of names: those of the record first, then the first of the value."""
    taken = {name.lower() for name in (*META, CORRUPT)}
    found = []
    for field in fields:
        folded = field.name.lower()
        if folded and "\0" not in folded and folded not in taken:
            taken.add(folded)
            found.append(field)
    return found
