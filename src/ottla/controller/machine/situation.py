"""The cluster as its controller sees it: the image, and what is written nowhere.

A broker that is shutting down is alive and takes orders, but leads nothing new and is in sync with nothing. A replica whose
log directory failed is offline though its broker lives. A topic that is on its way out is still in the image, for its
replicas have to be told.

A broker that comes back from a crash says so. What it is still listed as in sync with, since nobody else was left, it is not
trusted to have whole: it leads such a partition if it was the only one in sync, or if all that were are back and nobody's
log goes further. Once it has left an ISR or leads, the usual rules hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import Image
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment, Replicas

States = dict[TopicPartition, LeaderAndIsr]


class Replica(NamedTuple):
    where: TopicPartition
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """See the module. Never changed once it exists."""

    image: Image = field(default_factory=Image)
    controller_epoch: int = 0
    leaving: frozenset[BrokerId] = frozenset()
    """Brokers that asked to be shut down, until they are gone."""
    failed: Mapping[BrokerId, frozenset[TopicPartition]] = field(default_factory=dict)
    """Replicas on log directories that failed, or whose logs are damaged and not fetched anew yet."""
    deleting: frozenset[str] = frozenset()
    doubtful: frozenset[Replica] = frozenset()
    """In sync by what is written, and back from a crash."""

    def with_image(self, image: Image) -> Situation:
        return replace(self, image=image)

    def with_failed(self, broker_id: BrokerId, replicas: Iterable[TopicPartition]) -> Situation:
        known = self.failed.get(broker_id, frozenset())
        return replace(self, failed={**self.failed, broker_id: known | frozenset(replicas)})

    def with_mended(self, broker_id: BrokerId, replicas: Iterable[TopicPartition]) -> Situation:
        left = self.failed.get(broker_id, frozenset()) - frozenset(replicas)
        return replace(self, failed={**self.failed, broker_id: left})

    def doubting(self, brokers: Iterable[BrokerId]) -> Situation:
        """Those of ``brokers`` that crashed may have lost the ends of what they are in sync with."""
        crashed = {broker for broker in brokers if self.has_crashed(broker)}
        found = {
            Replica(where, broker)
            for where, _, state in self.partitions()
            if state is not None
            for broker in state.isr
            if broker in crashed
        }
        return replace(self, doubtful=self.doubtful | found)

    def has_crashed(self, broker_id: BrokerId) -> bool:
        live = self.image.brokers.get(broker_id)
        return live is not None and live.registration.mark is not None and not live.registration.mark.clean

    def settled(self, states: States) -> Situation:
        """These partitions have a leader or another ISR now: whoever is in sync with them has proved it."""
        led = {where for where, state in states.items() if state.has_leader}
        left = frozenset(
            replica
            for replica in self.doubtful
            if replica.where not in led
            and (replica.where not in states or replica.broker_id in states[replica.where].isr)
        )
        return self if len(left) == len(self.doubtful) else replace(self, doubtful=left)

    def forgetting(self, brokers: Iterable[BrokerId]) -> Situation:
        """Nothing that was known of these holds for their next life."""
        gone = frozenset(brokers)
        failed = {broker: replicas for broker, replicas in self.failed.items() if broker not in gone}
        doubtful = frozenset(replica for replica in self.doubtful if replica.broker_id not in gone)
        return replace(self, leaving=self.leaving - gone, failed=failed, doubtful=doubtful)

    def takes_orders(self, broker_id: BrokerId) -> bool:
        return broker_id in self.image.brokers

    def is_online(self, broker_id: BrokerId, where: TopicPartition) -> bool:
        """Whether the replica there may lead and be in sync."""
        return broker_id not in self.leaving and self.has_disk(broker_id, where)

    def has_disk(self, broker_id: BrokerId, where: TopicPartition) -> bool:
        """The same, for a broker that may be leaving."""
        return broker_id in self.image.brokers and where not in self.failed.get(broker_id, ())

    def online(self, where: TopicPartition, replicas: Iterable[BrokerId]) -> Replicas:
        return tuple(broker for broker in replicas if self.is_online(broker, where))

    def partitions(self) -> Iterator[tuple[TopicPartition, ReplicaAssignment, LeaderAndIsr | None]]:
        """Every partition that is to stay."""
        for name, topic in self.image.topics.items():
            if name not in self.deleting:
                yield from topic.leaders()

    def visible(self) -> Image:
        """The image without what is on its way out, as clients may see it."""
        image = self.image
        for name in self.deleting & image.topics.keys():
            image = image.without_topic(name)
        return image
