"""What is true of the traffic, found by plain Python: the measure that a pipeline's results are held against.

Sessions end after half an hour of nothing, and at midnight. An ad's click counts once for each time it was shown, within an
hour. Percentiles lie between the two nearest values, in proportion.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.pipeline.traffic.site import MINUTE_MS, Event

HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
GAP_MS = 30 * MINUTE_MS
ERRORS = ("ERROR", "FATAL")
_OF_VISITS = ("view", "click", "search")
_FUNNEL = ("visit", "product", "cart", "order")


@dataclass(frozen=True, slots=True)
class Truth:
    records: int
    robots: int
    copies: int
    dead: Mapping[str, int]
    kinds: Mapping[str, int]
    pages: Mapping[tuple[int, str], tuple[int, int]]
    """(minute, page): views, visitors."""
    sessions: Sequence[tuple[int, int, int]]
    """Begin, end, page views; sorted."""
    funnel: Mapping[tuple[int, str], int]
    """(hour in which sessions began, step): sessions that came this far."""
    ads: Mapping[tuple[int, str], tuple[int, int]]
    """(minute shown, ad): times shown, times clicked."""
    searches: Mapping[tuple[int, str], int]
    """(hour, keyword): searches."""
    services: Mapping[tuple[int, str], tuple[int, int, tuple[float, ...]]]
    """(minute, service): log lines, errors, and p50, p95, p99 of the latency if there is any."""

    @property
    def events(self) -> int:
        return sum(self.kinds.values())


def find_truth(events: Sequence[Event], *, records: int, robots: int, copies: int, dead: Mapping[str, int]) -> Truth:
    """``events`` are those that count; the rest is known by its number."""
    sessions = _sessions(events)
    return Truth(
        records=records,
        robots=robots,
        copies=copies,
        dead=dict(dead),
        kinds=Counter(event.kind for event in events),
        pages=_pages(events),
        sessions=sorted((one.begin_ms, one.end_ms, one.views) for one in sessions),
        funnel=_funnel(sessions),
        ads=_ads(events),
        searches=Counter(
            (event.at_ms // HOUR_MS * HOUR_MS, str(event.fields["query"])) for event in events if event.kind == "search"
        ),
        services=_services(events),
    )


def _pages(events: Iterable[Event]) -> dict[tuple[int, str], tuple[int, int]]:
    seen: dict[tuple[int, str], list[str]] = defaultdict(list)
    for event in events:
        if event.kind == "view":
            seen[event.at_ms // MINUTE_MS * MINUTE_MS, event.page].append(event.who)
    return {key: (len(visitors), len(set(visitors))) for key, visitors in seen.items()}


@dataclass(slots=True)
class _Session:
    begin_ms: int
    end_ms: int
    views: int = 0
    pages: list[str] = field(default_factory=list)


def _sessions(events: Iterable[Event]) -> list[_Session]:
    by_visitor: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.kind in _OF_VISITS:
            by_visitor[event.who].append(event)
    found: list[_Session] = []
    for visits in by_visitor.values():
        current: _Session | None = None
        for event in sorted(visits, key=lambda one: (one.at_ms, one.id)):
            if (
                current is None
                or event.at_ms - current.end_ms >= GAP_MS
                or event.at_ms // DAY_MS != current.begin_ms // DAY_MS
            ):
                current = _Session(event.at_ms, event.at_ms)
                found.append(current)
            current.end_ms = event.at_ms
            if event.kind == "view":
                current.views += 1
                current.pages.append(event.page)
    return found


def _funnel(sessions: Iterable[_Session]) -> dict[tuple[int, str], int]:
    reached: Counter[tuple[int, str]] = Counter()
    for session in sessions:
        steps = 0
        for page in session.pages:
            matches = (True, page.startswith("/products/"), page == "/cart", page == "/order")
            if steps < len(_FUNNEL) and matches[steps]:
                steps += 1
        for step in _FUNNEL[:steps]:
            reached[session.begin_ms // HOUR_MS * HOUR_MS, step] += 1
    return dict(reached)


def _ads(events: Sequence[Event]) -> dict[tuple[int, str], tuple[int, int]]:
    shown = {event.id: event for event in events if event.kind == "impression"}
    clicked = set()
    for event in events:
        about = shown.get(str(event.fields.get("impression"))) if event.kind == "ad_click" else None
        if about is not None and 0 <= event.at_ms - about.at_ms <= HOUR_MS:
            clicked.add(about.id)
    times: Counter[tuple[int, str]] = Counter()
    clicks: Counter[tuple[int, str]] = Counter()
    for event in shown.values():
        key = (event.at_ms // MINUTE_MS * MINUTE_MS, str(event.fields["ad"]))
        times[key] += 1
        clicks[key] += event.id in clicked
    return {key: (count, clicks[key]) for key, count in times.items()}


def _services(events: Iterable[Event]) -> dict[tuple[int, str], tuple[int, int, tuple[float, ...]]]:
    logs: dict[tuple[int, str], list[str]] = defaultdict(list)
    latencies: dict[tuple[int, str], list[float]] = defaultdict(list)
    for event in events:
        key = (event.at_ms // MINUTE_MS * MINUTE_MS, event.who)
        if event.kind == "log":
            logs[key].append(str(event.fields["level"]))
        elif event.kind == "metric":
            latencies[key].append(float(event.fields["value"]))
    found = {}
    for key in logs.keys() | latencies.keys():
        levels = logs.get(key, [])
        errors = sum(level in ERRORS for level in levels)
        found[key] = (len(levels), errors, _percentiles(sorted(latencies.get(key, []))))
    return found


def _percentiles(values: list[float]) -> tuple[float, ...]:
    if not values:
        return ()
    found = []
    for share in (0.5, 0.95, 0.99):
        place = (len(values) - 1) * share
        low = int(place)
        high = min(low + 1, len(values) - 1)
        found.append(values[low] + (values[high] - values[low]) * (place - low))
    return tuple(found)
