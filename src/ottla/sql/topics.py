"""A topic as a dataset of Arrow, which is what DuckDB asks for columns and hands its filters to.

DuckDB calls ``scanner`` with the columns and the filter that are left once it has planned a query. What the filter says about
partitions, offsets and times decides what is read at all; the filter itself is then applied to what was read, for DuckDB does
not look again. Where a query needs no column, DuckDB takes the first: it is one that costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from ottla.scan.columns import EVERYTHING, Filter
from ottla.scan.decoding import Decoded
from ottla.scan.fetching import Range
from ottla.scan.typed import Table
from ottla.sql.pushdown import implied, references

CHEAP = "_partition"


class Readable(Protocol):
    """Where records come from: a cluster or files."""

    def ranges(self, topic: str, passing: Filter = EVERYTHING) -> list[Range]:
        """What of a topic is there and may pass."""

    def read(self, wanted: Sequence[Range], names: frozenset[str], passing: Filter = EVERYTHING) -> Iterator[Decoded]:
        """The raw columns of ranges."""


class TopicDataset(pa.dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """One topic, up to where it ends when it is first asked for; further, each time, if it is to be followed."""

    def __init__(self, source: Readable, topic: str, table: Table) -> None:
        # The base class can only be made by Arrow itself; nothing of it is used but its name.
        self._source = source
        self._topic = topic
        self.table = table
        cheap = table.schema.field(CHEAP)
        self._columns = pa.schema([cheap, *(field for field in table.schema if field.name != CHEAP)])
        self.window: list[Range] | None = None
        """What is there, if not all of the topic counts."""

    @property
    def schema(self) -> pa.Schema:
        return self._columns

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  # DuckDB's name for it
        **_: Any,
    ) -> pa.dataset.Scanner:
        names = list(self._columns.names if columns is None else columns)
        needed = names if filter is None else list(dict.fromkeys([*names, *references(filter, self._columns)]))
        wanted = pa.schema([self._columns.field(name) for name in needed])
        batches = self.table.batches(self._decoded(needed, filter), wanted)
        return pa.dataset.Scanner.from_batches(batches, schema=wanted, columns=names, filter=filter)

    def _decoded(self, needed: Sequence[str], expression: pc.Expression | None) -> Iterator[Decoded]:
        there = self._source.ranges(self._topic) if self.window is None else self.window
        passing = EVERYTHING
        if expression is not None:
            places = [one.place.partition for one in there]
            passing = implied(expression, self._columns, places, [one.end for one in there])
            if passing.is_empty:
                return iter(())
            if self.window is None:
                there = self._source.ranges(self._topic, passing)
        return self._source.read(there, self.table.raw(needed), passing)
