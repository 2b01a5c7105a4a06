"""Replication held back, as Kafka holds it back: copies for replicas out of sync go no faster than a rate.

Topics say which of their replicas are throttled, brokers how many bytes a second. What goes to a throttled replica counts,
in sync or not; held back are those out of sync alone, for those in sync would fall behind. Whoever copies asks before each
piece whether the rate is exceeded, so that it holds over some windows and not within each.
"""

from __future__ import annotations

from typing import Final

from ottla.base.clock import Clock
from ottla.base.rates import SampledRate

LOOK_AGAIN_S: Final = 0.1
"""When whoever is held back asks again."""


class Throttle:
    """What all throttled replicas of one broker share, in one direction."""

    __slots__ = ("_clock", "_used", "rate")

    def __init__(self, clock: Clock, rate: int, *, samples: int, window_ms: int) -> None:
        self.rate = rate
        """Bytes a second; may be changed at any time."""
        self._clock = clock
        # Over one window at least: the first second is not to be a burst.
        self._used = SampledRate(samples=samples, window_ms=window_ms, windows_min=0)

    def record(self, size: int) -> None:
        self._used.record(size, self._clock.monotonic() * 1000)

    @property
    def is_exceeded(self) -> bool:
        return self._used.rate(self._clock.monotonic() * 1000) > self.rate
