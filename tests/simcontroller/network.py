"""Ways between brokers that are late, lose answers, and are cut in one direction or both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ottla.metadata.ids import BrokerId
from ottla.metadata.image import LiveBroker
from ottla.peers import Peer, PeerLostError, PeerRefusedError
from ottla.wire import Message

if TYPE_CHECKING:
    from tests.simcontroller.world import World

CLIENT = BrokerId(0)
"""Who is no broker."""
LOST = 0.01
SILENCE_S = 20.0

R = TypeVar("R", bound=Message)


class Network:
    def __init__(self, world: World) -> None:
        self._world = world
        self._cut: set[tuple[int, int]] = set()

    def cut(self, source: int, target: int) -> None:
        """Whatever is sent that way from now on is lost."""
        self._cut.add((source, target))

    def heal(self) -> None:
        self._cut.clear()

    async def call(self, source: int, target: int, request: Message, version: int) -> Message:
        """Raises PeerLostError: there and back, each way with its own chance to get lost."""
        await self._travel(source, target)
        node = self._world.nodes.get(BrokerId(target))
        if node is None:
            raise PeerRefusedError("nobody there")
        response = await node.serve(request, version)
        await self._travel(target, source)
        return response

    async def _travel(self, source: int, target: int) -> None:
        await self._world.weather.delay()
        if (source, target) in self._cut:
            await asyncio.sleep(SILENCE_S)  # whoever waits has given up by then
            raise PeerLostError("silence")
        if self._world.weather.happens(LOST):
            raise PeerLostError("the connection ended")


class Link:
    """The way of a controller to a broker."""

    def __init__(self, network: Network, source: int, broker: LiveBroker) -> None:
        self._network = network
        self._source = source
        self._target = broker.registration.broker_id

    async def call(self, request: Message, version: int) -> Message:
        return await self._network.call(self._source, self._target, request, version)

    def close(self) -> None:
        pass


class ModelPeer(Peer):
    """The way of a broker to another, whose port is its id."""

    network: Network
    source: int

    async def call(self, request: Message, version: int, answer: type[R], *, timeout_s: float | None = None) -> R:
        async with asyncio.timeout(timeout_s):
            response = await self.network.call(self.source, self.port, request, version)
        assert isinstance(response, answer), response
        return response

    def close(self) -> None:
        pass
