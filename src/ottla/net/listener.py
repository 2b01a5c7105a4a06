"""A listening socket, and how many connections it may hold."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from ottla.net.connection import Connection


class Listener:
    """Counts connections, in all and by address; who is over the limit is closed before it costs anything."""

    def __init__(self, *, connections_max: int = 0, per_address_max: int = 0) -> None:
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.rejected = 0
        self._by_address: Counter[str] = Counter()
        self._total = 0
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen(self, factory: Callable[[], Connection], host: str, port: int, backlog: int = 1024) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(factory, host, port, backlog=backlog, reuse_address=True)

    def admit(self, address: str) -> bool:
        """Count a new connection in, unless there are too many; every True is followed by one ``leave``."""
        over_all = 0 < self.connections_max <= self._total
        over_address = 0 < self.per_address_max <= self._by_address[address]
        if over_all or over_address:
            self.rejected += 1
            return False
        self._total += 1
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
