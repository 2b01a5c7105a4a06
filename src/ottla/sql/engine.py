"""Queries by DuckDB, with topics as tables.

A topic becomes a view when a query speaks of it. Its columns are inferred from samples, unless a format was given for it.
Everything else DuckDB can read (Parquet, CSV and JSON files by their names) is a table, too, and so are the tables of a pipeline
(``files``), of which only those files are read that its manifest names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import duckdb
import pyarrow as pa

from ottla.base.errors import Error
from ottla.scan import sampling
from ottla.scan.decoding import Decoded
from ottla.scan.fetching import Range
from ottla.scan.formats.opening import infer_format, open_format
from ottla.scan.typed import Table
from ottla.sql.topics import CHEAP, Readable, TopicDataset

BATCH_ROWS = 10_000
_LISTING = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
_TOPICS_NAMED = 10
_MISSING = re.compile(r"Catalog Error: Table with name (.*?) does not exist")


class QueryError(Error):
    """A query that cannot be answered; the message is what the engine said."""


class UnknownTableError(QueryError):
    """A query of what is no topic and no other table; the message says what topics there are."""


class Source(Readable, Protocol):
    def topics(self) -> list[str]: ...

    def samples(self, wanted: Sequence[Range], names: frozenset[str], fetch_bytes: int) -> Iterable[Decoded]: ...

    def close(self) -> None: ...


class Values(NamedTuple):
    """The format of a topic's values, and its options (``ottla.scan.formats.opening``)."""

    form: str
    options: Mapping[str, str]


