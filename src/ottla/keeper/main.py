"""Runs one keeper until it is told to stop: what ``ottla keeper FILE.cfg`` does."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop

from ottla.base.compiled import is_compiled
from ottla.base.errors import Error
from ottla.base.memory import settle
from ottla.keeper.config import KeeperConfig
from ottla.keeper.shell import KeeperServer

log = logging.getLogger(__name__)


def run(config: KeeperConfig) -> int:
    """Serve until SIGTERM or SIGINT; the exit status."""
    return uvloop.run(_serve(config))


async def _serve(config: KeeperConfig) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        async with serving(config) as failed:
            settle()
            waits = [asyncio.ensure_future(each.wait()) for each in (stopping, failed)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            return 1 if failed.is_set() else 0
    except (Error, OSError) as e:
        log.critical("cannot start: %s", e)
        return 1


@asynccontextmanager
async def serving(config: KeeperConfig) -> AsyncIterator[asyncio.Event]:
    """A keeper on the loop that runs, as long as the block does. The event tells that it failed."""
    server = KeeperServer(config)
    await server.start()
    how = "compiled" if is_compiled() else "not compiled, so slower than it could be"
    log.info("listening for clients on %s:%d (%s)", config.client_host, server.client_port, how)
    try:
        yield server.failed
    finally:
        await server.stop()
