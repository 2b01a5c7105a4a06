"""How a collector comes to its end, over a sender that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

from ottla.collect.collector import Collector
from ottla.collect.intake import Intake
from ottla.collect.progress import Counters
from ottla.collect.sender import Sender
from ottla.collect.spool import Spool

DRAIN_S = 7.0


class Scripted:
    """At every look at it, ``look`` is called; it says whether it has come to its end."""

    failure = None

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self.told: list[float] = []

    def start(self) -> None:
        pass

    def join(self) -> None:
        pass

    def finish(self, timeout_s: float) -> None:
        self.told.append(timeout_s)

    @property
    def ended(self) -> bool:
        return bool(self.told) and self._look()


class Ended:
    """A source that has no more."""

    async def run(self) -> None:
        pass


def told(folder: Path, look: Callable[[Collector, Counters], bool]) -> list[float]:
    """How long the sender was given, from the end of the input to its own."""
    spool = Spool(folder, limit_bytes=1 << 20)
    counters = Counters()
    sender = Scripted(lambda: look(collector, counters))
    intake = Intake(spool, counters, is_synced=False)
    collector = Collector(spool, intake, cast("Sender", sender), counters, [], drain_s=DRAIN_S)
    asyncio.run(collector.run([Ended()], lambda _: None, interval_s=60))
    assert sender.told.pop() == 0  # whatever it is at, when all is over
    return sender.told


def test_brokers_that_take_nothing_are_not_waited_for_without_end(tmp_path: Path) -> None:
    assert told(tmp_path, lambda *_: True) == [DRAIN_S]


def test_it_goes_on_for_as_long_as_brokers_take_what_it_has(tmp_path: Path) -> None:
    looks = iter([3, 0, 2, 0])  # how many records were taken since the last look

    def look(_: Collector, counters: Counters) -> bool:
        taken = next(looks, None)
        counters.delivered += taken or 0
        return taken is None

    assert told(tmp_path, look) == [DRAIN_S] * 3


def test_who_says_stop_is_waited_for_no_longer_than_he_said(tmp_path: Path) -> None:
    looks = iter([3, 2])

    def look(collector: Collector, counters: Counters) -> bool:
        collector.stop()
        taken = next(looks, None)
        counters.delivered += taken or 0
        return taken is None

    assert told(tmp_path, look) == [DRAIN_S, DRAIN_S, 0, 0]
