"""Topics made and taken away: what is asked is checked here, written to the registry, and brought up by the controller.

Anybody may write a topic; only the controller brings it up. Whoever asked is answered when its partitions have leaders
here, or when the time is up: the topic is there then too, only not yet ready.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.base.errors import Error
from ottla.base.scope import TaskScope
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.controller.controller import Controller
from ottla.metadata.configs import check_topic_config
from ottla.metadata.errors import InvalidConfigError, InvalidTopicError
from ottla.metadata.ids import BrokerId, TopicId, topic_id_from
from ottla.metadata.names import check_topic_collision, check_topic_name
from ottla.metadata.placement import place_replicas, usable_racks
from ottla.metadata.znodes.topics import ReplicaAssignment, TopicAssignment
from ottla.registry import NodeExistsError, Registry, RegistryError
from ottla.wire import ErrorCode

DEFAULT = -1
ON_DEMAND_TIMEOUT_MS = 10_000


class TopicError(Error):
    """Why a topic is not made, or not taken away."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class NewTopic(NamedTuple):
    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, tuple[BrokerId, ...]] = {}
    configs: Mapping[str, str] = {}


class Made(NamedTuple):
    topic_id: TopicId
    assignment: TopicAssignment


class TopicAdmin:
    def __init__(
        self,
        config: BrokerConfig,
        cluster: ClusterView,
        registry: Registry,
        controller: Controller,
        scope: TaskScope,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._registry = registry
        self._controller = controller
        self._scope = scope
        self._coming: set[str] = set()

    @property
    def is_controller(self) -> bool:
        return self._controller.is_active

    def is_coming(self, name: str) -> bool:
        """Somebody asked for it here, and it is not ready yet."""
        return name in self._coming

    def plan(self, topic: NewTopic) -> TopicAssignment:
        """Where its partitions would be. Raises TopicError if it cannot be made."""
        image = self._cluster.image
        try:
            check_topic_name(topic.name)
        except InvalidTopicError as error:
            raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {error}") from error
        if topic.name in image.topics:
            raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        try:
            check_topic_collision(topic.name, image.topics)
        except InvalidTopicError as error:
            raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from error
        try:
            check_topic_config(topic.configs, self._config.sources)
        except InvalidConfigError as error:
            raise TopicError(ErrorCode.INVALID_CONFIG, str(error)) from error
        placed = self._manual(topic) if topic.assignments else self._placed(topic)
        return TopicAssignment(_new_topic_id(), {number: ReplicaAssignment(where) for number, where in placed.items()})

    def _manual(self, topic: NewTopic) -> Mapping[int, tuple[BrokerId, ...]]:
        if topic.partitions != DEFAULT or topic.replication_factor != DEFAULT:
            raise TopicError(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the "
                "same time.",
            )
        if sorted(topic.assignments) != list(range(len(topic.assignments))):
            raise TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0 without a gap")
        size = len(topic.assignments[0])
        for number, replicas in topic.assignments.items():
            unknown = [broker for broker in replicas if broker not in self._cluster.image.brokers]
            if not replicas or len(set(replicas)) != len(replicas) or unknown or len(replicas) != size:
                raise TopicError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"partition {number}: {list(replicas)} must be as many live brokers as the other partitions have, "
                    "each once",
                )
        return topic.assignments

    def _placed(self, topic: NewTopic) -> Mapping[int, tuple[BrokerId, ...]]:
        partitions = self._config.num_partitions if topic.partitions == DEFAULT else topic.partitions
        factor = (
            self._config.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
        )
        if partitions <= 0:
            raise TopicError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
        racks = self._cluster.image.racks()
        if factor <= 0:
            raise TopicError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
        if factor > len(racks):
            raise TopicError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Replication factor: {factor} larger than available brokers: {len(racks)}.",
            )
        return place_replicas(
            usable_racks(racks),
            partitions=partitions,
            replication_factor=factor,
            start=random.randrange(len(racks)),
            shift=random.randrange(len(racks)),
        )

    def create(
        self, topic: NewTopic, assignment: TopicAssignment, timeout_ms: int, done: Callable[[TopicError | None], None]
    ) -> None:
        """Write a topic that was planned; ``done`` hears when it is ready, or why it is not."""
        self._coming.add(topic.name)
        self._scope.spawn(self._create(topic, assignment, timeout_ms, done), name=f"creation of {topic.name}")

    def create_on_demand(self, names: Sequence[str], done: Callable[[], None]) -> None:
        """Make the topics that somebody mentioned. ``done`` is called soon, whether they are ready or not."""
        left = set(names)

        def one(name: str) -> None:
            left.discard(name)
            if not left:
                done()

        for name in names:
            try:
                topic = NewTopic(name)
                assignment = self.plan(topic)
            except TopicError:
                one(name)
                continue
            self.create(topic, assignment, ON_DEMAND_TIMEOUT_MS, lambda _error, name=name: one(name))  # type: ignore[misc]

    async def _create(
        self, topic: NewTopic, assignment: TopicAssignment, timeout_ms: int, done: Callable[[TopicError | None], None]
    ) -> None:
        error: TopicError | None = None
        try:
            await self._registry.topics.create(topic.name, assignment, topic.configs)
            await self._controller.topics_changed()
            await self._ready(topic.name, len(assignment.partitions), timeout_ms)
        except NodeExistsError:
            error = TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        except TimeoutError:
            error = TopicError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")
        except RegistryError as failure:
            error = TopicError(ErrorCode.UNKNOWN_SERVER_ERROR, str(failure))
        finally:
            self._coming.discard(topic.name)
            done(error)

    async def _ready(self, name: str, partitions: int, timeout_ms: int) -> None:
        """Wait until this broker knows a leader for every partition."""
        async with asyncio.timeout(timeout_ms / 1000):
            while True:
                topic = self._cluster.image.topics.get(name)
                led = 0 if topic is None else sum(state.has_leader for state in topic.states.values())
                if led >= partitions:
                    return
                changed = asyncio.Event()
                self._cluster.when_changed(changed.set)
                await changed.wait()

    def delete(self, name: str, timeout_ms: int, done: Callable[[TopicError | None], None]) -> None:
        self._scope.spawn(self._delete(name, timeout_ms, done), name=f"deletion of {name}")

    async def _delete(self, name: str, timeout_ms: int, done: Callable[[TopicError | None], None]) -> None:
        error: TopicError | None = None
        try:
            await self._registry.topics.request_deletion(name)
            async with asyncio.timeout(timeout_ms / 1000):
                while name in self._cluster.image.topics:
                    changed = asyncio.Event()
                    self._cluster.when_changed(changed.set)
                    await changed.wait()
        except TimeoutError:
            error = TopicError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")
        except RegistryError as failure:
            error = TopicError(ErrorCode.UNKNOWN_SERVER_ERROR, str(failure))
        finally:
            done(error)


def _new_topic_id() -> TopicId:
    while (drawn := topic_id_from(os.urandom(16))) is None:
        pass
    return drawn
