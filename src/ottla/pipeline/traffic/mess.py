"""What arrives of it: every event as some sender spells it, some twice, some late, some broken.

Each record has one thing wrong with it at most, so the truth can say how many of each kind there are. Its timestamp is when
it arrived, and a record that arrives later than ``late_ms`` behind its event counts as lost in time.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from random import Random

from ottla.pipeline.traffic.site import MINUTE_MS, Event, Site
from ottla.pipeline.traffic.truth import Truth, find_truth

HOUR_MS = 60 * MINUTE_MS
LATE_MS = 2 * HOUR_MS
KINDS_BY_TOPIC = {
    "views": ("view",),
    "clicks": ("click",),
    "searches": ("search",),
    "ads": ("impression", "ad_click"),
    "metrics": ("metric",),
    "logs": ("log",),
}
_TOPICS = {kind: topic for topic, kinds in KINDS_BY_TOPIC.items() for kind in kinds}
_HOST = "shop.example.com"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record as it is sent."""

    topic: str
    key: bytes
    value: bytes
    at_ms: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """Records in the order of their arrival, and what is true of them."""

    arrivals: list[Arrival]
    truth: Truth


def make_traffic(
    seed: int, *, start_ms: int, minutes: int, events: int, late_ms: int = LATE_MS, prefix: str = ""
) -> Traffic:
    """About ``events`` events within ``minutes``, as records of topics whose names begin with ``prefix``."""
    random = Random(seed)
    happened = list(Site(random, start_ms=start_ms, minutes=minutes, events=events).events())
    mess = _Mess(random, late_ms, prefix)
    arrivals: list[Arrival] = []
    kept: list[Event] = []
    for event in happened:
        counts = mess.deliver(event, arrivals)
        if counts:
            kept.append(event)
    arrivals.sort(key=lambda one: one.at_ms)
    truth = find_truth(kept, records=len(arrivals), robots=mess.robots, copies=mess.copies, dead=mess.dead)
    return Traffic(arrivals, truth)


class _Mess:
    def __init__(self, random: Random, late_ms: int, prefix: str) -> None:
        self._random = random
        self._late_ms = late_ms
        self._prefix = prefix
        self.robots = 0
        self.copies = 0
        self.dead: Counter[str] = Counter()

    def deliver(self, event: Event, arrivals: list[Arrival]) -> bool:
        """Send it, one way or another; whether it is one of those that count."""
        draw = self._random
        soon = event.at_ms + draw.randrange(50, 3000)
        if event.robot:
            self.robots += 1
            arrivals.append(self._arrival(event, soon))
            return False
        chance = draw.random()
        if chance < 0.02:
            reason, value = self._broken(event)
            self.dead[reason] += 1
            arrivals.append(self._arrival(event, soon, value))
            return False
        if chance < 0.025:
            self.dead["late"] += 1
            arrivals.append(self._arrival(event, event.at_ms + self._late_ms + draw.randrange(1, HOUR_MS)))
            return False
        if chance < 0.055:
            soon = event.at_ms + draw.randrange(MINUTE_MS, self._late_ms - 2 * MINUTE_MS)
        arrivals.append(self._arrival(event, soon))
        if draw.random() < 0.03:
            self.copies += 1
            again = soon + draw.randrange(10, MINUTE_MS)
            arrivals.append(Arrival(arrivals[-1].topic, arrivals[-1].key, arrivals[-1].value, again))
        return True

    def _arrival(self, event: Event, at_ms: int, value: bytes | None = None) -> Arrival:
        value = json.dumps(self._fields(event)).encode() if value is None else value
        return Arrival(self._prefix + _TOPICS[event.kind], event.who.encode(), value, at_ms)

    def _fields(self, event: Event) -> dict[str, str | float]:
        made: dict[str, str | float] = {"id": event.id, "kind": event.kind, "time": self._time(event.at_ms)}
        if event.page:
            made["url"] = self._url(event.page)
        return made | event.fields

    def _time(self, at_ms: int) -> str | int:
        at = datetime.fromtimestamp(at_ms // 1000, UTC) + timedelta(milliseconds=at_ms % 1000)
        spellings = (
            at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            at.astimezone(timezone(timedelta(hours=2))).isoformat(timespec="milliseconds"),
            str(at_ms),
            at_ms,
        )
        return self._random.choices(spellings, weights=(80, 10, 9, 1))[0]

    def _url(self, page: str) -> str:
        spellings = (
            f"https://{_HOST}{page}",
            f"HTTPS://{_HOST.upper()}:443{page}",
            f"https://{_HOST}{page}?utm_source=mail&utm_campaign=x",
            f"https://{_HOST}{page}#top",
            f"https://{_HOST}/{page}",
            f"https://{_HOST}{page}/" if page != "/" else f"https://{_HOST}",
        )
        return self._random.choices(spellings, weights=(75, 5, 5, 5, 5, 5))[0]

    def _broken(self, event: Event) -> tuple[str, bytes]:
        """A record that cannot be used, and why."""
        fields = self._fields(event)
        text = json.dumps(fields).encode()
        needed = "url" if event.page else "service"
        broken: tuple[tuple[str, bytes], ...] = (
            ("malformed", text[: len(text) // 2]),
            ("malformed", b"\xff\xfe" + text),
            ("id", json.dumps(fields | {"id": ""}).encode()),
            ("kind", json.dumps(fields | {"kind": "teleport"}).encode()),
            ("time", json.dumps(fields | {"time": "yesterday"}).encode()),
            ("future", json.dumps(fields | {"time": str(event.at_ms + 5 * HOUR_MS)}).encode()),
            ("field", json.dumps({name: value for name, value in fields.items() if name != needed}).encode()),
        )
        return self._random.choice(broken)
