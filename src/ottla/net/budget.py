"""How much the unfinished frames of many connections may hold together.

A frame is held until its last byte is there, so many peers that send most of a large frame and then fall silent could make
a server hold any amount. A budget bounds that without getting in the way of anybody else:

    up to ``bytes_max``      everybody reads
    above it                 those who need the fewest bytes to finish go on, up to a quarter of the budget together and at
                             least one; the others do not read. So ordinary frames pass by huge ones, every finished frame
                             makes room, and who goes on without finishing for ``turn_s`` is cut
    and those who wait       hold more than ``bytes_max`` themselves: whoever needs the most is cut

What a connection holds of a small frame does not count and is never held up: most requests never come here, and their sum
is bounded by the number of connections.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

log = logging.getLogger(__name__)

SMALL_BYTES: Final = 64 << 10
TURN_S: Final = 10.0


class Holder(Protocol):
    """A connection with an unfinished frame."""

    @property
    def waits_for_room_only(self) -> bool:
        """It would read if it were not for the budget."""

    def pause_for_room(self) -> None: ...

    def resume_for_room(self) -> None: ...

    def cut(self, why: str) -> None: ...


class _Unfinished:
    __slots__ = ("admitted_s", "held", "missing")

    def __init__(self) -> None:
        self.held = 0
        self.missing = 0
        self.admitted_s: float | None = 0.0
        """Since when it may read while others may not; None: it does not read."""


class FrameBudget:
    def __init__(self, bytes_max: int, *, turn_s: float = TURN_S) -> None:
        self.bytes_max = bytes_max
        self.total = 0
        self._turn_s = turn_s
        self._unfinished: dict[Holder, _Unfinished] = {}
        self._rationing: asyncio.TimerHandle | None = None

    def hold(self, who: Holder, *, held: int, missing: int) -> None:
        """``who`` holds so much of a frame now, and so much of it is still to come."""
        entry = self._unfinished.get(who)
        if entry is None:
            entry = self._unfinished[who] = _Unfinished()
        self.total += held - entry.held
        entry.held, entry.missing = held, missing
        if self.total > self.bytes_max and self._ration() > self.bytes_max:
            largest = max(self._unfinished, key=lambda each: self._unfinished[each].missing)
            largest.cut("there is no room for its frame")

    def release(self, who: Holder) -> None:
        """The frame is finished, or its connection gone."""
        entry = self._unfinished.pop(who, None)
        if entry is None:
            return
        self.total -= entry.held
        if entry.admitted_s is None:
            who.resume_for_room()
        if self._rationing is not None:
            self._ration()

    def _ration(self) -> int:
        """Say anew who may read; how much the others hold."""
        loop = asyncio.get_running_loop()
        plenty = self.total <= self.bytes_max
        room = self.bytes_max // 4
        waiting = 0
        by_need = sorted(self._unfinished.items(), key=lambda item: item[1].missing)
        for number, (who, entry) in enumerate(by_need):
            admitted = plenty or number == 0 or entry.missing <= room
            room -= entry.missing
            waiting += 0 if admitted else entry.held
            if not admitted and entry.admitted_s is not None:
                entry.admitted_s = None
                who.pause_for_room()
            elif admitted and (entry.admitted_s is None or self._rationing is None):
                was_paused = entry.admitted_s is None
                entry.admitted_s = loop.time()
                if was_paused:
                    who.resume_for_room()
        if plenty:
            self._stop()
        elif self._rationing is None:
            log.warning("unfinished requests hold %d MB: the largest wait", self.total >> 20)
            self._rationing = loop.call_later(self._turn_s, self._turn_over)
        return waiting

    def _turn_over(self) -> None:
        """Whoever had a whole turn and did not finish makes room for others."""
        loop = asyncio.get_running_loop()
        self._rationing = loop.call_later(self._turn_s, self._turn_over)
        over = loop.time() - self._turn_s
        slow = [
            who
            for who, entry in self._unfinished.items()
            if entry.admitted_s is not None and entry.admitted_s <= over and who.waits_for_room_only
        ]
        for who in slow:
            who.cut("it takes too long to finish its frame while others need the room")
        if not self._unfinished:
            self._stop()

    def _stop(self) -> None:
        if self._rationing is not None:
            self._rationing.cancel()
            self._rationing = None
