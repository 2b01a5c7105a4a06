"""Queries by Spark, for what is too large for one machine: topics as views of Ottla's data source, and the tables of pipelines.

The columns are the same as with DuckDB; the dialect is Spark's. A session that runs already is used. Spark asks a source for all the
columns it has, so a view has only those that the query speaks of.

Conditions are pushed down for one select that speaks of each topic once, and for no other query: Spark 4.2 plans a frame once, so
wherever a topic occurs twice, the conditions of one place would hold in the other as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.sql.engine import QueryError, Source, Values, check_said, inferred, mentioned
from ottla.sql.following import speaks_of
from ottla.sql.opening import open_source
from ottla.sql.topics import CHEAP

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def query_on_spark(
    text: str,
    settings: Mapping[str, str],
    *,
    master: str,
    read_committed: bool = False,
    formats: Mapping[str, Values] | None = None,
    log_dirs: Sequence[Path] = (),
    files: Mapping[str, Sequence[Path]] | None = None,
) -> pa.RecordBatchReader:
    """``settings`` are those of a Kafka client; with ``log_dirs`` the files of brokers are read instead. ``files`` are tables by name."""
    from pyspark.errors import PySparkException

    spark = _session(master)
    tables = mentioned(files or {}, text)
    for table in tables:
        _add_files(spark, table, (files or {})[table])
    pushes = False
    if not tables or not _is_complete(spark, text):
        source = open_source(settings, log_dirs, read_committed=read_committed)
        try:
            topics = [topic for topic in mentioned(source.topics(), text) if topic not in tables]
            check_said(formats or {}, topics)
            pushes = is_plain(text, topics)
            options = _options(settings, log_dirs, read_committed=read_committed, pushes=pushes)
            for topic in topics:
                _add(spark, source, topic, text, options, (formats or {}).get(topic))
        finally:
            source.close()
    before = spark.conf.get(PUSH_DOWN)
    spark.conf.set(PUSH_DOWN, _flag(pushes))
    try:
        return spark.sql(text).toArrow().to_reader()
    except PySparkException as error:
        raise QueryError(str(error)) from error
    finally:
        spark.conf.set(PUSH_DOWN, before or "false")


def is_plain(text: str, topics: Sequence[str]) -> bool:
    """Whether no part of a query can be read twice: one select, and each topic in it once."""
    words = re.findall(r"\w+", text.lower())
    once = all(len(re.findall(re.escape(topic), text, re.IGNORECASE)) == 1 for topic in topics)
    return words.count("select") == 1 and words.count("from") == 1 and "with" not in words and once


def _options(
    settings: Mapping[str, str], log_dirs: Sequence[Path], *, read_committed: bool, pushes: bool
) -> dict[str, str]:
    """Of the data source, for all topics."""
    made = {f"kafka.{name}": value for name, value in settings.items()}
    if log_dirs:
        made = {"readMode": "files", "logDirs": ",".join(map(str, log_dirs))}
    if read_committed:
        made["kafka.isolation.level"] = "read_committed"
    return {**made, "pushFilters": _flag(pushes)}


def _flag(value: bool) -> str:
    return str(value).lower()


def _session(master: str) -> SparkSession:
    from pyspark.sql import SparkSession

    from pyspark_ottla.python import worker_python

    os.environ.setdefault("PYSPARK_PYTHON", worker_python())
    builder = SparkSession.builder.master(master).appName("ottla sql").config("spark.ui.enabled", "false")
    # By TCP every task waits 40 ms for an acknowledgment that the kernel holds back.
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    spark = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark


def _add(
    spark: SparkSession, source: Source, topic: str, text: str, options: Mapping[str, str], values: Values | None
) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    table = inferred(source, topic, values)
    names = [name for name in table.schema.names if speaks_of(text, name)] or [CHEAP]
    reader = spark.read.format("ottla").options(**options, subscribe=topic, valueFormat=table.form.name)
    reader = reader.options(**(values.options if values else {}))
    columns = from_arrow_schema(pa.schema([table.schema.field(name) for name in names]))
    reader.schema(columns).load().createOrReplaceTempView(topic if topic.isidentifier() else f"`{topic}`")


def _add_files(spark: SparkSession, table: str, paths: Sequence[Path]) -> None:
    """Parquet of many batches, each in folders of its own: Spark takes date and hour from paths only where all have one parent."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    def told(name: str) -> Column:
        return F.regexp_extract("_metadata.file_path", f"/{name}=([^/]*)/", 1)

    frame = spark.read.parquet(*map(str, paths))
    dated = frame.withColumns({"date": told("date").cast("date"), "hour": told("hour")})
    dated.createOrReplaceTempView(table)


def _is_complete(spark: SparkSession, text: str) -> bool:
    """Whether a query can be answered without a cluster, which need not be there then."""
    from pyspark.errors import PySparkException

    try:
        spark.sql(text)
    except PySparkException:
        return False
    return True
