"""A query that goes on: asked again whenever its topics have grown.

A query that looks at each record by itself (filters and projections of one topic) is asked about the new records alone, and
nothing is kept. Any other (aggregates, joins, order) is asked about everything again: what was read stays in a table of DuckDB,
with the columns that the query speaks of, so no record is fetched or parsed twice.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from ottla.scan.cluster import TopicPartition
from ottla.scan.fetching import Range
from ottla.sql.engine import Engine, QueryError

_STATELESS = frozenset(("PROJECTION", "FILTER", "UNNEST", "PYTHON_ARROW_SCAN"))


class Answer(NamedTuple):
    rows: pa.RecordBatchReader
    is_whole: bool
    """Whether these rows take the place of those before, or follow them."""


def follow(
    engine: Engine, text: str, *, interval_s: float, sleep: Callable[[float], object] = time.sleep
) -> Iterator[Answer]:
    """Answers as long as somebody asks for the next."""
    topics = engine.prepare(text)
    if not topics:
        raise QueryError("there is no topic in the query that could be followed")
    stateless = is_stateless(engine.plan(text))
    behind: dict[TopicPartition, int] = {}
    first = True
    while True:
        windows = {topic: _window(engine, topic, behind) for topic in topics}
        if first or any(windows.values()):
            for topic, window in windows.items():
                engine.datasets[topic].window = window
                if not stateless:
                    engine.keep(topic, lambda column: speaks_of(text, column))
            yield Answer(engine.query(text), is_whole=not stateless)
            first = False
        sleep(interval_s)


def _window(engine: Engine, topic: str, behind: dict[TopicPartition, int]) -> list[Range]:
    """What of a topic was not asked about yet; from now on it was."""
    found = []
    for one in engine.ranges(topic):
        fresh = Range(one.place, max(one.start, behind.get(one.place, 0)), one.end)
        behind[one.place] = one.end
        if len(fresh):
            found.append(fresh)
    return found


def is_stateless(plan: list[dict[str, Any]]) -> bool:
    """Whether every row of the answer comes of one record alone."""
    return all(
        node["name"].strip().upper() in _STATELESS and len(node["children"]) <= 1 and is_stateless(node["children"])
        for node in plan
    )


def speaks_of(text: str, column: str) -> bool:
    """Whether a query may need a column: it names it, or asks for all there are."""
    without_counts = re.sub(r"\(\s*\*\s*\)", "", text)
    everything = "*" in without_counts or not re.search(r"\bselect\b", text, re.IGNORECASE)
    return everything or column.lower() in text.lower()
