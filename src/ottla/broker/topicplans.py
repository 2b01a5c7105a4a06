"""What becomes of a wish for a topic, or for more partitions of one: an assignment, or the reason why not. Pure but for the draw.

The checks and their order are Kafka's, since the first that fails names the error. Where Kafka 3.9 on ZooKeeper would make a
topic that nobody can use (a partition assigned twice, no replicas, brokers that do not exist), the answer is that of
Kafka 4: INVALID_REPLICA_ASSIGNMENT.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.base.errors import Error
from ottla.broker.config import BrokerConfig
from ottla.controller.acts.topics import new_topic_id
from ottla.metadata.configs import broker_value, check_topic_config
from ottla.metadata.errors import InvalidConfigError, InvalidTopicError
from ottla.metadata.ids import BrokerId
from ottla.metadata.image import Image, Topic
from ottla.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE, check_topic_collision, check_topic_name
from ottla.metadata.placement import place_replicas, usable_racks
from ottla.metadata.znodes.topics import ReplicaAssignment, TopicAssignment
from ottla.wire import ErrorCode

DEFAULT: Final = -1
PARTITIONS_MAX: Final = 50_000
"""About as many as fit into the znode of a topic. More would cost memory before the ensemble refused them."""

Assignments = Mapping[int, tuple[BrokerId, ...]]


class TopicError(Error):
    """Why a topic is not made, or not changed, or not taken away."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class NewTopic(NamedTuple):
    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, tuple[BrokerId, ...]] = {}
    configs: Mapping[str, str] = {}
    nulls: Sequence[str] = ()
    """Settings that were given without a value."""


def on_demand(name: str, config: BrokerConfig) -> NewTopic:
    """The topic that is made when somebody mentions it. Those that brokers keep their state in have settings of their own."""

    def setting(key: str) -> int:
        value = broker_value(key, config.sources)
        assert isinstance(value, int), key
        return value

    if name == CONSUMER_OFFSETS:
        return NewTopic(
            name,
            setting("offsets.topic.num.partitions"),
            setting("offsets.topic.replication.factor"),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(setting("offsets.topic.segment.bytes")),
            },
        )
    if name == TRANSACTION_STATE:
        return NewTopic(
            name,
            setting("transaction.state.log.num.partitions"),
            setting("transaction.state.log.replication.factor"),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(setting("transaction.state.log.min.isr")),
                "segment.bytes": str(setting("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            },
        )
    return NewTopic(name)


def plan_topic(topic: NewTopic, image: Image, config: BrokerConfig, coming: Collection[str] = ()) -> TopicAssignment:
    """Where its partitions would be. Raises TopicError if it cannot be made. ``coming`` are topics that soon exist too."""
    if topic.name in image.topics:
        raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    if topic.nulls:
        message = f"Null value not supported for topic configs: {','.join(topic.nulls)}"
        raise TopicError(ErrorCode.INVALID_CONFIG, message)
    if topic.assignments and (topic.partitions != DEFAULT or topic.replication_factor != DEFAULT):
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the "
            "same time.",
        )
    placed = topic.assignments or _placed(topic, image, config)
    try:
        check_topic_name(topic.name)
    except InvalidTopicError as error:
        raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {error}") from error
    try:
        check_topic_collision(topic.name, [*image.topics, *coming])
    except InvalidTopicError as error:
        raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from error
    _check_manual(placed, image)
    try:
        check_topic_config(topic.configs, config.sources)
    except InvalidConfigError as error:
        raise TopicError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return TopicAssignment(new_topic_id(), {number: ReplicaAssignment(where) for number, where in placed.items()})


def plan_partitions(
    topic: Topic, count: int, assignments: Sequence[tuple[BrokerId, ...]] | None, image: Image
) -> Topic:
    """The topic with ``count`` partitions, those that it has left where they are."""
    if any(assignment.is_being_reassigned for assignment in topic.partitions.values()):
        message = f"A partition reassignment is in progress for the topic '{topic.name}'."
        raise TopicError(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)
    now = len(topic.partitions)
    if count < now:
        message = f"Topic currently has {now} partitions, which is higher than the requested {count}."
        raise TopicError(ErrorCode.INVALID_PARTITIONS, message)
    if count == now:
        raise TopicError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partitions.")
    _check_count(count)
    replicas = topic.partitions[0].replicas
    if assignments is not None:
        _check_added(assignments, count - now, len(replicas), image)
        added: Assignments = dict(enumerate(assignments, now))
    else:
        racks = usable_racks(image.racks())
        _check_factor(len(replicas), len(racks))
        start = next((at for at, broker in enumerate(racks) if broker >= replicas[0]), 0)
        added = place_replicas(
            racks,
            partitions=count - now,
            replication_factor=len(replicas),
            start=start,
            shift=start,
            first_partition=now,
        )
    new = {number: ReplicaAssignment(where) for number, where in added.items()}
    return topic._replace(partitions={**topic.partitions, **new})


def _placed(topic: NewTopic, image: Image, config: BrokerConfig) -> Assignments:
    partitions = config.num_partitions if topic.partitions == DEFAULT else topic.partitions
    factor = config.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    _check_count(partitions)
    racks = image.racks()
    _check_factor(factor, len(racks))
    return place_replicas(
        usable_racks(racks),
        partitions=partitions,
        replication_factor=factor,
        start=random.randrange(len(racks)),
        shift=random.randrange(len(racks)),
    )


def _check_count(partitions: int) -> None:
    if partitions <= 0:
        raise TopicError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if partitions > PARTITIONS_MAX:
        message = f"Number of partitions: {partitions}. A topic may have up to {PARTITIONS_MAX}."
        raise TopicError(ErrorCode.INVALID_PARTITIONS, message)


def _check_factor(factor: int, brokers: int) -> None:
    if factor <= 0:
        raise TopicError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if factor > brokers:
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {factor} larger than available brokers: {brokers}.",
        )


def _check_manual(assignments: Assignments, image: Image) -> None:
    if len({len(replicas) for replicas in assignments.values()}) != 1:
        raise _misassigned("All partitions should have the same number of replicas")
    for number, replicas in assignments.items():
        _check_replicas(number, replicas, image)
    if sorted(assignments) != list(range(len(assignments))):
        raise _misassigned("partitions should be a consecutive 0-based integer sequence")


def _check_added(assignments: Sequence[tuple[BrokerId, ...]], more: int, factor: int, image: Image) -> None:
    unknown = sorted({broker for replicas in assignments for broker in replicas} - image.brokers.keys())
    if unknown:
        raise _misassigned(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    if len(assignments) != more:
        raise _misassigned(
            f"Increasing the number of partitions by {more} but {len(assignments)} assignments provided."
        )
    for number, replicas in enumerate(assignments):
        _check_replicas(number, replicas, image)
        if len(replicas) != factor:
            raise _misassigned(
                f"Inconsistent replication factor between partitions: partition 0 has {factor}, the new ones "
                f"{sorted({len(each) for each in assignments})}"
            )


def _check_replicas(number: int, replicas: tuple[BrokerId, ...], image: Image) -> None:
    if not replicas:
        raise _misassigned(f"Cannot have replication factor of 0 for partition id {number}.")
    if len(set(replicas)) != len(replicas):
        raise _misassigned(f"Duplicate brokers in the replicas of partition {number}: {list(replicas)}")
    unknown = [broker for broker in replicas if broker not in image.brokers]
    if unknown:
        raise _misassigned(f"Unknown broker(s) in the replicas of partition {number}: {unknown}")


def _misassigned(message: str) -> TopicError:
    return TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
