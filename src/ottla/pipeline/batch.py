"""One batch of records, from the log into the tables; the same for a stream and for history.

    judge ─► count ─► dead letters ─┐
                 └─► fresh events ──┴─► tables of the hours they change ─► topics ─► commit ─► compact

Events are added to what there is. A table's hours that they change are computed again from all events of these hours, and take the
place of what was said of them. So the result depends on which events there are, and not on the batches they came in.

Topics are told what has changed before the batch counts: whoever reads them may be told twice, with the same key and the same
value. A row that is no more gets a null.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType

from ottla.pipeline import clean
from ottla.pipeline.clean import Rules
from ottla.pipeline.definition import Definition
from ottla.pipeline.store import HOUR, File, State, Store, hours_around
from ottla.pipeline.tables import DEAD_LETTERS, EVENTS, Table
from ottla.pipeline.telling import tell

RECORDS, ROBOTS, COPIES = "records", "robots", "copies"
DEAD = "dead."
"""Before the reason, the name of a total."""
_AT_ONCE = 3
"""Tables computed at the same time: most of a small job is waiting."""


@dataclass(frozen=True, slots=True)
class Counted:
    totals: dict[str, int]
    hours: set[str]
    """Those in which something happened that may count."""
    accepted: int
    ends: dict[str, dict[str, int]]
    """By topic and partition, the offset behind the last record."""


class Made(NamedTuple):
    table: str
    files: list[File]
    instead: list[File]


class Batches:
    """What is done with each batch."""

    def __init__(
        self, definition: Definition, spark: SparkSession, store: Store, rules: Rules, kafka: dict[str, str]
    ) -> None:
        self._definition = definition
        self._spark = spark
        self._store = store
        self._rules = rules
        self._kafka = kafka
        self._schemas: dict[str, StructType] = {}
        """Of tables that were written, so that Spark need not open files to find out."""
        for table in (EVENTS, DEAD_LETTERS, *(table.name for table in definition.tables)):
            store.claim(table)

    def add(self, frame: DataFrame, state: State, name: str) -> Counted:
        """Put a batch into the tables of ``state``, which is not committed yet."""
        judged = clean.judge(clean.normalize(clean.parse(frame)), self._rules).persist()
        try:
            counted = _count(judged)
            fresh: list[File] = []
            if counted.accepted:
                fresh = self._write(self._fresh(judged, state, counted.hours), EVENTS, "at", name)
                state.add(EVENTS, fresh)
            if any(total.startswith(DEAD) for total in counted.totals):
                state.add(DEAD_LETTERS, self._write(clean.dead_letters(judged), DEAD_LETTERS, "at", name))
                if self._definition.dead_letter_topic is not None:
                    tell(clean.letters(judged), self._kafka, self._definition.dead_letter_topic)
        finally:
            judged.unpersist()
        state.count(counted.totals)
        state.count({EVENTS: sum(one.rows for one in fresh)})
        state.count({COPIES: counted.accepted - sum(one.rows for one in fresh)})
        hours = {one.hour for one in fresh}
        if hours:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for made in pool.map(lambda table: self._table(table, state, hours, name), self._tables):
                    state.add(made.table, made.files, instead=made.instead)
        return counted

    def compact(self, state: State, hours: Iterable[str] | None = None) -> bool:
        """Make many small files of an hour into one; whether there were any."""
        done = False
        for table in (EVENTS, DEAD_LETTERS):
            by_hour: dict[str, list[File]] = {}
            for one in state.files(table, hours):
                by_hour.setdefault(one.hour, []).append(one)
            many = [one for files in by_hour.values() if len(files) >= self._limit for one in files]
            if many:
                state.add(table, self._write(self._read(table, many), table, "at", "compact"), instead=many)
                done = True
        return done

    @property
    def _tables(self) -> Sequence[Table]:
        return self._definition.tables

    @property
    def _limit(self) -> int:
        return self._definition.serving.compact_files

    def _fresh(self, judged: DataFrame, state: State, hours: set[str]) -> DataFrame:
        """Events that are not there yet. Copies are looked for where an event that is not too late can be."""
        events = clean.deduplicate(clean.accepted(judged), self._rules)
        reach = -(-int(self._rules.late.total_seconds()) // 3600)
        there = state.files(EVENTS, hours_around(hours, back=reach, ahead=reach))
        if there:
            known = self._read(EVENTS, there).select("id")
            events = events.join(known, "id", "left_anti").select(*events.columns)
        return clean.mask(events, self._rules)

    def _table(self, table: Table, state: State, hours: set[str], name: str) -> Made:
        changed = table.changed_by(hours)
        events = self._read(EVENTS, state.files(EVENTS, table.made_from(changed)))
        rows = table.make(events)
        # What lies outside was made of a part of its events only.
        rows = rows.where(F.date_format(table.time, "yyyy-MM-dd'T'HH").isin(*sorted(changed)))
        made = self._write(rows, table.name, table.time, name)
        before = state.files(table.name, changed)
        if table.topic is not None:
            self._tell(table, made, before)
        return Made(table.name, made, before)

    def _tell(self, table: Table, made: list[File], before: list[File]) -> None:
        """What has changed, to the table's topic, and a null for what is no more."""
        assert table.topic is not None
        told = []
        if made:
            now = self._read(table.name, made)
            news = now.exceptAll(self._read(table.name, before)) if before else now
            told.append(news.select(_json(table.key).alias("key"), _json(news.columns).alias("value")))
        if before:
            keys = self._read(table.name, before).select(*table.key)
            gone = keys.exceptAll(self._read(table.name, made).select(*table.key)) if made else keys
            told.append(gone.select(_json(table.key).alias("key"), F.lit(None).cast("string").alias("value")))
        for frame in told:
            tell(frame, self._kafka, table.topic)

    def _write(self, rows: DataFrame, table: str, time: str, name: str) -> list[File]:
        folder = self._store.fresh(table, name)
        self._schemas[table] = rows.schema
        dated = rows.withColumns({"date": F.to_date(time), "hour": F.date_format(time, "HH")})
        writer = dated.repartition("date", "hour").write.partitionBy("date", "hour")
        writer.option("compression", "zstd").parquet(os.fspath(folder))
        return self._store.written(folder)

    def _read(self, table: str, files: Sequence[File]) -> DataFrame:
        reader = self._spark.read if table not in self._schemas else self._spark.read.schema(self._schemas[table])
        return reader.parquet(*self._store.paths(files))


def _count(judged: DataFrame) -> Counted:
    """Everything that has to be known of a batch, in one pass."""
    what = ("reason", "robot", F.date_trunc("hour", "at").alias("hour"), "_topic", "_partition")
    rows = judged.groupBy(*what).agg(F.count("*").alias("records"), F.max("_offset").alias("last")).collect()
    totals: dict[str, int] = {}
    hours: set[str] = set()
    ends: dict[str, dict[str, int]] = {}
    accepted = 0

    def add(name: str, number: int) -> None:
        totals[name] = totals.get(name, 0) + number

    for row in rows:
        records: int = row["records"]
        add(RECORDS, records)
        if row["reason"] is not None:
            add(DEAD + row["reason"], records)
        elif row["robot"]:
            add(ROBOTS, records)
        else:
            accepted += records
            hour: datetime = row["hour"]
            hours.add(hour.strftime(HOUR))
        of_topic = ends.setdefault(row["_topic"], {})
        of_topic[str(row["_partition"])] = max(of_topic.get(str(row["_partition"]), 0), row["last"] + 1)
    return Counted(totals, hours, accepted, ends)


def _json(columns: Sequence[str]) -> Column:
    return F.to_json(F.struct(*columns), {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"})
