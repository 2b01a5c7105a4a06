"""Deadlines for very many keys that are pushed back far more often than they pass.

A session is touched by every request it sends, and it hardly ever expires. So deadlines are rounded up to a multiple of
an interval and all keys of one rounded deadline share a bucket: pushing one back moves it from a dict to a dict, and
only a bucket, never a key, enters the heap.

Rounding goes up, so a key expires never early, and at most one interval late (plus however late ``poll`` is called).
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class ExpiryQueue(Generic[K]):
    """Keys with deadlines in milliseconds of a clock that the caller reads."""

    __slots__ = ("_buckets", "_deadlines", "_due", "interval_ms")

    def __init__(self, interval_ms: int) -> None:
        assert interval_ms > 0, "an interval has a length"
        self.interval_ms = interval_ms
        self._deadlines: dict[K, int] = {}
        # A dict as an ordered set: keys that expire together do so in an order that a seed reproduces.
        self._buckets: dict[int, dict[K, None]] = {}
        self._due: list[int] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def update(self, key: K, timeout_ms: int, now_ms: int) -> None:
        """Let ``key`` expire ``timeout_ms`` from now, whatever its deadline was before."""
        interval_ms = self.interval_ms
        deadline = -(-(now_ms + timeout_ms) // interval_ms) * interval_ms
        before = self._deadlines.get(key)
        if before == deadline:
            return
        if before is not None:
            del self._buckets[before][key]
        self._deadlines[key] = deadline
        bucket = self._buckets.get(deadline)
        if bucket is None:
            self._buckets[deadline] = {key: None}
            heappush(self._due, deadline)
        else:
            bucket[key] = None

    def remove(self, key: K) -> bool:
        """Forget ``key``; says whether it was there."""
        deadline = self._deadlines.pop(key, None)
        if deadline is None:
            return False
        del self._buckets[deadline][key]
        return True

    def deadline_ms(self, key: K) -> int | None:
        """The rounded deadline of ``key``, or None if it has none."""
        return self._deadlines.get(key)

    def next_ms(self) -> int | None:
        """When the next key expires, for a shell that sleeps until then; None while there is none."""
        while self._due and not self._buckets[self._due[0]]:
            del self._buckets[heappop(self._due)]
        return self._due[0] if self._due else None

    def poll(self, now_ms: int) -> list[K]:
        """Take out every key whose deadline has come, earliest deadline first."""
        expired: list[K] = []
        while self._due and self._due[0] <= now_ms:
            expired += self._buckets.pop(heappop(self._due))
        for key in expired:
            del self._deadlines[key]
        return expired
