"""UpdateMetadata as the next image: what a controller tells its brokers, merged into what clients are told.

    brokers     all live ones, each time; who is not named is gone
    partitions  those that changed; one whose leader is -2 is being deleted, and goes
    topics      one that comes with another id is another topic, and nothing of the earlier one stays. What an update of everything
                does not name was deleted while this broker was away, or was cut off: the first one in a life of this broker
                is one, and so is the first of each controller of ours, which says so

Endpoints carry their security protocol as a number. Epochs of brokers are not told: only a controller needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ottla.metadata.ids import ZERO_ID, BrokerId, TopicId, TopicPartition
from ottla.metadata.image import ControllerEpoch, Image, LiveBroker, Topic
from ottla.metadata.znodes.brokers import BrokerRegistration, Endpoint
from ottla.metadata.znodes.cluster import ControllerRegistration
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment
from ottla.wire.messages.k06_update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

OF_EVERYTHING = 2
"""The type of an update. A controller of Kafka's on ZooKeeper never gives one."""
LEADER_DURING_DELETE = -2
EPOCH_NOT_TOLD = -1
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

Offline = dict[TopicPartition, tuple[BrokerId, ...]]


class Update(NamedTuple):
    """What is known now, and which replicas of the partitions named have no working disk or broker."""

    image: Image
    offline: Offline
    deleted: list[TopicPartition]


def begun_anew(image: Image, request: UpdateMetadataRequest) -> Image:
    """What is left of what a broker knew before, by an update of everything."""
    named = {name for name, _, _ in _topics(request)}
    for name in [name for name in image.topics if name not in named]:
        image = image.without_topic(name)
    return image


def updated(image: Image, request: UpdateMetadataRequest, *, now_ms: int) -> Update:
    topics: dict[str, Topic] = {}
    offline: Offline = {}
    deleted: list[TopicPartition] = []
    for name, topic_id, states in _topics(request):
        topic = _begun(image.topics.get(name), name, topic_id)
        partitions, leaders = dict(topic.partitions), dict(topic.states)
        for state in states:
            number = state.partition_index
            where = TopicPartition(name, number)
            if state.leader == LEADER_DURING_DELETE:
                partitions.pop(number, None)
                leaders.pop(number, None)
                deleted.append(where)
                continue
            partitions[number] = ReplicaAssignment(_brokers(state.replicas))
            leaders[number] = LeaderAndIsr(
                BrokerId(state.leader),
                state.leader_epoch,
                _brokers(state.isr),
                state.controller_epoch,
                state.zk_version,
            )
            offline[where] = _brokers(state.offline_replicas)
        topics[name] = topic._replace(partitions=partitions, states=leaders)
    image = image.with_topics({name: topic for name, topic in topics.items() if topic.partitions})
    for name in [name for name, topic in topics.items() if not topic.partitions]:
        image = image.without_topic(name)
    brokers = {
        BrokerId(broker.id): LiveBroker(_registration(broker), EPOCH_NOT_TOLD) for broker in request.live_brokers
    }
    controller = ControllerRegistration(BrokerId(request.controller_id), now_ms) if request.controller_id >= 0 else None
    epoch = ControllerEpoch(request.controller_epoch, 0)
    return Update(replace(image.with_controller(controller, epoch), brokers=brokers), offline, deleted)


def _topics(
    request: UpdateMetadataRequest,
) -> Iterator[tuple[str, TopicId | None, Iterable[UpdateMetadataPartitionState]]]:
    """Topics with their partitions, in the form of versions 5 and up or of those before."""
    for topic in request.topic_states:
        topic_id = None if topic.topic_id == ZERO_ID else TopicId(topic.topic_id)
        yield topic.topic_name, topic_id, topic.partition_states
    ungrouped: dict[str, list[UpdateMetadataPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        ungrouped.setdefault(state.topic_name, []).append(state)
    for name, states in ungrouped.items():
        yield name, None, states


def _begun(known: Topic | None, name: str, topic_id: TopicId | None) -> Topic:
    if known is None or (topic_id is not None and known.topic_id not in (None, topic_id)):
        return Topic(name, topic_id, {})
    return known if topic_id is None else known._replace(topic_id=topic_id)


def _registration(broker: UpdateMetadataBroker) -> BrokerRegistration:
    endpoints = tuple(map(_endpoint, broker.endpoints))
    if not endpoints:  # version 0
        endpoints = (Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port, "PLAINTEXT"),)
    return BrokerRegistration(BrokerId(broker.id), endpoints, rack=broker.rack or None)


def _endpoint(endpoint: UpdateMetadataEndpoint) -> Endpoint:
    number = endpoint.security_protocol
    protocol = _PROTOCOLS[number] if 0 <= number < len(_PROTOCOLS) else str(number)
    return Endpoint(endpoint.listener or protocol, endpoint.host, endpoint.port, protocol)


def _brokers(numbers: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))
