"""The log database: SQL over topics.

    query ─► engine (DuckDB) ─ columns, filter ─► topics ─► pushdown: which partitions, offsets, times
                                                    └─► scan ─► record batches ─► the filter once more ─► DuckDB

Topics are tables, with typed columns and ``_key``, ``_partition``, ``_offset``, ``_timestamp``, ``_headers`` (``ottla.scan.typed``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.sql.result import Result

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def query(
    text: str,
    *,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    settings: Mapping[str, str] | None = None,
    read_committed: bool = False,
    values: Mapping[str, str] | None = None,
    log_dirs: Sequence[str | Path] = (),
    tables: Sequence[str | Path] = (),
) -> Result:
    """The rows of a query over the topics of a cluster. ``settings`` are those of any Kafka client.

    The rest is as for the command: ``values`` are formats by topic (``{"clicks": "json,valueColumns=page string;ms int"}``), ``log_dirs``
    the files of brokers, which need not run, instead of a cluster, and ``tables`` the directories of pipelines.
    """
    from ottla.sql.opening import open_engine, parse_values
    from ottla.sql.result import Result

    formats = {topic: parse_values(said) for topic, said in (values or {}).items()}
    kafka = {"bootstrap.servers": bootstrap, **(settings or {})}
    with open_engine(kafka, formats, log_dirs, tables, read_committed=read_committed) as engine:
        return Result(engine.query(text).read_all())


__all__ = ["query"]
