"""A registry that is slow and loses answers, while the world is unkind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from ottla.registry.errors import ConnectionLossError
from ottla.registry.store import Operation, Result, Znode
from tests.peers.memorystore import MemoryEnsemble, MemoryStore


class Weather:
    """How unkind the world is."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.is_bad = True

    def happens(self, chance: float) -> bool:
        return self.is_bad and self.rng.random() < chance

    async def delay(self, most_s: float = 0.01) -> None:
        await asyncio.sleep(self.rng.random() * most_s)


class FaultyStore(MemoryStore):
    def __init__(self, ensemble: MemoryEnsemble, weather: Weather) -> None:
        super().__init__(ensemble)
        self._weather = weather
        self._stalled_until_s = 0.0

    def stall(self, seconds: float) -> None:
        """What is on its way to the ensemble arrives that much later: a process that was paused, or a network that was."""
        self._stalled_until_s = asyncio.get_running_loop().time() + seconds

    async def get_many(self, paths: Sequence[str]) -> list[Znode | None]:
        await self._weather.delay()
        return await super().get_many(paths)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        await self._weather.delay()
        await asyncio.sleep(max(0.0, self._stalled_until_s - asyncio.get_running_loop().time()))
        if self._weather.happens(0.02):
            raise ConnectionLossError("not done")
        results = await super().multi(operations)
        await self._weather.delay()
        if self._weather.happens(0.02):
            raise ConnectionLossError("done, and nobody knows")
        return results

    def abandon(self) -> None:
        """The process is gone; the ensemble does not know yet."""
        self._ensemble.stores.pop(self, None)
