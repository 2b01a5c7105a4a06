"""A controller over a tree in memory, with brokers that take every order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ottla.base.clock import SystemClock
from ottla.base.scope import TaskScope
from ottla.controller.controller import Controller
from ottla.controller.streams import InProcess, Link
from ottla.controller.term import ControllerConfig
from ottla.metadata import BrokerId, BrokerRegistration, Image, LiveBroker, ReplicaAssignment, TopicId
from ottla.metadata.ids import NO_LEADER, TopicPartition
from ottla.metadata.znodes.topics import TopicAssignment
from ottla.peers import PeerLostError
from ottla.registry import Registry
from ottla.registry.store import Operation, Result, Znode
from ottla.wire import ErrorCode, Message
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.k04_leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from ottla.wire.messages.k05_stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from ottla.wire.messages.k06_update_metadata import UpdateMetadataResponse
from tests.peers.memorystore import MemoryEnsemble, MemoryStore

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
ID = TopicId(b"0123456789abcdef")
TOPIC = TopicAssignment(ID, {0: ReplicaAssignment((ONE, TWO))})
T0 = TopicPartition("t", 0)
ALONE = TopicAssignment(ID, {0: ReplicaAssignment((ONE,))})


class HookedStore(MemoryStore):
    """Tells of every path before it is read, and of every write before it is made: something else may happen then."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        super().__init__(ensemble)
        self.before_read: Callable[[str], None] = lambda _path: None
        self.before_write: Callable[[Sequence[Operation]], None] = lambda _operations: None

    async def get_many(self, paths: Sequence[str]) -> list[Znode | None]:
        for path in paths:
            self.before_read(path)
        return await super().get_many(paths)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        self.before_write(operations)
        return await super().multi(operations)


class Brokers:
    """Take every order, and forget it; asked for the end of a log, they give one that was said beforehand."""

    def __init__(self) -> None:
        self.orders: list[Message] = []
        self.obedient = {ONE}
        self.without_disk: set[BrokerId] = set()
        """Those that can hold nothing, and say so when they are asked."""
        self.damaged: set[BrokerId] = set()
        """Those that lead nothing, since their logs are damaged, and follow whoever does."""
        self.log_ends: dict[BrokerId, int] = {}
        self.asked: list[BrokerId] = []
        self.tells = asyncio.Event()
        """Whether whoever is asked may answer yet."""
        self.tells.set()
        self.hangs_up = False
        """Once, instead of telling."""

    def inquire(self, live: LiveBroker) -> Link:
        return _Inquiry(self, live.registration.broker_id)

    def connect(self, live: LiveBroker) -> InProcess:
        async def order(request: Message) -> Message:
            if live.registration.broker_id not in self.obedient:
                await asyncio.Event().wait()
            self.orders.append(request)
            if isinstance(request, StopReplicaRequest):
                return StopReplicaResponse(
                    partition_errors=[
                        StopReplicaPartitionError(topic_name=topic.topic_name, partition_index=each.partition_index)
                        for topic in request.topic_states
                        for each in topic.partition_states
                    ]
                )
            if isinstance(request, LeaderAndIsrRequest):
                return _answer(request, lambda leader: self._code(live.registration.broker_id, leader))
            return UpdateMetadataResponse()

        return InProcess(order)

    def _code(self, broker_id: BrokerId, leader: int) -> ErrorCode:
        cannot = broker_id in self.without_disk or (broker_id in self.damaged and leader in (NO_LEADER, broker_id))
        return ErrorCode.KAFKA_STORAGE_ERROR if cannot else ErrorCode.NONE


def _answer(request: LeaderAndIsrRequest, code: Callable[[int], ErrorCode]) -> LeaderAndIsrResponse:
    """``code`` is what is said of a partition with that leader."""
    return LeaderAndIsrResponse(
        topics=[
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(partition_index=each.partition_index, error_code=code(each.leader))
                    for each in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
    )


class _Inquiry:
    def __init__(self, brokers: Brokers, broker_id: BrokerId) -> None:
        self._brokers = brokers
        self._broker_id = broker_id

    async def call(self, request: Message, version: int) -> Message:
        assert isinstance(request, ListOffsetsRequest), (request, version)
        end = self._brokers.log_ends[self._broker_id]
        self._brokers.asked.append(self._broker_id)
        await self._brokers.tells.wait()
        if self._brokers.hangs_up:
            self._brokers.hangs_up = False
            raise PeerLostError("it hung up")
        found = ListOffsetsPartitionResponse(partition_index=0, leader_epoch=0, offset=end)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    def close(self) -> None:
        pass


class Stage:
    def __init__(self, ensemble: MemoryEnsemble, store: HookedStore, scope: TaskScope, *, may_delete: bool) -> None:
        self.ensemble = ensemble
        self.store = store
        self.registry = registry = Registry(store)
        self.brokers = Brokers()
        config = ControllerConfig(
            broker_id=ONE, listener="PLAINTEXT", unclean=lambda _: False, may_delete=may_delete, auto_rebalance=False
        )
        self.controller = Controller(
            registry, config, SystemClock(), scope, connect=self.brokers.connect, inquire=self.brokers.inquire
        )

    async def until(self, ready: Callable[[], bool]) -> None:
        while not ready():  # noqa: ASYNC110  # each turn is another step of the story
            await asyncio.sleep(0)

    @property
    def image(self) -> Image:
        assert self.controller.image is not None
        return self.controller.image

    def leader(self, partition: int = 0) -> int:
        return self.image.topics["t"].states[partition].leader


def play(story: Callable[[Stage], Awaitable[None]], *, may_delete: bool = True, is_elected: bool = True) -> None:
    async def run() -> None:
        ensemble = MemoryEnsemble()
        async with asyncio.timeout(60), HookedStore(ensemble) as store, TaskScope() as scope:
            stage = Stage(ensemble, store, scope, may_delete=may_delete)
            await stage.registry.cluster.make_paths()
            await stage.registry.brokers.register(BrokerRegistration(ONE, ()))
            if is_elected:
                await stage.controller.start()
            await story(stage)

    asyncio.run(run())
