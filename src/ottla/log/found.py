"""What was in a file when it was opened: believed once it was looked at, when it is read first.

A start after a clean stop reads no segment, so nobody knows what a disk has made of it meanwhile. What this process has
appended since, or read in a recovery, is as it was written; everything else is looked at before it is served::

    0 ─────────── from ═════════ to ─────────── end ───────────────►
                  looked at                     of what was found; written by this process

One run of batches is remembered. Whoever goes on where it ended pays for every byte once, which is a checksum and a copy; two
readers far apart pay each time. Bytes that were damaged in the middle of a life of this process are not noticed here, but
by those who use them: consumers and followers compute the checksum, too.
"""

from __future__ import annotations

from typing import Final

from ottla.log.batches import verified
from ottla.log.files import OpenFile

LOOKED_AT_MAX: Final = 8 << 20
"""At a time, beyond the first batch: others wait meanwhile."""


class Found:
    __slots__ = ("_from", "_to", "end")

    def __init__(self, end: int) -> None:
        self.end = end
        self._from = 0
        self._to = 0

    def cut(self, size: int) -> None:
        """The file is shorter now, and what comes behind that is written by this process."""
        self.end = min(self.end, size)
        self._to = min(self._to, size)
        self._from = min(self._from, size)

    def sound_to(self, file: OpenFile, start: int, end: int, *, first_end: int, behind: int) -> int:
        """Up to where the whole batches from ``start`` on are as they were written, ``end`` at most; ``start`` if the first is not.

        ``first_end`` is where the first one ends by its header; no batch may reach the offset ``behind``.
        """
        if start >= self.end:
            return end
        if not self._from <= start <= self._to:
            self._from = self._to = start
        if self._to < min(end, self.end):
            self._look(file, min(end, self.end, max(first_end, self._to + LOOKED_AT_MAX)), behind)
        return end if self._to >= self.end else min(self._to, end)

    def _look(self, file: OpenFile, end: int, behind: int) -> None:
        for located in verified(file, end, position=self._to):
            if located.header.last_offset >= behind:
                return
            self._to = located.position + located.header.size
