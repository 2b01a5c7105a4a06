"""What a pipeline has found, as one page of HTML with plots, which needs nothing but a browser."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import NamedTuple

from ottla.pipeline import svg
from ottla.pipeline.verdict import Finding, Row, read_rows

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem }
table { border-collapse: collapse } td, th { padding: .15rem .9rem .15rem 0; text-align: right } td:first-child, th:first-child { text-align: left }
svg { max-width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: #555 }
svg text.right { text-anchor: end } svg text.middle { text-anchor: middle } svg .grid { stroke: #e4e4e4 }
.right-answer { color: #3b7a2a } .wrong-answer { color: #b3261e; font-weight: bold }
"""


class Plot(NamedTuple):
    title: str
    picture: str


def write_report(
    directory: Path, path: Path, *, name: str, findings: Sequence[Finding] = (), remarks: Sequence[str] = ()
) -> None:
    """Of the tables in ``directory``; ``findings`` are what they were compared with."""
    sections = [f"<h2>{escape(plot.title)}</h2>{plot.picture}" for plot in _plots(directory)]
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(name)}</title><style>{_STYLE}</style>'
        f"<h1>{escape(name)}</h1>{''.join(f'<p>{escape(one)}</p>' for one in remarks)}"
        f"{_verdict(findings)}{''.join(sections)}</html>\n"
    )
    path.write_text(page, encoding="utf-8")


def _plots(directory: Path) -> list[Plot]:
    def rows(table: str) -> list[Row]:
        return read_rows(directory, table)

    pages, ads, services = rows("pages"), rows("ads"), rows("services")
    by_page = _sums((row["page"], row["views"]) for row in pages)
    steps = sorted({(row["step"], row["name"]) for row in rows("funnel")})
    reached = _sums((row["name"], row["sessions"]) for row in rows("funnel"))
    shown = _sums((row["ad"], row["impressions"]) for row in ads)
    clicked = _sums((row["ad"], row["clicks"]) for row in ads)
    asked = _sums((row["keyword"], row["searches"]) for row in rows("searches"))
    return [
        Plot("Page views a minute", svg.lines({"views": _over_time((row["minute"], row["views"]) for row in pages)})),
        Plot("Pages", svg.bars(dict(by_page.most_common(12)))),
        Plot("Sessions that came so far", svg.bars({name: reached[name] for _, name in steps})),
        Plot("Click-through rate of ads", svg.bars({ad: 100 * clicked[ad] / shown[ad] for ad in sorted(shown)}, " %")),
        Plot("Searches", svg.bars(dict(asked.most_common(10)))),
        Plot("Latency, 95th percentile", svg.lines(_latencies(services), " ms")),
        Plot("Errors in logs a minute", svg.lines(_errors(services))),
    ]


def _latencies(services: Sequence[Row]) -> dict[str, svg.Points]:
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in services:
        if row["p95_ms"] is not None:
            found[row["service"]].append((_ms(row["minute"]), row["p95_ms"]))
    return {name: sorted(points) for name, points in sorted(found.items())}


def _errors(services: Sequence[Row]) -> dict[str, svg.Points]:
    names = sorted({row["service"] for row in services})
    return {
        name: _over_time((row["minute"], row["errors"]) for row in services if row["service"] == name) for name in names
    }


def _over_time(values: Iterable[tuple[datetime, int]]) -> svg.Points:
    found: Counter[int] = Counter()
    for at, value in values:
        found[_ms(at)] += value
    return sorted(found.items())


def _sums(values: Iterable[tuple[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, value in values:
        found[name] += value
    return found


def _verdict(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    lines = []
    for one in findings:
        word, kind = ("right", "right-answer") if one.is_right else ("wrong", "wrong-answer")
        lines.append(
            f'<tr><td>{escape(one.what)}<td>{one.found:,}<td>{one.true:,}<td class="{kind}">{word}'  # no end tags needed
        )
    return f"<h2>Found and true</h2><table><tr><th><th>found<th>true<th>{''.join(lines)}</table>"


def _ms(at: datetime) -> int:
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return round(at.timestamp() * 1000)