class Engine:
    """One DuckDB in memory, and the topics that were asked for."""

    def __init__(
        self,
        source: Source,
        formats: Mapping[str, Values] | None = None,
        files: Mapping[str, Sequence[Path]] | None = None,
    ) -> None:
        self._source = source
        self._formats = dict(formats or {})
        self._connection = duckdb.connect()
        self._connection.execute("set TimeZone = 'UTC'")
        self.datasets: dict[str, TopicDataset] = {}
        self._names: dict[str, str] = {}
        self._kept: set[str] = set()
        self._files = frozenset(files or ())
        for table, paths in (files or {}).items():
            self._connection.read_parquet([str(path) for path in paths], hive_partitioning=True).create_view(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()
        self._source.close()

    def query(self, text: str) -> pa.RecordBatchReader:
        """The rows of the last statement in ``text``; they are read as they are asked for."""
        if not self._files or not self._is_of_files(text):
            if _LISTING.fullmatch(text):
                return pa.table({"name": pa.array(sorted(self._source.topics()), pa.string())}).to_reader()
            self.prepare(text)
        with self._refusing():
            statements = self._connection.extract_statements(text)
            if not statements:
                raise QueryError("there is no statement in the query")
            *before, last = statements
            if any(statement.type is duckdb.StatementType.SELECT for statement in before):
                raise QueryError("only the last statement may be a query; ask each by itself")
            for statement in before:
                self._connection.execute(statement).fetchall()
            return self._connection.sql(last.query).to_arrow_reader(BATCH_ROWS)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """What the engine says, in its own words but where it knows less than we."""
        try:
            yield
        except duckdb.CatalogException as error:
            missing = _MISSING.match(str(error))
            if missing is None:
                raise QueryError(str(error)) from error
            topics = [f'"{topic}"' for topic in sorted(self._source.topics()) if not topic.startswith("__")]
            there = ", ".join(topics[:_TOPICS_NAMED]) + (", ..." if len(topics) > _TOPICS_NAMED else "")
            raise UnknownTableError(f"there is no topic {missing[1]}; there are {there or 'none'}") from error
        except duckdb.Error as error:
            raise self._refused(error) from error

    def prepare(self, text: str) -> list[str]:
        """Make the topics that ``text`` speaks of into views; which they are."""
        topics = self._source.topics()
        if unknown := self._formats.keys() - set(topics):
            raise UnknownTableError(f"there is no topic {', '.join(sorted(unknown))}, whose format is given")
        found = [topic for topic in mentioned(topics, text) if topic not in self._files]
        check_said(self._formats, found)
        for topic in found:
            if topic not in self.datasets:
                self._add(topic)
        return found

    def _is_of_files(self, text: str) -> bool:
        """Whether a query can be answered without a cluster, which need not be there then."""
        try:
            [statement] = self._connection.extract_statements(text)
            self._connection.sql(statement.query)
        except (ValueError, duckdb.Error):
            return False
        return True

    def plan(self, text: str) -> list[dict[str, Any]]:
        """How DuckDB would answer, as a tree of operators."""
        with self._refusing():
            self._connection.sql(text)  # so that what is wrong with it is told of the text as it was given
            rows = self._connection.sql(f"explain (format json) {text}").to_arrow_reader(1).read_all().to_pylist()
        plan: list[dict[str, Any]] = json.loads(rows[0]["explain_value"])
        return plan

    def ranges(self, topic: str) -> list[Range]:
        return self._source.ranges(topic)

    def keep(self, topic: str, wanted: Callable[[str], bool]) -> None:
        """Put what is in a topic's window behind what was kept of it; from now on, the topic is what is kept."""
        name, view = self._names[topic], _quoted(topic)
        kept = _quoted(f"{name} kept")
        columns = ", ".join(_quoted(one) for one in self.datasets[topic].table.schema.names if wanted(one)) or CHEAP
        if topic not in self._kept:
            self._connection.execute(f"create table {kept} as select {columns} from {_quoted(name)}")  # noqa: S608
            self._connection.execute(f"create or replace view {view} as select * from {kept}")  # noqa: S608
            self._kept.add(topic)
        else:
            self._connection.execute(f"insert into {kept} select {columns} from {_quoted(name)}")  # noqa: S608

    def _add(self, topic: str) -> None:
        table = inferred(self._source, topic, self._formats.get(topic))
        dataset = TopicDataset(self._source, topic, table)
        name = f"topic {len(self.datasets)}"
        columns = ", ".join(_quoted(column) for column in table.schema.names)
        try:
            self._connection.register(name, dataset)
            self._connection.execute(f"create view {_quoted(topic)} as select {columns} from {_quoted(name)}")  # noqa: S608
        except duckdb.Error as error:
            raise QueryError(f"topic {topic} cannot be made a table: {error}") from error
        self.datasets[topic] = dataset
        self._names[topic] = name

    def _refused(self, error: duckdb.Error) -> QueryError:
        """What DuckDB said; where it misses a column, also which topic has no records that could tell its columns."""
        unknown = [topic for topic in self.datasets if topic not in self._formats and not self.ranges(topic)]
        if not unknown or not isinstance(error, duckdb.BinderException):
            return QueryError(str(error))
        told = f"--values '{unknown[0]}=json,valueColumns=page string;ms int'"
        return QueryError(f"{error}\n{unknown[0]} has no records that tell its columns: say them, as in {told}")


def mentioned(topics: Iterable[str], text: str) -> list[str]:
    """The topics that a query may speak of: a name too many does no harm, and names are hard to tell from other words."""
    return [topic for topic in topics if re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w.-])", text)]


def check_said(formats: Iterable[str], topics: Sequence[str]) -> None:
    """Values that are said to be something are those of topics in the query."""
    for topic in formats:
        if topic not in topics:
            raise QueryError(f"values of {topic} are said to be something, and the query speaks of no such topic")


def inferred(source: Source, topic: str, values: Values | None = None) -> Table:
    """The columns of a topic, of what its samples look like or as ``values`` says."""
    there = sampling.ends(source.ranges(topic))
    samples = sampling.gather(source.samples(there, sampling.COLUMNS, sampling.FETCH_BYTES))
    form = None
    if values is not None:
        form = open_format(values.form, None, values.options)
        form = form or infer_format(values.form, samples.values.to_pylist(), values.options)
    return sampling.guess(samples, form, in_sql=True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
