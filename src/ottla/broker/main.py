"""Runs one broker until it is told to stop: what ``ottla broker FILE.properties`` does."""

from __future__ import annotations

import asyncio
import logging
import signal

import uvloop

from ottla.base.compiled import is_compiled
from ottla.base.errors import Error
from ottla.broker.config import BrokerConfig
from ottla.broker.server import BrokerServer

log = logging.getLogger(__name__)


def run(config: BrokerConfig) -> int:
    """Serve until SIGTERM or SIGINT; the exit status."""
    return uvloop.run(_serve(config))


async def _serve(config: BrokerConfig) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    server = BrokerServer(config)
    try:
        await server.start()
    except (Error, OSError) as error:
        log.critical("cannot start: %s", error)
        await server.stop()
        return 1
    how = "compiled" if is_compiled() else "not compiled, so slower than it could be"
    at = ", ".join(f"{port.config.host}:{port.listener.port}" for port in server.ports)
    log.info("broker %d serves clients on %s (%s)", config.broker_id, at, how)
    waits = [asyncio.ensure_future(stopping.wait()), asyncio.ensure_future(server.failed.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    await server.stop()
    return 1 if server.failed.is_set() else 0
