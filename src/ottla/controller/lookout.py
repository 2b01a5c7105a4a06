"""Whether a broker is plainly gone, so that nobody has to wait until its session runs out.

A connection to it is held. When that ends, and for 200 ms everybody who tries to connect is refused at every address that it
registered, then no process is there: a kernel refuses only where nobody listens, and one of Ottla's brokers listens before it
registers and for as long as it lives. Whatever else happens (silence, an answer, no route) proves nothing, and the session
decides. A broker that was given up by mistake sees that its registration is gone, stops leading and registers again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ottla.base.scope import TaskScope
from ottla.metadata.ids import BrokerId
from ottla.metadata.image import LiveBroker
from ottla.metadata.znodes.brokers import Endpoint

log = logging.getLogger(__name__)

GONE_AFTER_S: Final = 0.2
LOOK_AGAIN_S: Final = 0.02
CONNECT_TIMEOUT_S: Final = 1.0
UNSURE_PAUSE_S: Final = 0.05
"""A process that is being killed may hang up a moment before it stops to listen."""

OnGone = Callable[[LiveBroker], None]


class Lookout:
    """Watches some brokers, each in one of its lives, and tells once of one that is gone."""

    def __init__(self, scope: TaskScope, on_gone: OnGone) -> None:
        self._scope = scope
        self._on_gone = on_gone
        self._watched: dict[tuple[BrokerId, int], asyncio.Task[None]] = {}

    def follow(self, brokers: Mapping[BrokerId, LiveBroker]) -> None:
        """Watch those of Ottla's brokers that are among these, and no others."""
        wanted = {
            (broker, live.epoch): live
            for broker, live in brokers.items()
            if live.registration.mark is not None and live.registration.endpoints
        }
        for key in self._watched.keys() - wanted.keys():
            self._watched.pop(key).cancel()
        for key, live in wanted.items():
            if key not in self._watched:
                self._watched[key] = self._scope.spawn(self._watch(live), name=f"watching broker {key[0]}")

    async def _watch(self, live: LiveBroker) -> None:
        await until_gone(live.registration.endpoints)
        log.warning("broker %d is gone: nobody listens where it was", live.registration.broker_id)
        self._on_gone(live)


async def until_gone(endpoints: Sequence[Endpoint]) -> None:
    """Return once it is plain that nobody is there any more."""
    while True:
        await _hold(endpoints[0])
        if await is_refused(endpoints):
            return
        await asyncio.sleep(UNSURE_PAUSE_S)


class _Line(asyncio.Protocol):
    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def _hold(endpoint: Endpoint) -> None:
    """Connect, and wait until that ends; return at once if it is refused."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            transport, line = await loop.create_connection(_Line, endpoint.host, endpoint.port)
    except (OSError, TimeoutError):
        return
    try:
        await line.ended
    finally:
        transport.close()


async def is_refused(endpoints: Sequence[Endpoint]) -> bool:
    """Whether every attempt at every address is refused for long enough."""
    loop = asyncio.get_running_loop()
    until = loop.time() + GONE_AFTER_S
    while True:
        for endpoint in endpoints:
            if not await _refuses(endpoint):
                return False
        if loop.time() >= until:
            return True
        await asyncio.sleep(LOOK_AGAIN_S)


async def _refuses(endpoint: Endpoint) -> bool:
    """A name may stand for several addresses: all of them have to."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
            verdicts = [await _is_nobody_at(str(address[0]), endpoint.port) for *_, address in found]
    except (OSError, TimeoutError):
        return False
    return bool(verdicts) and all(verdicts)


async def _is_nobody_at(host: str, port: int) -> bool:
    try:
        transport, _ = await asyncio.get_running_loop().create_connection(_Line, host, port)
    except ConnectionRefusedError:
        return True
    transport.close()
    return False
