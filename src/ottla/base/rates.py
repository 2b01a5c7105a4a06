"""How much was used lately, measured as Kafka measures it.

``SampledRate`` adds up what was used in the last ``samples`` windows. The rate is that sum over the time since the oldest of
them began, and over no less than ``windows_min`` windows: who has just come is not taken for fast. For clients these are all
but one, for replicas one. Over the limit, the time to wait is what brings the rate down to it if nothing is used meanwhile:
(rate - limit) / limit · time. Of a limit that is no number or less than nothing, as of -0.0, no time follows: nobody waits.

``TokenBucket`` is filled at the rate of the limit, up to ``samples`` windows' worth; who takes more than there is goes into
debt, and waits until it is paid.
"""

from __future__ import annotations

from collections import deque
from math import copysign, inf
from typing import Final

MOST_MS: Final = 2**31 - 1
"""The longest that a client can be told to wait."""


class SampledRate:
    """What was used in the last windows. Times are milliseconds of any clock that does not go back."""

    __slots__ = ("_samples", "_window_ms", "_windows", "_windows_min")

    def __init__(self, *, samples: int, window_ms: int, windows_min: int | None = None) -> None:
        self._samples = samples
        self._windows_min = samples - 1 if windows_min is None else windows_min
        self._window_ms = window_ms
        self._windows: deque[list[float]] = deque()
        """Of each window when it began, and how much was used in it."""

    def record(self, amount: float, now_ms: float) -> None:
        windows = self._windows
        if not windows or now_ms - windows[-1][0] >= self._window_ms:
            windows.append([now_ms, 0.0])
            self._forget(now_ms)
        windows[-1][1] += amount

    def rate(self, now_ms: float) -> float:
        """Per second."""
        return self.total(now_ms) / self.elapsed_ms(now_ms) * 1000

    def total(self, now_ms: float) -> float:
        """What was used in all windows together."""
        self._forget(now_ms)
        return sum(used for _, used in self._windows)

    def elapsed_ms(self, now_ms: float) -> float:
        """The time that the rate is measured over."""
        elapsed = now_ms - self._windows[0][0] if self._windows else 0.0
        missing = self._windows_min - int(elapsed / self._window_ms)
        if missing > 0:
            elapsed += missing * self._window_ms
        return max(elapsed, self._window_ms)

    def wait_ms(self, limit: float, now_ms: float) -> int:
        """How long not to use anything, so that the rate is down to ``limit``; 0 if it is."""
        rate = self.rate(now_ms)
        if copysign(1, limit) < 0 or not rate > limit:
            return 0
        if limit == 0:
            return self._samples * self._window_ms
        return _told_ms((rate - limit) / limit * self.elapsed_ms(now_ms))

    def is_idle(self, now_ms: float) -> bool:
        self._forget(now_ms)
        return not self._windows

    def _forget(self, now_ms: float) -> None:
        oldest = now_ms - self._samples * self._window_ms
        while self._windows and self._windows[0][0] <= oldest:
            self._windows.popleft()


class TokenBucket:
    """What may be used at once, refilled over time."""

    __slots__ = ("_at_ms", "_seconds", "_tokens")

    def __init__(self, *, samples: int, window_ms: int, now_ms: float) -> None:
        self._seconds = samples * window_ms / 1000
        self._tokens: float | None = None
        self._at_ms = now_ms

    def take(self, amount: float, limit: float, now_ms: float) -> None:
        """However much there is; what is missing is owed."""
        self._tokens = self._filled(limit, now_ms) - amount

    def owes(self, limit: float, now_ms: float) -> bool:
        """Whether something is owed, though it may never be paid: of a limit of 0, say."""
        self._tokens = self._filled(limit, now_ms)
        return self._tokens < 0

    def wait_ms(self, limit: float, now_ms: float) -> int:
        """How long until nothing is owed; 0 if nothing is, or if no time follows."""
        tokens = self._filled(limit, now_ms)
        self._tokens = tokens
        return _told_ms(-tokens / limit * 1000) if limit else 0

    def _filled(self, limit: float, now_ms: float) -> float:
        burst = limit * self._seconds
        tokens = burst if self._tokens is None else self._tokens
        passed_ms, self._at_ms = now_ms - self._at_ms, now_ms
        return min(burst, tokens + limit * passed_ms / 1000)


def _told_ms(wait_ms: float) -> int:
    return min(round(wait_ms), MOST_MS) if 0 < wait_ms < inf else 0
