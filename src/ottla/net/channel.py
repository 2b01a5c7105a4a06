"""An outgoing connection that comes back by itself, for messages of which only the newest matter.

Messages sent while there is no connection wait, a few of them; older ones make room for newer. A connection is made
when there is something to send, and again, at growing intervals, for as long as there is; a new message cuts the
interval short, since whoever sends it may know that the other end is back. Delivery is not promised: whoever uses a
channel sends again what was not answered.

Where a network loses packets for a while, TCP waits ever longer before it tries again, and would go on waiting when the
network is back. So a connection that does not come up soon, or on which nothing is acknowledged for as long, is given
up and made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable

from ottla.base.scope import TaskScope
from ottla.net.connection import Connection

WAITING_MAX = 16
RETRY_FIRST_S = 0.02
RETRY_LAST_S = 1.0
GIVE_UP_S = 1.0


class Channel:
    """``factory`` makes the connection; its ``opened`` may send a greeting first."""

    def __init__(self, scope: TaskScope, factory: Callable[[], Connection], host: str, port: int) -> None:
        self._scope = scope
        self._factory = factory
        self._host = host
        self._port = port
        self._waiting: deque[bytes] = deque(maxlen=WAITING_MAX)
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._sent = asyncio.Event()

    def send(self, data: bytes) -> None:
        connection = self._connection
        if connection is not None and not connection.is_closing:
            connection.write(data)
            return
        self._waiting.append(data)
        self._sent.set()
        if self._connecting is None or self._connecting.done():
            self._connecting = self._scope.spawn(self._connect(), name=f"channel to {self._host}:{self._port}")

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = RETRY_FIRST_S
        while self._waiting:
            try:
                async with asyncio.timeout(GIVE_UP_S):
                    transport, connection = await loop.create_connection(self._factory, self._host, self._port)
                _give_up_unacknowledged(transport)
            except (OSError, TimeoutError):
                await self._pause(wait_s)
                wait_s = min(2 * wait_s, RETRY_LAST_S)
                continue
            self._connection = connection
            while self._waiting:
                connection.write(self._waiting.popleft())

    async def _pause(self, seconds: float) -> None:
        self._sent.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._sent.wait()


def _give_up_unacknowledged(transport: asyncio.Transport) -> None:
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # only Linux has it
        peer = transport.get_extra_info("socket")
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(GIVE_UP_S * 1000))
