"""A read that ends: everything between two offsets of each partition, as they are when Spark plans it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ottla.scan.cluster import NO_OFFSET
from ottla.scan.columns import EVERYTHING
from ottla.scan.columns import Filter as Passing
from ottla.scan.errors import OptionError
from ottla.scan.fetching import Fetching, Range
from ottla.scan.kernel import TIMESTAMP_MIN
from pyspark_ottla.conditions import parse_where
from pyspark_ottla.filters import push
from pyspark_ottla.nearby import connected, read_nearest
from pyspark_ottla.offsets import ending, starting, subscribed
from pyspark_ottla.options import ReadOptions
from pyspark_ottla.rows import Rows
from pyspark_ottla.sizes import record_bytes
from pyspark_ottla.splitting import split

PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class Part(InputPartition):
    """The offsets that one task reads."""

    def __init__(self, wanted: Range) -> None:
        super().__init__((str(wanted.place), wanted.start, wanted.end))
        self.range = wanted


class OttlaBatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._passing = parse_where(options.where)
        Rows(options, schema)  # what cannot be read is told before anything is

    def partitions(self) -> list[InputPartition]:
        options, passing = self._options, self._passing
        with connected(options) as cluster:
            places = subscribed(cluster, options)
            starts, ends = starting(cluster, places, options), ending(cluster, places, options)
            chosen = [place for place in places if passing.wants(*place) and not passing.is_empty]
            if passing.timestamp_from > TIMESTAMP_MIN and chosen:
                found = cluster.offsets(dict.fromkeys(chosen, max(passing.timestamp_from, 0)))
                later = {place: ends[place] if offset == NO_OFFSET else offset for place, offset in found.items()}
                starts = {place: max(starts[place], later.get(place, 0)) for place in places}
            for place in places:
                if starts[place] > ends[place] and passing == EVERYTHING:
                    raise OptionError(f"{place} would start at offset {starts[place]}, behind its end {ends[place]}")
            wanted = [
                Range(place, max(starts[place], passing.first_offset), min(ends[place], passing.end_offset))
                for place in chosen
            ]
            sizes = record_bytes(cluster, wanted, options) if options.max_bytes_per_partition else None
        parts = split(
            wanted,
            min_parts=options.min_partitions,
            max_records=options.max_records_per_partition,
            max_bytes=options.max_bytes_per_partition,
            record_bytes=sizes,
        )
        return [Part(one) for one in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Part):  # else there was nothing to read, and Spark made up a partition
            yield from read_part(self._options, self._schema, partition.range, self._passing)


def read_part(options: ReadOptions, schema: StructType, wanted: Range, passing: Passing) -> Iterator[pa.RecordBatch]:
    """In a worker: the rows of one part."""
    rows = Rows(options, schema)
    how = Fetching(options.read_committed, options.fetch_bytes, options.fail_on_data_loss)
    return rows.batches(read_nearest(options, wanted, rows.raw, passing, how))


class OttlaPushingReader(OttlaBatchReader):
    """With the conditions of queries pushed down: asked for with ``pushFilters=true``, or where nothing can go wrong (``may_push``).

    Spark 4.2 and 4.3 keep what they have planned with a frame, pushed conditions included, and use it again for the next query of
    the same frame that has none to push: rows are then missing, and nothing says so. So whoever asks for this there has to make a
    frame for every query. Spark itself refuses it unless spark.sql.python.filterPushdown.enabled is set.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's
        pushed, left = push(filters, prefix="" if self._options.value_format is None else "_")
        self._passing = parse_where(self._options.where).both(pushed)
        return left


def may_push(options: ReadOptions) -> bool:
    """Whether conditions are pushed down.

    Unasked, only by a Spark that keeps each query's conditions to itself: limits are pushed down by it, too, and it was for them
    that this was put right. And only in the process that Spark starts to push them: to have such a reader anywhere else, with
    push-down switched off, is an error to Spark.
    """
    if options.push_filters is not None:
        return options.push_filters
    return hasattr(DataSourceReader, "pushLimit") and PUSHING_WORKER in sys.modules
