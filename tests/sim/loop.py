"""Simulated time: what happens next, and when."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

MS = 1000
SECOND = 1000 * MS
STEPS_MAX = 150_000
"""A run takes a tenth of that. Servers that try the same thing over and over, at once, take more."""

Call = Callable[..., None]


class Violation(AssertionError):  # noqa: N818
    """An invariant does not hold. The message says which and how."""


class Loop:
    """A queue of calls in the order of their times; calls of one time keep the order they were asked for in."""

    __slots__ = ("_asked", "_due", "now_us", "steps")

    def __init__(self) -> None:
        self.now_us = 0
        self.steps = 0
        self._asked = 0
        self._due: list[tuple[int, int, Call, tuple[object, ...]]] = []

    def after(self, delay_us: int, call: Call, *args: object) -> None:
        self._asked += 1
        heappush(self._due, (self.now_us + delay_us, self._asked, call, args))

    def run_until(self, end_us: int) -> None:
        """Let everything happen that is due before ``end_us``."""
        due = self._due
        while due and due[0][0] < end_us:
            self.now_us, _, call, args = heappop(due)
            self.steps += 1
            call(*args)
            if self.steps > STEPS_MAX:
                raise Violation(
                    f"A6: {STEPS_MAX:,} steps in {self.now_us / SECOND:.0f} s: something goes round in circles"
                )
        self.now_us = end_us
