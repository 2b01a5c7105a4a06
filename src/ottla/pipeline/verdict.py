"""Whether a pipeline found what is true of made traffic: every total and every row of every table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from ottla.pipeline.traffic import Truth
from ottla.scan import manifest

_DIGITS = 6
Row = Mapping[str, Any]
Rows = Callable[[str], list[Row]]


class Finding(NamedTuple):
    what: str
    found: int
    true: int
    is_right: bool
    """Also row by row, where there are rows."""


def read_rows(directory: Path, table: str) -> list[Row]:
    """All rows of a table that count."""
    rows: list[Row] = []
    for path in manifest.tables(directory).get(table, []):
        rows += pq.ParquetFile(path).read().to_pylist()
    return rows


def compare(directory: Path, truth: Truth) -> list[Finding]:
    state = manifest.load(directory) or {"totals": {}}
    totals: Mapping[str, int] = state["totals"]

    def rows(table: str) -> list[Row]:
        return read_rows(directory, table)

    dead = {name.removeprefix("dead."): number for name, number in totals.items() if name.startswith("dead.")}
    letters = Counter(row["reason"] for row in rows("dead_letters"))
    kinds = Counter(row["kind"] for row in rows("events"))
    return [
        _number("records read", totals.get("records", 0), truth.records),
        _number("of robots", totals.get("robots", 0), truth.robots),
        _number("copies", totals.get("copies", 0), truth.copies),
        Finding("dead letters", sum(dead.values()), sum(truth.dead.values()), dead == letters == truth.dead),
        Finding("events", kinds.total(), truth.events, kinds == truth.kinds),
        *_tables(rows, truth),
    ]


def _tables(rows: Rows, truth: Truth) -> list[Finding]:
    pages = {(_ms(row["minute"]), row["page"]): (row["views"], row["visitors"]) for row in rows("pages")}
    sessions = sorted((_ms(row["begin"]), _ms(row["end"]), row["views"]) for row in rows("sessions"))
    funnel = {(_ms(row["since"]), row["name"]): row["sessions"] for row in rows("funnel")}
    ads = {(_ms(row["minute"]), row["ad"]): (row["impressions"], row["clicks"]) for row in rows("ads")}
    searches = {(_ms(row["since"]), row["keyword"]): row["searches"] for row in rows("searches")}
    services = {(_ms(row["minute"]), row["service"]): _service(row) for row in rows("services")}
    true_services = {
        key: (logs, errors, _rounded(latencies)) for key, (logs, errors, latencies) in truth.services.items()
    }
    return [
        _table("page views", pages, truth.pages, lambda one: one[0]),
        _table("visitors by page and minute", pages, truth.pages, lambda one: one[1]),
        Finding("sessions", len(sessions), len(truth.sessions), sessions == truth.sessions),
        _table("sessions by step of the funnel", funnel, truth.funnel, lambda one: one),
        _table("ads shown", ads, truth.ads, lambda one: one[0]),
        _table("ads clicked", ads, truth.ads, lambda one: one[1]),
        _table("searches by hour and keyword", searches, truth.searches, lambda one: one),
        _table("errors in logs", services, true_services, lambda one: one[1]),
    ]


def _number(what: str, found: int, true: int) -> Finding:
    return Finding(what, found, true, found == true)


def _table(what: str, found: Mapping[Any, Any], true: Mapping[Any, Any], number: Callable[[Any], int]) -> Finding:
    return Finding(what, sum(map(number, found.values())), sum(map(number, true.values())), found == true)


def _service(row: Row) -> tuple[int, int, tuple[float, ...]]:
    latencies = () if row["p50_ms"] is None else (row["p50_ms"], row["p95_ms"], row["p99_ms"])
    return row["logs"], row["errors"], _rounded(latencies)


def _rounded(values: tuple[float, ...]) -> tuple[float, ...]:
    # Two ways to reckon the same percentile differ in the last bits.
    return tuple(round(value, _DIGITS) for value in values)


def _ms(at: datetime) -> int:
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return round(at.timestamp() * 1000)
