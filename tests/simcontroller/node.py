"""A broker without sockets and files: everything of it that decides is the product's.

Orders, partitions, fetchers, ISR proposals, membership, the controller and the handlers of Fetch, Produce, ListOffsets,
AlterPartition and ControlledShutdown are those that brokers run. What is left out is what carries their messages
(``network``) and what keeps their records (``disk``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from ottla.base.errors import RemoteProtocolError
from ottla.base.scope import TaskScope
from ottla.broker.api import Answer, Handle, Parked, Reply
from ottla.broker.apis import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k07_controlled_shutdown,
    k56_alter_partition,
)
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.context import Context
from ottla.broker.fetchsessions import FetchSessions
from ottla.broker.membership import Membership
from ottla.broker.orders import Orders
from ottla.broker.ports import Ports
from ottla.broker.services import Services
from ottla.broker.tallies import Tallies
from ottla.controller.controller import Controller
from ottla.controller.term import ControllerConfig
from ottla.log import LogConfig, LogDirectory
from ottla.metadata import BrokerId
from ottla.metadata.configs.effective import BrokerSources
from ottla.metadata.ids import TopicPartition
from ottla.metadata.znodes import paths
from ottla.peers import Peer, PeerLostError
from ottla.registry import Registry, SessionChanged, SessionState
from ottla.registry.store import DataChanged
from ottla.replica.fetcher import FetchSettings, LeaderHere
from ottla.replica.fetchers import Fetchers
from ottla.replica.partition import Partition
from ottla.replica.proposals import IsrProposals
from ottla.replica.replicas import Replicas
from ottla.wire import ApiKey, ErrorCode, Message
from ottla.wire.messages.k00_produce import ProduceRequest
from ottla.wire.messages.k01_fetch import FetchRequest
from ottla.wire.messages.k02_list_offsets import ListOffsetsRequest
from ottla.wire.messages.k07_controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.messages.k56_alter_partition import AlterPartitionRequest
from tests.simcontroller.disk import Left, ModelDirectory
from tests.simcontroller.faults import FaultyStore
from tests.simcontroller.network import Link, ModelPeer
from tests.simcontroller.virtual import LoopClock

if TYPE_CHECKING:
    from tests.simcontroller.world import World

LISTENER = "PLAINTEXT"
MIN_INSYNC = 2
LAG_S = 2.0
SESSION_MS = 6000
ONE_OR_TWO = 48
"""Bytes of a fetch: so few records that a follower is somewhere in between for most of the time."""


def _produce(ctx: Context, request: ProduceRequest) -> Answer:
    """As if others had come with it."""
    (answer,) = k00_produce.together(ctx, [request])
    assert not isinstance(answer, RemoteProtocolError), answer
    return answer


HANDLES: dict[type[Message], Handle] = {
    ProduceRequest: _produce,
    FetchRequest: k01_fetch.handle,
    ListOffsetsRequest: k02_list_offsets.handle,
    AlterPartitionRequest: k56_alter_partition.handle,
    ControlledShutdownRequest: k07_controlled_shutdown.handle,
}


class Node:
    """One life of a broker, which begins with what the one before has left."""

    def __init__(self, world: World, broker_id: BrokerId, left: Left) -> None:
        self.world = world
        self.broker_id = broker_id
        self.clock = LoopClock()
        self.cluster = ClusterView()
        self.directory = ModelDirectory(left, world.truth.of(broker_id))
        self.store = FaultyStore(world.ensemble, world.weather)
        self.registry = Registry(self.store)
        self.controller: Controller
        self.replicas: Replicas
        self._orders: Orders
        self._membership: Membership
        self._services: Services
        self._serving: dict[asyncio.Future[Message], None] = {}
        self._spawn: Callable[[Coroutine[Any, Any, None], str], None]
        self._task: asyncio.Task[None] | None = None
        self._is_up = False
        self._is_leaving = False

    # Its life.

    def start(self, scope: TaskScope) -> None:
        self._task = scope.spawn(self._live(), name=f"node {self.broker_id}")

    async def kill(self) -> None:
        """Without a word: the registration stays until somebody ends the session."""
        assert self._task is not None
        self._is_up = False
        self.store.abandon()
        self._task.cancel()
        for answer in self._serving:
            if not answer.done():
                answer.set_exception(PeerLostError("its process is gone"))
        with suppress(asyncio.CancelledError):
            await self._task

    def fail_disk(self) -> None:
        """Its process lives on without; see ``BrokerServer``."""
        if self._is_up and self.directory.health.failure is None:
            self.directory.fail()
            self.replicas.take_offline(cast("LogDirectory", self.directory))
            self.world.truth.seen["failed"] += 1
            self._spawn(self._membership.replicas_offline(), "telling of a failed disk")

    async def _live(self) -> None:
        # The scope of the store would end the session, which is what a process that is killed does not do.
        await self.store._scope.__aenter__()
        self.world.ensemble.stores[self.store] = None
        try:
            async with TaskScope(f"node {self.broker_id}") as scope:
                self._put_together(scope)
                await self._membership.register()
                self.store.watch_data(paths.broker(self.broker_id))
                self._is_up = True
                await self.controller.start()
                if not self._membership.is_clean:
                    scope.spawn(self._membership.regain_trust(), name="waiting to be trusted")
                scope.spawn(self._check_lag(), name="looking for followers that lag")
                scope.spawn(self._flush(), name="flushing")
                await self._follow()
        finally:
            self.store._scope.cancel()
            await self.store._scope.wait()

    def _put_together(self, scope: TaskScope) -> None:
        directories = [cast("LogDirectory", self.directory)]
        config = cast("BrokerConfig", self._config())
        proposals = IsrProposals(self.broker_id, self._controller_address, self._epoch, dial=self._dial)

        def spawn(task: Coroutine[Any, Any, None], name: str) -> None:
            scope.spawn(task, name=name)

        self._spawn = spawn
        self.replicas = Replicas(
            self.broker_id,
            directories,
            lambda _topic: LogConfig(),
            min_insync_for=lambda _topic: MIN_INSYNC,
            fetchers=Fetchers(self._fetching(), LeaderHere(self._address, self._epoch, self._dial), self.clock, spawn),
            proposals=proposals,
        )
        self._orders = Orders(
            self.cluster, self.replicas, self.clock, learn_topics=_nothing_to_learn, forget_topic=lambda _: None
        )
        ports = cast("Ports", SimpleNamespace(endpoints=tuple))
        self._membership = Membership(
            config, self.registry, self.cluster, ports, self._orders, self.replicas, directories, self.clock
        )
        self.controller = Controller(
            self.registry,
            ControllerConfig(
                broker_id=self.broker_id,
                listener=LISTENER,
                unclean=partial(BrokerConfig.unclean, config),
                imbalance_check_s=3,
            ),
            self.clock,
            scope,
            connect=lambda live: Link(self.world.network, self.broker_id, live),
            inquire=lambda live: Link(self.world.network, self.broker_id, live),
        )
        self._services = cast(
            "Services",
            SimpleNamespace(
                config=config,
                clock=self.clock,
                loop=asyncio.get_running_loop(),
                scope=scope,
                cluster=self.cluster,
                replicas=self.replicas,
                controller=self.controller,
                fetch_sessions=FetchSessions(sessions_max=100),
                dispatch=SimpleNamespace(tallies=Tallies(ApiKey)),
            ),
        )
        scope.spawn(proposals.run(), name="asking for ISRs")

    def _config(self) -> SimpleNamespace:
        return SimpleNamespace(
            broker_id=self.broker_id,
            sources=BrokerSources(),
            rack=None,
            session_timeout_ms=SESSION_MS,
            inter_broker_listener=LISTENER,
            selects_replicas=False,
            fetch_bytes_max=1 << 20,
        )

    def _fetching(self) -> FetchSettings:
        return FetchSettings(
            self.broker_id,
            fetchers=1,
            wait_max_ms=500,
            min_bytes=1,
            max_bytes=ONE_OR_TWO,
            response_max_bytes=1 << 20,
            backoff_ms=1000,
            timeout_ms=3000,
        )

    async def _follow(self) -> None:
        session_id = self.store.session_id
        async for event in self.store.events():
            if isinstance(event, SessionChanged):
                if event.state is SessionState.EXPIRED:
                    self._membership.expired(event.session_id)
                elif event.session_id != session_id:
                    session_id = event.session_id
                    await self._membership.register()
                    await self.controller.session_renewed()
            elif isinstance(event, DataChanged) and event.path == paths.broker(self.broker_id):
                await self._membership.look()
            else:
                await self.controller.on_event(event)

    async def _check_lag(self) -> None:
        while True:
            await asyncio.sleep(LAG_S / 2)
            for partition in list(self.replicas):
                partition.check_lag(now_s=self.clock.monotonic(), lag_s=LAG_S)

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(self.world.rng.random() * 3)
            self.replicas.checkpoint()
            for log in self.directory.logs.values():
                if self.world.rng.random() < 0.3:
                    log.flush()

    # What it knows.

    @property
    def broker_epoch(self) -> int:
        return self._epoch()

    @property
    def controller_is_active(self) -> bool:
        return hasattr(self, "controller") and self.controller.is_active

    @property
    def is_whole(self) -> bool:
        """It may lead whatever it is in sync with."""
        return self._is_up and not self._is_leaving and self.directory.health.failure is None

    def partition(self, where: TopicPartition) -> Partition | None:
        if not hasattr(self, "replicas") or where not in self.replicas:
            return None
        return self.replicas.partition(*where)

    def _epoch(self) -> int:
        return self._orders.broker_epoch if hasattr(self, "_orders") else -1

    def refuses(self, where: TopicPartition) -> ErrorCode | None:
        """Why it neither leads nor follows, if it was told to and does not."""
        return self._orders._refused.get(where)

    def _address(self, broker_id: BrokerId) -> tuple[str, int] | None:
        return ("model", broker_id) if broker_id in self.cluster.image.brokers else None

    def _controller_address(self) -> tuple[str, int] | None:
        controller = self.cluster.image.controller
        return None if controller is None else self._address(controller.broker_id)

    def _dial(self, host: str, port: int, *, client_id: str) -> Peer:
        peer = ModelPeer(host, port, client_id=client_id)
        peer.network, peer.source = self.world.network, self.broker_id
        return peer

    # What it is asked.

    async def serve(self, request: Message, version: int) -> Message:
        """Raises PeerLostError if it is killed before the answer."""
        if not self._is_up:
            raise PeerLostError("it does not listen yet")
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._serving[answer] = None
        try:
            handle = HANDLES.get(type(request))
            if handle is None:
                return await self._until_killed(self._orders.obey(request), answer)
            self._answer(handle, request, version, answer)
            return await answer
        finally:
            self._serving.pop(answer, None)

    async def _until_killed(self, obeying: Coroutine[Any, Any, Message], killed: asyncio.Future[Message]) -> Message:
        task = asyncio.ensure_future(obeying)
        try:
            await asyncio.wait((task, killed), return_when=asyncio.FIRST_COMPLETED)
            return (task if task.done() else killed).result()
        finally:
            task.cancel()
            if killed.done():
                killed.exception()

    def _answer(self, handle: Handle, request: Message, version: int, answer: asyncio.Future[Message]) -> None:
        context = Context(self._services, LISTENER, ("model", 0))
        context.version = version
        response = handle(context, request)
        if isinstance(response, Parked):
            on_abandoned = response.on_abandoned

            def complete(message: Reply) -> None:
                if answer.done():
                    return
                if message is None or isinstance(message, RemoteProtocolError):
                    answer.set_exception(PeerLostError("nobody is left to answer"))
                else:
                    answer.set_result(message)

            def done(_: object) -> None:
                if on_abandoned is not None and not response.is_complete:
                    on_abandoned()

            response.when_complete(complete)
            answer.add_done_callback(done)
        else:
            assert response is not None
            answer.set_result(response)

    async def hand_over(self) -> None:
        """As a broker that is told to stop: others lead before it goes."""
        self._is_leaving = True
        request = ControlledShutdownRequest(broker_id=self.broker_id, broker_epoch=self.broker_epoch)
        for _ in range(3):
            controller = self._controller_address()
            if controller is not None:
                peer = self._dial(*controller, client_id="")
                with suppress(PeerLostError, TimeoutError):
                    response = await peer.call(request, 3, ControlledShutdownResponse, timeout_s=3)
                    if not response.error_code and not response.remaining_partitions:
                        return
            await asyncio.sleep(0.1)


async def _nothing_to_learn(_topics: object) -> None:
    """Topics have no settings of their own."""
