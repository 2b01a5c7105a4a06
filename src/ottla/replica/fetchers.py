"""All fetchers of a broker: ``num.replica.fetchers`` for each leader, and each partition always with the same of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final
from zlib import crc32

from ottla.base.clock import Clock
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.replica.fetcher import Fetcher, FetchSettings, LeaderHere
from ottla.replica.partition import Partition

VERDICT_S: Final = 1.0
"""How long a controller may take to find out that a broker is gone."""

Place = tuple[BrokerId, int]
"""A leader, and which of its fetchers."""
Spawn = Callable[[Coroutine[Any, Any, None], str], None]


class Fetchers:
    def __init__(self, settings: FetchSettings, here: LeaderHere, clock: Clock, spawn: Spawn) -> None:
        self._settings = settings
        self._here = here
        self._clock = clock
        self._spawn = spawn
        self._fetchers: dict[Place, Fetcher] = {}
        self._places: dict[TopicPartition, Place] = {}

    @property
    def lag_max(self) -> int:
        """Records that were committed and are not here, of the partition that is furthest behind."""
        return max((fetcher.lag_max for fetcher in self._fetchers.values()), default=0)

    @property
    def leaders(self) -> set[BrokerId]:
        """Whom this broker fetches from."""
        return {leader for leader, _ in self._fetchers}

    @property
    def cut_off(self) -> set[BrokerId]:
        """Leaders that have just hung up: they may be gone, and the controller about to say so.

        Not for longer than that takes it: of one that only this broker does not reach, nobody will say more.
        """
        since_s = self._clock.monotonic() - VERDICT_S
        cut = ((leader, fetcher.cut_s) for (leader, _), fetcher in self._fetchers.items())
        return {leader for leader, cut_s in cut if cut_s is not None and cut_s > since_s}

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader, in its present epoch, and from nobody else."""
        self.forget(partition)
        place = self._places[partition.where] = self._place(partition)
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = Fetcher(*place, self._settings, self._here, self._clock)
            fetcher.follow(partition)
            self._spawn(self._run(place, fetcher), f"fetching from broker {place[0]}")
        else:
            fetcher.follow(partition)

    def resize(self, fetchers: int) -> None:
        """From now on so many for each leader: some partitions go to another one."""
        if fetchers == self._settings.fetchers:
            return
        self._settings = self._settings._replace(fetchers=fetchers)
        for fetcher in list(self._fetchers.values()):
            for partition in fetcher.partitions():
                if self._places[partition.where] != self._place(partition):
                    self.follow(partition)

    def forget(self, partition: Partition) -> None:
        place = self._places.pop(partition.where, None)
        if place is not None and place in self._fetchers:
            self._fetchers[place].forget(partition)

    def _place(self, partition: Partition) -> Place:
        return partition.leader, crc32(str(partition.where).encode()) % self._settings.fetchers

    async def _run(self, place: Place, fetcher: Fetcher) -> None:
        await fetcher.run()
        # Nothing was awaited since it found nobody left.
        del self._fetchers[place]
