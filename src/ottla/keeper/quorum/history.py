"""The end of the log, in memory: what a leader sends to those who missed it.

``Recent`` holds the newest entries, bounded by count and bytes, and the zxid just before the first of them (``base``),
which is known to be in the history too. Entries follow one another without a gap: the next zxid of the same epoch, or
the first of a later one. A gap is refused outright, since a hole that one server hands on becomes everybody's
(ZOOKEEPER-4925, ZOOKEEPER-2418).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

from ottla.base.errors import RemoteProtocolError
from ottla.keeper.proto.txns import Entry

COUNTER_MAX: Final = 0xFFFFFFFF


def epoch_of(zxid: int) -> int:
    return zxid >> 32


def counter_of(zxid: int) -> int:
    return zxid & COUNTER_MAX


def first_of(epoch: int) -> int:
    return epoch << 32 | 1


def follows(previous: int, zxid: int) -> bool:
    """True if an entry ``zxid`` may stand right behind ``previous``. Counters start at 1: what wraps around is no zxid."""
    if epoch_of(zxid) == epoch_of(previous):
        return zxid == previous + 1
    return epoch_of(zxid) > epoch_of(previous) and counter_of(zxid) == 1


class Recent:
    """Entries in zxid order, oldest dropped first."""

    __slots__ = ("_bytes", "_bytes_max", "_count_max", "_entries", "_zxids", "applied_zxid", "base")

    def __init__(self, base: int, *, count_max: int = 500, bytes_max: int = 4 << 20) -> None:
        self.base = base
        self.applied_zxid = base
        """The tree contains everything up to here. What it does not contain yet is never dropped."""
        self._entries: list[Entry] = []
        self._zxids: list[int] = []
        self._bytes = 0
        self._count_max = count_max
        self._bytes_max = bytes_max

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def last_zxid(self) -> int:
        return self._zxids[-1] if self._zxids else self.base

    def append(self, entries: Iterable[Entry]) -> None:
        last = self.last_zxid
        for entry in entries:
            if not follows(last, entry.zxid):
                raise RemoteProtocolError(f"entry 0x{entry.zxid:x} does not follow 0x{last:x}")
            last = entry.zxid
            self._entries.append(entry)
            self._zxids.append(last)
            self._bytes += len(entry.raw)
        if len(self._entries) > 2 * self._count_max or self._bytes > 2 * self._bytes_max:
            self._trim()

    def _trim(self) -> None:
        """Forget the oldest, in bulk so that each append costs little."""
        applied = bisect_right(self._zxids, self.applied_zxid)
        drop = min(max(0, len(self._entries) - self._count_max), applied)
        kept = sum(len(e.raw) for e in self._entries[drop:])
        while kept > self._bytes_max and drop < applied:
            kept -= len(self._entries[drop].raw)
            drop += 1
        if drop:
            self.base = self._zxids[drop - 1]
            del self._entries[:drop]
            del self._zxids[:drop]
            self._bytes = kept

    def since(self, zxid: int) -> list[Entry] | None:
        """Everything after ``zxid``, or None if ``zxid`` is not known to be in the history."""
        if zxid == self.base:
            return list(self._entries)
        at = bisect_left(self._zxids, zxid)
        if at == len(self._zxids) or self._zxids[at] != zxid:
            return None
        return self._entries[at + 1 :]

    def floor(self, zxid: int) -> int | None:
        """The newest zxid in the history that is not above ``zxid``, or None if that lies before ``base``."""
        if zxid < self.base:
            return None
        at = bisect_right(self._zxids, zxid)
        return self._zxids[at - 1] if at else self.base

    def truncate_to(self, zxid: int) -> None:
        at = bisect_right(self._zxids, zxid)
        self._bytes -= sum(len(e.raw) for e in self._entries[at:])
        del self._entries[at:]
        del self._zxids[at:]
        self.base = min(self.base, zxid)
        self.applied_zxid = min(self.applied_zxid, zxid)

    def reset(self, base: int) -> None:
        """The history is another one now, and ends at ``base``."""
        self.base = self.applied_zxid = base
        self._entries.clear()
        self._zxids.clear()
        self._bytes = 0
