"""The columns that Spark asked for, made of what is read.

Without ``valueFormat`` they are those of Spark's Kafka connector. With it they are the typed columns of the values, and those of
``ottla.scan.typed``. Only what is in the schema is decoded, so ``.schema("value BINARY")`` is how to ask for less.

Spark starts a process to plan each query, so formats, and what they load, are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from ottla.scan.columns import HEADERS, RAW, select
from ottla.scan.decoding import Decoded
from ottla.scan.errors import OptionError
from ottla.scan.fetching import Fetching
from ottla.scan.reading import ranges
from pyspark_ottla.nearby import connected, read_samples
from pyspark_ottla.offsets import subscribed
from pyspark_ottla.options import ReadOptions

if TYPE_CHECKING:
    from ottla.scan.typed import Table
    from pyspark_ottla.deadletters import DeadLetters

DEFAULT = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


class Rows:
    """What becomes of decoded records; made anew from the schema in every worker."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._table: Table | None = None
        self._letters: DeadLetters | None = None
        if options.value_format is None:
            unknown = [name for name in self.schema.names if name not in RAW.names]
            if unknown:
                raise OptionError(
                    f"there is no column {unknown[0]}: give valueFormat for columns of the value, or some of {', '.join(RAW.names)}"
                )
            self.raw = frozenset(self.schema.names)
            return
        from ottla.scan.formats.opening import open_format
        from ottla.scan.typed import CORRUPT, META, Table

        own = pa.schema([field for field in self.schema if field.name not in META and field.name != CORRUPT])
        # Every task has one core.
        form = open_format(options.value_format, own, options.format_options, threads=False)
        assert form is not None
        texts = {name: pa.types.is_string(self.schema.field(name).type) for name in self.schema.names}
        self._table = Table(
            form, text_keys=texts.get("_key", False), text_values=texts.get("_value", texts.get(CORRUPT, False))
        )
        self.raw = self._table.raw(self.schema.names)
        if options.dead_letter_topic is not None:
            from pyspark_ottla import deadletters  # which loads a producer

            self._letters = deadletters.DeadLetters(options.kafka, options.dead_letter_topic)
            self.raw |= set(deadletters.COLUMNS)

    def batches(self, decoded: Iterator[Decoded]) -> Iterator[pa.RecordBatch]:
        """Exactly the schema that Spark expects: it compares names, types and what may be null."""
        for found in decoded:
            if not found.rows:
                continue
            arrays = found.arrays if self._table is None else self._typed(self._table, found)
            columns = [_fitting(arrays[field.name], field.type) for field in self.schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _typed(self, table: Table, found: Decoded) -> dict[str, pa.Array]:
        import pyarrow.compute as pc

        from ottla.scan.typed import CORRUPT

        names = list(self.schema.names)
        if self._letters is not None:
            names = [*names, CORRUPT] if CORRUPT not in names else names
        wanted = pa.schema([table.schema.field(name) for name in names])
        batch = table.batch(found, wanted)
        if self._letters is not None and batch.column(CORRUPT).null_count < found.rows:
            malformed = pc.is_valid(batch.column(CORRUPT))
            self._letters.take(found, malformed, table.form)
            batch = batch.filter(pc.invert(malformed))
        return dict(zip(wanted.names, batch.columns, strict=True))


def default_schema(options: ReadOptions) -> StructType:
    """The columns of a read that names none."""
    if options.value_format is None:
        names = options.columns or (*DEFAULT, *(("headers",) if options.include_headers else ()))
        unknown = [name for name in names if name not in RAW.names]
        if unknown:
            raise OptionError(f"columns: there is no {unknown[0]}; give some of {', '.join(RAW.names)}")
        return from_arrow_schema(select(names))
    from ottla.scan import sampling
    from ottla.scan.formats.opening import infer_format, open_format

    with connected(options) as cluster:
        there = sampling.ends(ranges(cluster, subscribed(cluster, options)))
        how = Fetching(fetch_bytes=sampling.FETCH_BYTES, read_committed=options.read_committed, fail_on_data_loss=False)
        samples = sampling.gather(read_samples(cluster, there, sampling.COLUMNS, how))
    form = open_format(options.value_format, None, options.format_options)
    if form is None:
        form = infer_format(options.value_format, samples.values.to_pylist(), options.format_options)
    table = sampling.guess(samples, form)
    shown = tuple(name for name in table.schema.names if name not in ("_value", "_timestampType", "_headers"))
    names = options.columns or shown
    return from_arrow_schema(pa.schema([table.schema.field(name) for name in names]))


def _fitting(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted and array.type != HEADERS:
        return array
    return array.cast(wanted)
