"""A listening socket, and how many connections it may hold."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Mapping

from ottla.net.connection import Connection

BACKLOG = 1024
UNLIMITED = 2**31 - 1


class Listener:
    """Counts connections, in all and by address; who is over the limit is closed before it costs anything."""

    def __init__(self, *, connections_max: int = 0, per_address_max: int = 0) -> None:
        """0 for any number."""
        self.limit(
            connections_max=connections_max or UNLIMITED, per_address_max=per_address_max or UNLIMITED, overrides={}
        )
        self.rejected = 0
        self.admitted = 0
        self._by_address: Counter[str] = Counter()
        self._total = 0
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen(
        self,
        factory: Callable[[], Connection],
        host: str,
        port: int,
        *,
        backlog: int | None = None,
        send_buffer_bytes: int | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        """Buffers are the system's choice unless they are given; connections take them over from the listening socket."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(factory, host, port, backlog=backlog or BACKLOG, reuse_address=True)
        sizes = {socket.SO_SNDBUF: send_buffer_bytes, socket.SO_RCVBUF: receive_buffer_bytes}
        for listening in self._server.sockets:
            for option, size in sizes.items():
                if size is not None and size > 0:
                    listening.setsockopt(socket.SOL_SOCKET, option, size)

    def limit(self, *, connections_max: int, per_address_max: int, overrides: Mapping[str, int]) -> None:
        """How many connections there may be from now on, and of some addresses; those that are open stay so."""
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.overrides = overrides

    def admit(self, address: str) -> bool:
        """Count a new connection in, unless there are too many; every True is followed by one ``leave``."""
        per_address_max = self.overrides.get(address, self.per_address_max)
        if self._total >= self.connections_max or self._by_address[address] >= per_address_max:
            self.rejected += 1
            return False
        self._total += 1
        self.admitted += 1
        self._by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        self._total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def __len__(self) -> int:
        return self._total

    def stop(self) -> None:
        """Accept no more. Connections that are open stay so."""
        if self._server is not None:
            self._server.close()
