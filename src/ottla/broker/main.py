"""Runs one broker until it is told to stop: what ``ottla broker FILE.properties`` does."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import uvloop

from ottla.base.errors import Error
from ottla.base.memory import settle
from ottla.broker.config import BrokerConfig
from ottla.broker.server import BrokerServer

log = logging.getLogger(__name__)


Beside = Callable[[], AbstractAsyncContextManager[asyncio.Event]]
"""What runs on the same loop, from before the broker until after it. The event tells that it failed."""


def run(config: BrokerConfig, *, beside: Beside = lambda: nullcontext(asyncio.Event())) -> int:
    """Serve until SIGTERM or SIGINT; the exit status."""
    return uvloop.run(_serve(config, beside))


async def _serve(config: BrokerConfig, beside: Beside) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    server = BrokerServer(config)
    try:
        async with beside() as failed:
            try:
                if await _started(server, stopping):
                    settle()
                    await _wait_any(stopping, server.failed, failed)
            finally:
                await server.stop()
    except (Error, OSError) as error:
        log.critical("cannot start: %s", error)
        return 1
    return 1 if server.failed.is_set() or failed.is_set() else 0


async def _started(server: BrokerServer, stopping: asyncio.Event) -> bool:
    """Start, unless the broker is to stop before: its ensemble may be long in coming."""

    def stop(_: object) -> None:
        patience.reschedule(loop.time())

    loop = asyncio.get_running_loop()
    stopped = asyncio.ensure_future(stopping.wait())
    patience = asyncio.timeout(None)
    try:
        async with patience:
            stopped.add_done_callback(stop)
            try:
                await server.start()
            finally:
                stopped.remove_done_callback(stop)
                stopped.cancel()
    except TimeoutError:
        if not patience.expired():
            raise
        return False
    return True


async def _wait_any(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
