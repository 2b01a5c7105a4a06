"""Orders on their way: one stream for each life of a broker, in order, until they are answered or that life is over.

A broker that cannot be reached is tried again for as long as it is registered: orders are never given up, only merged with
later ones. A broker that registered anew has another epoch and gets another stream, which begins with everything.

Whom clients find in the metadata of any broker is ready for them: UpdateMetadata waits until whoever is to lead or to follow
has answered the LeaderAndIsr of the same decision, or for a moment, if one of them is slow.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from ottla.base.scope import TaskScope
from ottla.controller.machine.answers import Answered
from ottla.controller.machine.orders import VERSIONS, Orders, Sender
from ottla.metadata.ids import BrokerId
from ottla.metadata.image import LiveBroker
from ottla.peers import Dial, Peer, PeerLostError
from ottla.wire import Message
from ottla.wire.messages.k06_update_metadata import UpdateMetadataRequest

log = logging.getLogger(__name__)

RETRY_S: Final = 0.1
OBEYED_S: Final = 0.25
"""How long metadata waits for those who are slow to obey."""
ANSWER_TIMEOUT_S: Final = 30.0


class Link(Protocol):
    """The way to one broker."""

    async def call(self, request: Message, version: int) -> Message:
        """Raises PeerLostError or TimeoutError."""
        ...

    def close(self) -> None: ...


Connect = Callable[[LiveBroker], Link | None]
"""The way to a broker, or None if there is none."""


OnAnswer = Callable[[Answered], None]


class Obeyed:
    """Whether all who were told to lead or to follow by one decision have answered."""

    def __init__(self, told: Iterable[BrokerId]) -> None:
        self._open = set(told)
        self._all = asyncio.Event()

    def by(self, broker_id: BrokerId) -> None:
        self._open.discard(broker_id)
        if not self._open:
            self._all.set()

    async def wait(self) -> None:
        if self._open:
            with suppress(TimeoutError):
                # Not wait_for, which forgets to be cancelled when what it waits for comes at the same moment.
                async with asyncio.timeout(OBEYED_S):
                    await self._all.wait()


class Stream:
    """To one broker, in one of its lives."""

    def __init__(self, broker: LiveBroker, sender: Sender, link: Link, on_answer: OnAnswer) -> None:
        self.broker_id = broker.registration.broker_id
        self.epoch = broker.epoch
        self._sender = sender
        self._link = link
        self._on_answer = on_answer
        self._pending: deque[tuple[Orders, list[Obeyed]]] = deque()
        self._put = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, scope: TaskScope) -> None:
        self._task = scope.spawn(self._run(), name=f"orders for broker {self.broker_id}")

    def put(self, orders: Orders, obeyed: Obeyed) -> None:
        if self._pending and self._pending[-1][0].merge(orders):
            self._pending[-1][1].append(obeyed)
        else:
            self._pending.append((orders, [obeyed]))
        self._put.set()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._link.close()
        for _, decisions in self._pending:
            self._obeyed(decisions)

    async def _run(self) -> None:
        while True:
            while not self._pending:
                self._put.clear()
                await self._put.wait()
            orders, decisions = self._pending.popleft()
            try:
                await self._carry(orders, decisions)
            finally:
                self._obeyed(decisions)  # or nobody may wait for this broker any more

    async def _carry(self, orders: Orders, decisions: list[Obeyed]) -> None:
        for request in orders.requests(self._sender, self.epoch):
            if isinstance(request, UpdateMetadataRequest) and not orders.is_greeting:
                self._obeyed(decisions)
                for each in decisions:
                    await each.wait()
            response = await self._send(request)
            self._on_answer(Answered(self.broker_id, self.epoch, request, response))

    def _obeyed(self, decisions: list[Obeyed]) -> None:
        for each in decisions:
            each.by(self.broker_id)

    async def _send(self, request: Message) -> Message:
        told = False
        while True:
            try:
                return await self._link.call(request, VERSIONS[type(request)])
            except (PeerLostError, TimeoutError) as error:
                if not told:
                    log.info("broker %d does not take its orders: %s; trying again", self.broker_id, error)
                    told = True
                await asyncio.sleep(RETRY_S)


class Streams:
    """To all brokers that are registered."""

    def __init__(self, scope: TaskScope, sender: Sender, connect: Connect, on_answer: OnAnswer) -> None:
        self._scope = scope
        self._sender = sender
        self._connect = connect
        self._on_answer = on_answer
        self._streams: dict[BrokerId, Stream] = {}

    def follow(self, brokers: Mapping[BrokerId, LiveBroker]) -> None:
        """Streams for those that came, an end to those of brokers that went or began another life."""
        for broker_id, stream in list(self._streams.items()):
            live = brokers.get(broker_id)
            if live is None or live.epoch != stream.epoch:
                self._streams.pop(broker_id).stop()
        for broker_id in sorted(brokers.keys() - self._streams.keys()):
            link = self._connect(brokers[broker_id])
            if link is not None:
                stream = Stream(brokers[broker_id], self._sender, link, self._on_answer)
                self._streams[broker_id] = stream
                stream.start(self._scope)

    def put(self, orders: Mapping[BrokerId, Orders]) -> None:
        reached = {broker_id: order for broker_id, order in orders.items() if broker_id in self._streams}
        obeyed = Obeyed(broker_id for broker_id, order in reached.items() if order.states)
        for broker_id, order in reached.items():
            self._streams[broker_id].put(order, obeyed)

    def stop(self) -> None:
        for stream in self._streams.values():
            stream.stop()
        self._streams.clear()


class PeerLink:
    """Over a socket."""

    def __init__(self, peer: Peer, timeout_s: float) -> None:
        self._peer = peer
        self._timeout_s = timeout_s

    async def call(self, request: Message, version: int) -> Message:
        return await self._peer.call(request, version, Message, timeout_s=self._timeout_s)

    def close(self) -> None:
        self._peer.close()


class InProcess:
    """To the broker that the controller is part of."""

    def __init__(self, order: Callable[[Message], Awaitable[Message]]) -> None:
        self._order = order

    async def call(self, request: Message, version: int) -> Message:
        assert version == VERSIONS[type(request)]
        return await self._order(request)

    def close(self) -> None:
        pass


def over_sockets(
    broker_id: BrokerId, listener: str, *, dial: Dial = Peer, timeout_s: float = ANSWER_TIMEOUT_S
) -> Connect:
    """The way of broker ``broker_id`` to the others: through ``listener``."""

    def connect(live: LiveBroker) -> Link | None:
        endpoint = live.registration.endpoint(listener)
        if endpoint is None:
            log.warning("broker %d has no listener %s and gets no orders", live.registration.broker_id, listener)
            return None
        return PeerLink(dial(endpoint.host, endpoint.port, client_id=str(broker_id)), timeout_s)

    return connect
