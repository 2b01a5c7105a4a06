"""Where sources hand in what they have read. It is taken once it is in the spool."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

from ottla.collect.batches import Batch, encode
from ottla.collect.progress import Counters
from ottla.collect.spool import Spool

SYNC_S = 1.0
_LOOK_AGAIN_S = 1.0
"""After a disk that was full, nobody says that there is room again."""


class Parcel(NamedTuple):
    """A batch ready for the spool. Who has many records makes it in a thread."""

    data: bytes
    records: int
    value_bytes: int


def pack(batch: Batch) -> Parcel:
    return Parcel(encode(batch), len(batch.records), sum(len(record.value) for record in batch.records))


class Intake:
    def __init__(self, spool: Spool, counters: Counters, *, is_synced: bool) -> None:
        """``is_synced``: whether what is taken is on disk by then, and not only with the operating system."""
        self._spool = spool
        self._counters = counters
        self._is_synced = is_synced
        self._room = asyncio.Event()
        self._sync: asyncio.Task[None] | None = None

    async def put(self, parcel: Parcel) -> None:
        """Waits for room."""
        while (number := self._append(parcel)) is None:
            self._room.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), _LOOK_AGAIN_S)
        await self._settled(number)

    async def offer(self, parcel: Parcel) -> bool:
        """Refuses where there is no room."""
        number = self._append(parcel)
        if number is None:
            self._counters.refused += 1
            return False
        await self._settled(number)
        return True

    def on_room(self) -> None:
        self._room.set()

    async def keep_synced(self) -> None:
        """Every second, for as long as it runs."""
        while True:
            await asyncio.sleep(SYNC_S)
            if self._spool.synced < self._spool.end:
                await asyncio.to_thread(self._spool.sync)

    def _append(self, parcel: Parcel) -> int | None:
        number = self._spool.append(parcel.data)
        if number is not None:
            self._counters.collected += parcel.records
            self._counters.collected_bytes += parcel.value_bytes
        return number

    async def _settled(self, number: int) -> None:
        """One sync serves all who wait when it begins."""
        while self._is_synced and self._spool.synced <= number:
            if self._sync is None or self._sync.done():
                self._sync = asyncio.ensure_future(asyncio.to_thread(self._spool.sync))
            await asyncio.shield(self._sync)
