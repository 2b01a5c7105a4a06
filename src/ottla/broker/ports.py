"""The listeners of a broker, and who is connected to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.base.errors import ConfigError
from ottla.base.pace import Pace
from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import ListenerConfig
from ottla.broker.seats import UNLIMITED, Seats
from ottla.metadata.znodes.brokers import Endpoint
from ottla.net import Connection, Listener
from ottla.net.listener import BACKLOG

if TYPE_CHECKING:
    from ottla.broker.connection import KafkaConnection

log = logging.getLogger(__name__)

_LOOK_S = 0.5
"""Between two looks for connections that are idle."""


class ListenerPort:
    """One listener with its socket."""

    def __init__(self, config: ListenerConfig) -> None:
        self.name = config.name
        self.config = config
        self.listener = Listener()


Accept = Callable[[ListenerPort], Connection]


class Ports:
    """All of them."""

    def __init__(self, config: BrokerConfig) -> None:
        self.connections: set[KafkaConnection] = set()
        self.seats = Seats()
        self._config = config
        self._ports: list[ListenerPort] = []
        self._accept: Accept | None = None
        self._renewing = asyncio.Lock()

    def __iter__(self) -> Iterator[ListenerPort]:
        return iter(self._ports)

    def __str__(self) -> str:
        return ", ".join(f"{port.config.host}:{port.listener.port}" for port in self._ports)

    async def open(self, accept: Accept) -> None:
        self._accept = accept
        for config in self._config.listeners:
            await self._open(config)
        self.limit()

    async def renew(self) -> None:
        """The listeners are to be others: some go, with who is connected to them, some come, some are told otherwise."""
        async with self._renewing:
            wanted = {config.place: config for config in self._config.listeners}
            for port in list(self._ports):
                config = wanted.pop(port.config.place, None)
                if config is None:
                    self._close(port, keep={each.name for each in self._config.listeners})
                else:
                    port.config = config
            for config in wanted.values():
                try:
                    await self._open(config)
                except ConfigError as error:
                    log.error("a listener that was asked for is missing: %s", error)  # noqa: TRY400
            self.limit()

    async def _open(self, config: ListenerConfig) -> None:
        port, accept = ListenerPort(config), self._accept
        assert accept is not None
        try:
            await port.listener.listen(
                lambda: accept(port),
                config.host,
                config.port,
                backlog=self._config.backlog,
                send_buffer_bytes=self._config.send_buffer_bytes,
                receive_buffer_bytes=self._config.receive_buffer_bytes,
            )
        except OSError as error:
            raise ConfigError(f"cannot listen on {config.host}:{config.port}: {error.strerror or error}") from error
        self._ports.append(port)

    def _close(self, port: ListenerPort, keep: set[str]) -> None:
        """Who is connected to a listener that only moved, stays so."""
        log.info("%s is listened to no more", port.config.endpoint(port.listener.port))
        port.listener.stop()
        self._ports.remove(port)
        if port.name not in keep:
            for connection in [each for each in self.connections if each.listener == port.name]:
                connection.close()

    def endpoints(self) -> tuple[Endpoint, ...]:
        """What is registered."""
        return tuple(port.config.endpoint(port.listener.port) for port in self._ports if port.config.is_advertised)

    def limit(self) -> None:
        """By the settings as they are now."""
        config = self._config
        for port in self._ports:
            port.listener.limit(
                connections_max=UNLIMITED,
                per_address_max=config.connections_per_address_max,
                overrides=config.connections_per_address_overrides,
            )
        self.seats.limit(
            broker_max=config.connections_max,
            listener_max={port.name: config.listener_connections_max(port.name) for port in self._ports},
            protected=config.inter_broker_listener if len(self._ports) > 1 else None,
            waiting_max=config.backlog or BACKLOG,
        )

    async def close_idle(self) -> None:
        """Forever. It is seen by looking alone when something came, so how often one looks is how exact the limit is."""
        limit_s = self._config.idle_max_ms / 1000
        loop = asyncio.get_running_loop()
        pace = Pace()
        while True:
            await asyncio.sleep(min(_LOOK_S, limit_s))
            for connection in list(self.connections):
                if connection.is_idle(loop.time(), limit_s):
                    connection.close()
                await pace.keep()

    def close(self) -> None:
        for port in self._ports:
            port.listener.stop()
        self.seats.close()
        for connection in list(self.connections):
            connection.close()
