"""The cluster as one immutable value.

The controller decides on an image and brokers answer Metadata from one; a change makes a new image and leaves the old
one to whoever still reads it. A derived copy shares everything that did not change: it costs one shallow copy of the
mappings that did, so many changes of one kind are given at once (``with_states`` takes a mapping).

An image holds the versions that conditional writes need: the czxid of a registration is the broker's epoch, the version
of a topic's znode guards its assignment, that of a partition's state is its partition epoch, and that of
``/controller_epoch`` guards everything a controller writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.metadata.ids import BrokerId, TopicId, TopicPartition
from ottla.metadata.znodes.brokers import BrokerRegistration, Endpoint
from ottla.metadata.znodes.cluster import ControllerRegistration, FinalizedFeatures
from ottla.metadata.znodes.configs import ConfigEntity, broker_entity, topic_entity
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment, TopicAssignment

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class LiveBroker(NamedTuple):
    """A registered broker; ``epoch`` grows with every registration, so it tells one life from the next."""

    registration: BrokerRegistration
    epoch: int


class ControllerEpoch(NamedTuple):
    """The epoch, and the version of the znode it is in, which is what a guarded write checks."""

    epoch: int
    zk_version: int


class Topic(NamedTuple):
    """A topic with what is known of its partitions; one without a state has not been brought up yet."""

    name: str
    topic_id: TopicId | None
    partitions: Mapping[int, ReplicaAssignment]
    states: Mapping[int, LeaderAndIsr] = {}
    zk_version: int = 0

    @property
    def assignment(self) -> TopicAssignment:
        return TopicAssignment(self.topic_id, self.partitions)

    @property
    def is_up(self) -> bool:
        """All of its partitions have been brought up once."""
        return len(self.states) >= len(self.partitions)

    def leaders(self) -> Iterator[tuple[TopicPartition, ReplicaAssignment, LeaderAndIsr | None]]:
        """Every partition with its replicas and its state, in order."""
        for number in sorted(self.partitions):
            yield TopicPartition(self.name, number), self.partitions[number], self.states.get(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """See the module. Mappings inside are never changed once an image exists."""

    cluster_id: str | None = None
    controller: ControllerRegistration | None = None
    controller_epoch: ControllerEpoch | None = None
    features: FinalizedFeatures | None = None
    brokers: Mapping[BrokerId, LiveBroker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topic_names: Mapping[TopicId, str] = field(default_factory=dict)
    configs: Mapping[ConfigEntity, Mapping[str, str]] = field(default_factory=dict)
    deletions: frozenset[str] = frozenset()

    def with_controller(self, controller: ControllerRegistration | None, epoch: ControllerEpoch | None) -> Image:
        return replace(self, controller=controller, controller_epoch=epoch)

    def with_brokers(self, brokers: Mapping[BrokerId, LiveBroker]) -> Image:
        """All live brokers at once: they are few, and are read together."""
        return replace(self, brokers=dict(brokers))

    def with_broker(self, broker: LiveBroker) -> Image:
        return replace(self, brokers={**self.brokers, broker.registration.broker_id: broker})

    def without_broker(self, broker_id: BrokerId) -> Image:
        return replace(self, brokers={known: live for known, live in self.brokers.items() if known != broker_id})

    def with_topic(self, topic: Topic) -> Image:
        return self.with_topics({topic.name: topic})

    def with_topics(self, topics: Mapping[str, Topic]) -> Image:
        """Add topics, or put them in the place of those with the same name."""
        names = dict(self.topic_names)
        for name, topic in topics.items():
            known = self.topics.get(name)
            if known is not None and known.topic_id is not None and known.topic_id != topic.topic_id:
                names.pop(known.topic_id, None)
            if topic.topic_id is not None:
                names[topic.topic_id] = name
        return replace(self, topics={**self.topics, **topics}, topic_names=names)

    def without_topic(self, name: str) -> Image:
        topics = {known: topic for known, topic in self.topics.items() if known != name}
        names = {topic_id: known for topic_id, known in self.topic_names.items() if known != name}
        configs = {entity: config for entity, config in self.configs.items() if entity != topic_entity(name)}
        return replace(
            self, topics=topics, topic_names=names, configs=configs, deletions=self.deletions - frozenset({name})
        )

    def with_states(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> Image:
        """New leaders and ISRs. A partition of an unknown topic is left out: the topic was deleted meanwhile."""
        by_topic: dict[str, dict[int, LeaderAndIsr]] = {}
        for where, state in states.items():
            if where.topic in self.topics:
                by_topic.setdefault(where.topic, dict(self.topics[where.topic].states))[where.partition] = state
        changed = {name: self.topics[name]._replace(states=new) for name, new in by_topic.items()}
        return replace(self, topics={**self.topics, **changed})

    def without_states(self, partitions: Iterable[TopicPartition]) -> Image:
        """These partitions turned out to have none."""
        image = self
        for where in partitions:
            topic = image.topics.get(where.topic)
            if topic is not None and where.partition in topic.states:
                states = {number: state for number, state in topic.states.items() if number != where.partition}
                image = image.with_topic(topic._replace(states=states))
        return image

    def with_config(self, entity: ConfigEntity, config: Mapping[str, str]) -> Image:
        """Settings of one entity; empty ones are the same as none."""
        return self.with_configs({entity: config})

    def with_configs(self, changed: Mapping[ConfigEntity, Mapping[str, str]]) -> Image:
        """Settings of some entities, likewise."""
        if all(self.configs.get(entity, _NOTHING) == config for entity, config in changed.items()):
            return self
        configs = {**self.configs, **changed}
        return replace(self, configs={entity: config for entity, config in configs.items() if config})

    def with_deletions(self, names: frozenset[str]) -> Image:
        """Topics that somebody asked to delete and that are still there."""
        return replace(self, deletions=names)

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def assignment(self, where: TopicPartition) -> ReplicaAssignment | None:
        topic = self.topics.get(where.topic)
        return None if topic is None else topic.partitions.get(where.partition)

    def state(self, where: TopicPartition) -> LeaderAndIsr | None:
        topic = self.topics.get(where.topic)
        return None if topic is None else topic.states.get(where.partition)

    def is_alive(self, broker_id: BrokerId) -> bool:
        return broker_id in self.brokers

    def broker_epoch(self, broker_id: BrokerId) -> int | None:
        live = self.brokers.get(broker_id)
        return None if live is None else live.epoch

    def endpoint(self, broker_id: BrokerId, listener: str) -> Endpoint | None:
        """Where a live broker is reached through ``listener``."""
        live = self.brokers.get(broker_id)
        return None if live is None else live.registration.endpoint(listener)

    def racks(self) -> dict[BrokerId, str | None]:
        """The live brokers in order, each with its rack, as replicas are placed on them."""
        return {broker_id: self.brokers[broker_id].registration.rack for broker_id in sorted(self.brokers)}

    def offline_replicas(self, where: TopicPartition) -> tuple[BrokerId, ...]:
        """The replicas whose brokers are gone."""
        assignment = self.assignment(where)
        replicas = () if assignment is None else assignment.replicas
        return tuple(broker for broker in replicas if broker not in self.brokers)

    def partitions(self) -> Iterator[TopicPartition]:
        for name, topic in self.topics.items():
            for number in topic.partitions:
                yield TopicPartition(name, number)

    def partitions_on(self, broker_id: BrokerId) -> Iterator[TopicPartition]:
        """Every partition that has a replica on this broker."""
        for name, topic in self.topics.items():
            for number, assignment in topic.partitions.items():
                if broker_id in assignment.replicas:
                    yield TopicPartition(name, number)

    def partitions_led_by(self, broker_id: BrokerId) -> Iterator[TopicPartition]:
        for name, topic in self.topics.items():
            for number, state in topic.states.items():
                if state.leader == broker_id:
                    yield TopicPartition(name, number)

    def config(self, entity: ConfigEntity) -> Mapping[str, str]:
        return self.configs.get(entity, _NOTHING)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """What was set for this topic alone."""
        return self.config(topic_entity(name))

    def broker_config(self, broker_id: BrokerId | None) -> Mapping[str, str]:
        """What was set while running for one broker, or with None for all."""
        return self.config(broker_entity(broker_id))
