"""What happens on the site: visits of people and of robots, and what the services behind it say of themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

PRODUCTS = 40
ARTICLES = 25
ADS = ("spring-sale", "new-lamp", "free-shipping", "winter-coat")
KEYWORDS = ("lamp", "desk", "chair", "coat", "red shoes", "kettle", "notebook", "bicycle", "tent", "umbrella")
SERVICES = ("web", "search", "checkout")
LEVELS = ("INFO", "INFO", "INFO", "INFO", "WARN", "ERROR")
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0; Win64) Chrome/137.0",
)
ROBOTS = (
    "Mozilla/5.0 (compatible; Googlebot/2.1)",
    "AhrefsBot/7.0",
    "curl/8.5.0",
    "Mozilla/5.0 HeadlessChrome/137.0",
    "SomeSpider/1.0",
)
MINUTE_MS = 60_000
_TICK_MS = 5_000


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once. ``page`` is where, however its address is spelled when it arrives."""

    id: str
    kind: str
    at_ms: int
    fields: dict[str, str | float]
    page: str = ""
    robot: bool = False

    @property
    def who(self) -> str:
        """The visitor or the service: what records are keyed by."""
        return str(self.fields.get("visitor") or self.fields["service"])


class Site:
    """Everything between two times, in no order."""

    def __init__(self, random: Random, *, start_ms: int, minutes: int, events: int) -> None:
        self._random = random
        self._start_ms = start_ms
        self._end_ms = start_ms + minutes * MINUTE_MS
        self._wanted = events
        self._number = 0

    def events(self) -> Iterator[Event]:
        service_events = min(self._wanted // 4, len(SERVICES) * 2 * (self._end_ms - self._start_ms) // _TICK_MS)
        yield from self._services(service_events)
        made = service_events
        visitors = max(self._wanted // 12, 3)
        while made < self._wanted:
            robot = self._random.random() < 0.04
            for event in self._visit(f"v{self._random.randrange(visitors)}", robot=robot):
                made += 1
                yield event

    def _visit(self, visitor: str, *, robot: bool) -> Iterator[Event]:
        draw = self._random
        at = draw.randrange(self._start_ms, self._end_ms)
        who: dict[str, str | float] = {
            "visitor": f"robot-{visitor}" if robot else visitor,
            "ip": f"10.{draw.randrange(256)}.{draw.randrange(256)}.{draw.randrange(1, 255)}",
            "agent": draw.choice(ROBOTS if robot else AGENTS),
        }
        for page in self._path():
            if at >= self._end_ms:
                return
            yield self._event("view", at, who, page, robot=robot)
            if page == "/search":
                query = draw.choices(KEYWORDS, weights=range(len(KEYWORDS), 0, -1))[0]
                yield self._event("search", at + 40, who | {"query": query}, page, robot=robot)
            if draw.random() < 0.35:
                yield self._event(
                    "click", at + draw.randrange(300, 4000), who | {"element": "details"}, page, robot=robot
                )
            if draw.random() < 0.4:
                yield from self._ad(at, who, page, robot=robot)
            # Mostly seconds, sometimes long enough for another session.
            at += min(int(1000 * draw.lognormvariate(2.6, 1.3)), 50 * MINUTE_MS)

    def _ad(self, at: int, who: dict[str, str | float], page: str, *, robot: bool) -> Iterator[Event]:
        ad = self._random.choice(ADS)
        shown = self._event("impression", at + 20, who | {"ad": ad}, page, robot=robot)
        about = who | {"ad": ad, "impression": shown.id}
        yield self._with(shown, about)
        chance = 0.04 * (1 + ADS.index(ad))
        for _ in range(2):  # some click twice
            if self._random.random() < chance:
                clicked = at + self._random.randrange(1000, 40_000)
                yield self._event("ad_click", clicked, about, page, robot=robot)

    def _path(self) -> list[str]:
        draw = self._random
        path = ["/" if draw.random() < 0.6 else f"/articles/{self._favorite(ARTICLES)}"]
        path += [
            draw.choice(["/search", f"/products/{self._favorite(PRODUCTS)}", "/"]) for _ in range(draw.randrange(5))
        ]
        if draw.random() < 0.3:
            path += [f"/products/{self._favorite(PRODUCTS)}", "/cart"]
            if draw.random() < 0.5:
                path.append("/order")
        return path

    def _favorite(self, count: int) -> int:
        """The lower the number, the more often, as with anything that people choose."""
        return min(int(self._random.paretovariate(0.7)), count)

    def _services(self, count: int) -> Iterator[Event]:
        draw = self._random
        for number in range(count):
            service = SERVICES[number % len(SERVICES)]
            at = draw.randrange(self._start_ms, self._end_ms)
            about: dict[str, str | float] = {"service": service}
            if number // len(SERVICES) % 2:
                # A slow hour in every three.
                slow = 3.0 if (at // (60 * MINUTE_MS)) % 3 == 0 else 1.0
                latency = math.ceil(slow * draw.lognormvariate(3.0, 0.6))
                yield self._event("metric", at, about | {"name": "latency_ms", "value": float(latency)})
            else:
                level = draw.choice(LEVELS)
                yield self._event("log", at, about | {"level": level, "message": f"request of ann{number}@example.org"})

    def _event(
        self, kind: str, at: int, fields: dict[str, str | float], page: str = "", *, robot: bool = False
    ) -> Event:
        self._number += 1
        return Event(f"e{self._number:08d}", kind, at, dict(fields), page, robot)

    def _with(self, event: Event, fields: dict[str, str | float]) -> Event:
        return Event(event.id, event.kind, event.at_ms, fields, event.page, event.robot)
