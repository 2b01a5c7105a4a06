"""Time as an argument: shells own a clock, everything below is told what time it is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks that must not be confused: one to measure with, one to write down."""

    def monotonic(self) -> float:
        """Seconds that never go back. Their zero means nothing; only differences do."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970. May jump either way, so nothing is ever decided by it."""
        ...


class SystemClock:
    """The clocks of the machine."""

    __slots__ = ()

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock for tests: it stands still until it is moved."""

    __slots__ = ("_monotonic", "_wall_ms")

    def __init__(self, *, monotonic: float = 0.0, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic = monotonic
        self._wall_ms = wall_ms

    def monotonic(self) -> float:
        return self._monotonic

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        assert seconds >= 0, "time does not run backwards"
        self._monotonic += seconds
        self._wall_ms += round(seconds * 1000)

    def jump_wall(self, milliseconds: int) -> None:
        """Set the wall clock forward or back, as an administrator or a time server would."""
        self._wall_ms += milliseconds
