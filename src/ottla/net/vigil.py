"""Staying awake for a moment after something came, because what comes next is often on its way already.

A process that waits for a message sleeps, and to be woken takes tens of microseconds on a machine that has put its processor to
rest: longer than most requests are worked on. So after a message the loop looks for the next one for a short while before it
falls asleep, and only as long as that pays (ADR 9):

    came in time    the next message is waited for in the same way
    came too late   looking was in vain. After each such time in a row, twice as many messages are let pass before the next try,
                    so that a server with a message now and then hardly spends anything
    others run      whoever else wants this processor gets it between two looks, often the very process that is to send the next
                    message. If that takes long, it was somebody else, and who sleeps is given a processor sooner than who
                    looks on: messages are let pass then, too, and more of them the longer it lasts

Looking is a callback that calls itself again at the end of each turn of the loop, which then polls and does not sleep.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from time import perf_counter
from typing import Final

WINDOW_US: Final = 120
"""As long as a client takes that was sent 64 KB, is woken, looks at them and asks for more."""
MISSES_MAX: Final = 10
PASSED_MAX: Final = (1 << MISSES_MAX) - 1
"""Messages that pass before the next try."""
AWAY_US: Final = 500
"""A client is done sooner than this, so whoever had the processor for longer was somebody else."""
CALM: Final = 32
"""So many messages in time, and nobody else is taken to need the processor any more."""


class Vigil:
    """Of one loop. ``heard`` is told of every message; ``window_us`` is how long to look for the next, or 0 for never."""

    def __init__(
        self,
        window_us: int = WINDOW_US,
        *,
        give_way: Callable[[], None] = os.sched_yield,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        self._window_s = window_us / 1e6
        self._give_way = give_way
        self._now = now
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_looking = False
        self._came = False
        self._until_s = 0.0
        self._misses = 0
        self._passing = 0
        self._in_time = 0
        self._crowded = 0
        """How often in a row others had the processor for long."""

    def heard(self) -> None:
        if self._is_looking:
            self._came = True
        elif self._passing > 0:
            self._passing -= 1
        elif self._window_s > 0:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            self._is_looking = True
            self._until_s = self._now() + self._window_s
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        now_s = self._now()
        if self._came:
            self._came = False
            self._misses = 0
            self._until_s = now_s + self._window_s
            self._in_time += 1
            if self._in_time >= CALM:
                self._crowded = 0
        elif now_s >= self._until_s:
            self._misses = min(self._misses + 1, MISSES_MAX)
            self._stop((1 << self._misses) - 1)
            return
        else:
            self._give_way()
            if self._now() - now_s > AWAY_US / 1e6:
                self._crowded = min(self._crowded + 1, MISSES_MAX)
                self._stop(min(CALM << self._crowded, PASSED_MAX))
                return
        assert self._loop is not None
        self._loop.call_soon(self._look)

    def _stop(self, passing: int) -> None:
        self._is_looking = False
        self._in_time = 0
        self._passing = passing
