"""Long work on the event loop, done a little at a time."""

from __future__ import annotations

import asyncio
from typing import Final

TURN_S: Final = 0.005
"""How long one piece of work may keep everybody else waiting at a time."""


class Pace:
    """Asked after every step, it lets others have a turn when one is due."""

    __slots__ = ("_loop", "_since_s")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._since_s = self._loop.time()

    async def keep(self) -> None:
        if self._loop.time() - self._since_s > TURN_S:
            await asyncio.sleep(0)
            self._since_s = self._loop.time()
