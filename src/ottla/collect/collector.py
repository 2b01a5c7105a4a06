"""Sources, spool and sender put together, from the first record to the last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.base.scope import TaskScope
from ottla.collect.intake import Intake
from ottla.collect.progress import Counters, State
from ottla.collect.sources import Source
from ottla.collect.spool import Spool
from ottla.collect.tailing import Tailer

if TYPE_CHECKING:
    from ottla.collect.sender import Sender

log = logging.getLogger(__name__)

_LOOK_S = 0.05


class Collector:
    """Runs until its sources have no more, or until it is told to stop."""

    def __init__(
        self,
        spool: Spool,
        intake: Intake,
        sender: Sender,
        counters: Counters,
        tailers: Sequence[Tailer],
        *,
        drain_s: float,
    ) -> None:
        self._spool = spool
        self._intake = intake
        self._sender = sender
        self._counters = counters
        self._tailers = tailers
        self._drain_s = drain_s
        self._stopping = asyncio.Event()
        self._is_read = False

    def stop(self) -> None:
        """Take no more, and send what there is for ``drain_s``; called again, end at once."""
        if self._is_read:
            self._sender.finish(0 if self._stopping.is_set() else self._drain_s)
        self._stopping.set()

    async def run(self, sources: Sequence[Source], show: Callable[[State], None], *, interval_s: float) -> State:
        """``show`` is called at every interval; how it stands at the end is returned."""
        self._sender.start()
        try:
            async with TaskScope("collect") as scope:
                scope.spawn(self._intake.keep_synced(), name="sync")
                scope.spawn(self._show(show, interval_s), name="progress")
                await self._read(sources)
                # Only now, as sources bring to an end what they have begun.
                self._is_read = True
                self._sender.finish(self._drain_s)
                await self._sent()
        finally:
            self._sender.finish(0)
            await asyncio.to_thread(self._sender.join)
            self._spool.close()
        if self._sender.failure is not None:
            raise self._sender.failure
        return self.state()

    def state(self) -> State:
        counters = self._counters
        lags = [tailer.lag() for tailer in self._tailers]
        return State(
            counters.collected,
            counters.collected_bytes,
            counters.delivered,
            counters.rejected,
            counters.refused,
            counters.errors,
            self._spool.waiting,
            self._spool.used,
            sum(files for files, _ in lags),
            sum(lag_bytes for _, lag_bytes in lags),
        )

    async def _read(self, sources: Sequence[Source]) -> None:
        """Until every source has come to its end, or all are told to."""
        async with TaskScope("sources") as scope:
            for source in sources:
                scope.spawn(source.run(), name=type(source).__name__)
            ended = asyncio.ensure_future(scope.wait())
            stopping = asyncio.ensure_future(self._stopping.wait())
            failed = asyncio.ensure_future(self._ended())
            try:
                await asyncio.wait((ended, stopping, failed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in (ended, stopping, failed):
                    each.cancel()

    async def _sent(self) -> None:
        """Until the sender has come to its end. Unless it was told to stop, it goes on while brokers take what it has."""
        settled = 0
        while not self._sender.ended:
            counters = self._counters
            if counters.delivered + counters.rejected > settled and not self._stopping.is_set():
                settled = counters.delivered + counters.rejected
                self._sender.finish(self._drain_s)
            await asyncio.sleep(_LOOK_S)

    async def _ended(self) -> None:
        """Until the sender has come to its end."""
        while not self._sender.ended:  # noqa: ASYNC110  it is a thread that ends
            await asyncio.sleep(_LOOK_S)

    async def _show(self, show: Callable[[State], None], interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            show(await asyncio.to_thread(self.state))
