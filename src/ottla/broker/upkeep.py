"""What logs need from time to time: flushing, checkpoints, retention, and forgetting producers that are gone.

What goes wrong with a disk is told and kept by its log directory (``log.files.Health``), which is offline from then on; here
it only must not keep the other directories from being looked after.

There may be thousands of logs, most of which need nothing: looking through them yields to clients every few milliseconds, and
what waits for a disk is done in another thread. Checkpoints that would say what they say already are not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

from ottla.base.clock import Clock
from ottla.base.errors import CorruptionError
from ottla.base.pace import Pace
from ottla.base.recent import Recent
from ottla.broker.config import BrokerConfig
from ottla.log import Log, LogDirectory, StorageError
from ottla.replica.replicas import Replicas

_NEVER_MS: Final = 1 << 62
_OFTEN_MS: Final = 10


class Upkeep:
    def __init__(
        self, config: BrokerConfig, clock: Clock, directories: Sequence[LogDirectory], replicas: Replicas
    ) -> None:
        self._config = config
        self._clock = clock
        self._directories = directories
        self._replicas = replicas
        self._pace: Pace
        self.flushes = Recent()
        """How long they took, in milliseconds."""

    async def run(self) -> None:
        config = self._config
        self._pace = Pace()
        expired_ms = saved_ms = self._clock.wall_ms()
        check_ms = saved_ms + config.retention_first_ms
        flush_ms = await self._flush_due()
        while True:
            until_ms = check_ms - self._clock.wall_ms()
            often_ms = min(config.checkpoint_ms, until_ms, config.producer_check_ms, flush_ms)
            await asyncio.sleep(max(often_ms, _OFTEN_MS) / 1000)
            now_ms = self._clock.wall_ms()
            flush_ms = await self._flush_due()
            if now_ms - saved_ms >= config.checkpoint_ms:
                saved_ms = now_ms
                await self._checkpoint()
            if now_ms >= check_ms:
                check_ms = now_ms + config.retention_check_ms
                await self._delete_old(now_ms)
            if now_ms - expired_ms >= config.producer_check_ms:
                expired_ms = now_ms
                async for log in self._logs():
                    log.producers.expire(now_ms)
            await self._delete_marked(now_ms)

    async def _logs(self) -> AsyncIterator[Log]:
        """All of them, with turns for everybody else in between: topics come and go meanwhile."""
        for partition in list(self._replicas):
            if self._replicas.holds(partition):
                yield partition.log
            await self._pace.keep()

    async def _flush_due(self) -> int:
        """Flush what is to be flushed by now; how often some log wants to be looked at for that."""
        often_ms = _NEVER_MS
        async for log in self._logs():
            often_ms = min(often_ms, log.config.flush_ms)
            due = log.flush_due(self._clock.wall_ms())
            if due is not None:
                with suppress(StorageError):
                    await self._flush(log, due)
        return often_ms

    async def _flush(self, log: Log, due: int) -> None:
        now_ms = self._clock.wall_ms()
        flush = log.begin_flush(due)
        failure: OSError | None = None
        began_s = self._clock.monotonic()
        try:
            await asyncio.get_running_loop().run_in_executor(None, flush.sync)
        except OSError as error:
            failure = error
        self.flushes.add((self._clock.monotonic() - began_s) * 1000)
        log.finish_flush(flush, now_ms=now_ms, error=failure)

    async def _checkpoint(self) -> None:
        loop = asyncio.get_running_loop()
        for collect in self._replicas.checkpoints():
            with suppress(StorageError):
                await loop.run_in_executor(None, collect())

    async def _delete_old(self, now_ms: int) -> None:
        async for log in self._logs():
            # Damage is told to whoever reads there; what lies in other logs is deleted all the same.
            with suppress(StorageError, CorruptionError):
                log.delete_old_segments(now_ms=now_ms)

    async def _delete_marked(self, now_ms: int) -> None:
        for directory in self._directories:
            with suppress(StorageError):
                for logs in (directory.logs, directory.future_logs):
                    for where, log in list(logs.items()):
                        if logs.get(where) is log:
                            log.delete_marked(now_ms=now_ms)
                        await self._pace.keep()
                if folders := directory.take_doomed(now_ms=now_ms):
                    await asyncio.get_running_loop().run_in_executor(None, directory.remove_folders, folders)
