"""What a controller orders, wherever it is: LeaderAndIsr, StopReplica and UpdateMetadata, one at a time and in order.

Two epochs keep out what comes too late. The controller's tells a deposed controller from the one that rules, and the
broker's tells what was meant for an earlier life of this process (KIP-380). What passes is done partition by partition, and
each is answered for itself: a partition may know of a newer leader than the controller that asks.

An order for many partitions makes files: another thread does that, for all of them together, before the first is led or
followed, and what is deleted is on disk before that is told. What is left yields to the clients from time to time. Topics that are new here
have their settings read first: a log is made with them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from ottla.base.clock import Clock
from ottla.base.errors import Error
from ottla.base.pace import Pace
from ottla.broker.cluster import ClusterView
from ottla.broker.errors import error_code
from ottla.broker.updates import OF_EVERYTHING, begun_anew, updated
from ottla.log import StorageError
from ottla.metadata.ids import ZERO_ID, BrokerId, TopicId, TopicPartition
from ottla.metadata.znodes.topics import LeaderAndIsr
from ottla.replica.errors import StaleOrderError
from ottla.replica.replicas import Order, Replicas
from ottla.wire import ErrorCode, Message
from ottla.wire.messages.k04_leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from ottla.wire.messages.k05_stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from ottla.wire.messages.k06_update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

log = logging.getLogger(__name__)

_BY_TOPIC_ID_FROM = 5
_NEWEST = 7
_UNKNOWN_EPOCH = -1
_MADE_TOGETHER = 250
"""Logs: enough for the disk to be waited for seldom, and few enough to be noted in a moment."""

LearnTopics = Callable[[Iterable[str]], Awaitable[None]]


class Orders:
    """See the module.

    ``learn_topics`` reads the settings of topics that are new here, ``forget_topic`` hears of one that is no more.
    """

    def __init__(
        self,
        cluster: ClusterView,
        replicas: Replicas,
        clock: Clock,
        *,
        learn_topics: LearnTopics,
        forget_topic: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._clock = clock
        self._learn_topics = learn_topics
        self._forget_topic = forget_topic
        self._obeying = asyncio.Lock()
        self.controller_epoch = 0
        """Of the newest controller heard of."""
        self.broker_epoch = _UNKNOWN_EPOCH
        """Of this broker, since it last registered."""
        self._over = _UNKNOWN_EPOCH
        """The last life of this broker that is over."""
        self._told_in = _UNKNOWN_EPOCH
        """The last life of this broker in which it was told of the cluster."""
        self._refused: dict[TopicPartition, ErrorCode] = {}
        """What is neither led nor followed here, and why."""

    def resign(self) -> None:
        """This broker is not registered any more: it leads nothing, and what was ordered until now is not obeyed any more."""
        self._over = self.broker_epoch
        self._replicas.resign_all()

    async def obey(self, request: Message) -> Message:
        """For a controller in this process, which has no need of an encoding."""
        if isinstance(request, LeaderAndIsrRequest):
            return await self.leader_and_isr(request)
        if isinstance(request, StopReplicaRequest):
            return await self.stop_replica(request)
        assert isinstance(request, UpdateMetadataRequest), request
        return await self.update_metadata(request)

    async def leader_and_isr(self, request: LeaderAndIsrRequest, *, version: int = _NEWEST) -> LeaderAndIsrResponse:
        async with self._obeying:
            orders = list(_orders(request))
            error = self._refusal(request.broker_epoch, request.controller_epoch)
            if error is not None:
                return _answer(error, [(order, error) for order in orders], version=version)
            over = self._over
            new = [order for order in orders if order.where not in self._replicas]
            await self._learn_topics({order.where.topic for order in new})
            await self._make_logs(new)
            results = []
            pace = Pace()
            for order in orders:
                is_late = self._over != over  # the life that was told so has ended while files were made
                results.append((order, ErrorCode.STALE_BROKER_EPOCH if is_late else self._lead_or_follow(order)))
                await pace.keep()
            self._settle()
            return _answer(ErrorCode.NONE, results, version=version)

    async def _make_logs(self, orders: Sequence[Order]) -> None:
        loop = asyncio.get_running_loop()
        for start in range(0, len(orders), _MADE_TOGETHER):
            some = orders[start : start + _MADE_TOGETHER]
            for directory, creation in self._replicas.begin_creation(some, now_ms=self._clock.wall_ms()):
                with suppress(StorageError):  # it is offline then, and has said why
                    await loop.run_in_executor(None, creation.make)
                    directory.finish_creation(creation)

    def _lead_or_follow(self, order: Order) -> ErrorCode:
        try:
            self._replicas.obey(order, now_ms=self._clock.wall_ms(), now_s=self._clock.monotonic())
        except Error as error:
            return self._refuse(order.where, error)
        self._refused.pop(order.where, None)
        self._cluster.expect(order.where, order.state)
        return ErrorCode.NONE

    def _refuse(self, where: TopicPartition, error: Error) -> ErrorCode:
        """Its controller may order the same for ever; it is told of once."""
        code = error_code(error)
        if isinstance(error, StaleOrderError):
            return code  # it came twice or late, and the partition is served as it was
        if self._refused.get(where) != code:
            log.warning("%s is not served here: %s", where, error)
        self._refused[where] = code
        return code

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        async with self._obeying:
            stops = list(_stops(request))
            error = self._refusal(request.broker_epoch, request.controller_epoch)
            results = []
            pace = Pace()
            for where, state in stops:
                self._refused.pop(where, None)
                results.append((where, self._stop(where, state) if error is None else error))
                await pace.keep()
            await self._settle_deletions()
            return StopReplicaResponse(
                error_code=error or ErrorCode.NONE,
                partition_errors=[
                    StopReplicaPartitionError(topic_name=where.topic, partition_index=where.partition, error_code=code)
                    for where, code in results
                ],
            )

    async def _settle_deletions(self) -> None:
        loop = asyncio.get_running_loop()
        for directory in self._replicas.directories:
            if directory.has_deleted:
                with suppress(StorageError):
                    await loop.run_in_executor(None, directory.sync_deletions)
                    directory.settle_deletions()

    def _stop(self, where: TopicPartition, state: StopReplicaPartitionState) -> ErrorCode:
        try:
            self._replicas.stop(
                where,
                leader_epoch=state.leader_epoch,
                delete=state.delete_partition,
                now_ms=self._clock.wall_ms(),
            )
        except Error as error:
            return error_code(error)
        return ErrorCode.NONE

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        async with self._obeying:
            error = self._refusal(request.broker_epoch, request.controller_epoch)
            if error is None:
                before = known = self._cluster.image
                if request.type == OF_EVERYTHING or request.broker_epoch > self._told_in:
                    known = begun_anew(before, request)
                    self._told_in = max(self._told_in, request.broker_epoch)
                self._cluster.apply(updated(known, request, now_ms=self._clock.wall_ms()))
                for name in before.topics.keys() - self._cluster.image.topics.keys():
                    self._forget_topic(name)
                now = self._cluster.image.brokers.keys()
                self._replicas.brokers_gone(before.brokers.keys() - now)
                self._replicas.brokers_back(now - before.brokers.keys())
                self._settle()
            return UpdateMetadataResponse(error_code=error or ErrorCode.NONE)

    def _settle(self) -> None:
        """After a start, clients are let in once everything is led here that can be."""
        if self._cluster.is_settled or not self._cluster.image.brokers:
            return
        own, told = self._replicas.broker_id, self._replicas.was_told_of
        for name, topic in self._cluster.image.topics.items():
            for number, state in topic.states.items():
                # What nobody leads the controller is about to give to the only one in sync, now that it is there.
                is_coming = not state.has_leader and state.isr == (own,)
                where = TopicPartition(name, number)
                if is_coming or (state.leader == own and not told(where) and where not in self._refused):
                    return
        self._cluster.settle()

    def _refusal(self, broker_epoch: int, controller_epoch: int) -> ErrorCode | None:
        if broker_epoch != _UNKNOWN_EPOCH and (broker_epoch < self.broker_epoch or broker_epoch <= self._over):
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return None


def _orders(request: LeaderAndIsrRequest) -> Iterator[Order]:
    """In the form of versions 2 and up, or of those before."""
    for topic in request.topic_states:
        topic_id = None if topic.topic_id == ZERO_ID else TopicId(topic.topic_id)
        for state in topic.partition_states:
            yield _order(topic.topic_name, topic_id, state)
    for state in request.ungrouped_partition_states:
        yield _order(state.topic_name, None, state)


def _order(topic: str, topic_id: TopicId | None, state: LeaderAndIsrPartitionState) -> Order:
    return Order(
        TopicPartition(topic, state.partition_index),
        topic_id,
        LeaderAndIsr(
            BrokerId(state.leader),
            state.leader_epoch,
            tuple(map(BrokerId, state.isr)),
            state.controller_epoch,
            state.partition_epoch,
            recovering=bool(state.leader_recovery_state),
        ),
        tuple(map(BrokerId, state.replicas)),
        state.is_new,
    )


def _stops(request: StopReplicaRequest) -> Iterator[tuple[TopicPartition, StopReplicaPartitionState]]:
    """In the form of versions 3 and up, 1 and 2, or 0."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), state
    named = [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    named += [(each.topic_name, each.partition_index) for each in request.ungrouped_partitions]
    for name, index in named:
        yield (
            TopicPartition(name, index),
            StopReplicaPartitionState(partition_index=index, delete_partition=request.delete_partitions),
        )


def _answer(error: ErrorCode, results: list[tuple[Order, ErrorCode]], *, version: int) -> LeaderAndIsrResponse:
    if version < _BY_TOPIC_ID_FROM:
        named = [_result(order, code, order.where.topic) for order, code in results]
        return LeaderAndIsrResponse(error_code=error, partition_errors=named)
    topics: dict[bytes, LeaderAndIsrTopicError] = {}
    for order, code in results:
        topic_id = order.topic_id or ZERO_ID
        topic = topics.setdefault(topic_id, LeaderAndIsrTopicError(topic_id=topic_id))
        topic.partition_errors.append(_result(order, code))
    return LeaderAndIsrResponse(error_code=error, topics=list(topics.values()))


def _result(order: Order, code: ErrorCode, topic: str = "") -> LeaderAndIsrPartitionError:
    return LeaderAndIsrPartitionError(topic_name=topic, partition_index=order.where.partition, error_code=code)
