"""The clocks of one machine: never quite right, and the wall clock at times utterly wrong."""

from __future__ import annotations

from random import Random

from tests.sim.loop import Loop

WALL_START_MS = 1_700_000_000_000
DRIFT = 0.01


class SimClock:
    """Runs on while processes come and go. Satisfies ``ottla.base.clock.Clock``."""

    def __init__(self, loop: Loop, rng: Random) -> None:
        self._loop = loop
        self._zero_s = rng.uniform(10, 1_000_000)
        self._rate = 1e-6 * rng.uniform(1 - DRIFT, 1 + DRIFT)
        self.wall_skew_ms = rng.randint(-5000, 5000)

    def monotonic(self) -> float:
        return self._zero_s + self._loop.now_us * self._rate

    def true_ms(self) -> int:
        """What a monotonic clock shows, in milliseconds, whatever clock the code under test reads."""
        return int((self._zero_s + self._loop.now_us * self._rate) * 1000)

    def wall_ms(self) -> int:
        return WALL_START_MS + self._loop.now_us // 1000 + self.wall_skew_ms

    def jump_wall(self, by_ms: int) -> None:
        """As an administrator or a time server would."""
        self.wall_skew_ms += by_ms
