"""One term of a controller: from its election until another one rules, or until it has lost track and begins anew.

What a deed writes is believed when it is written, and told when the deed is done: ``update``, ``create`` and ``tell``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ottla.controller.machine.deletion import Deletion
from ottla.controller.machine.elections import Unclean
from ottla.controller.machine.orders import Batch, Sender
from ottla.controller.machine.situation import Situation, States
from ottla.controller.streams import Streams
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import ControllerEpoch, Image, Topic
from ottla.metadata.znodes.topics import LeaderAndIsr
from ottla.registry import NoNodeError, Registry
from ottla.registry.topics import StateUpdates


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """What a controller acts by."""

    broker_id: BrokerId
    listener: str
    """The listener through which brokers reach each other."""
    unclean: Unclean
    may_delete: bool = True
    auto_rebalance: bool = True
    imbalance_percentage: int = 10
    imbalance_check_s: float = 300.0


class Term:
    """See the module. One deed at a time acts on it."""

    def __init__(
        self,
        registry: Registry,
        config: ControllerConfig,
        epoch: ControllerEpoch,
        image: Image,
        streams: Streams,
    ) -> None:
        self.registry = registry
        self.config = config
        self.epoch = epoch
        self.situation = Situation(image=image, controller_epoch=epoch.epoch)
        self.streams = streams
        self.batch = Batch()
        self.deletions: dict[str, Deletion] = {}
        """Topics on their way out."""
        self.unclean_elections = 0
        """Leaders that were not in sync."""

    @property
    def image(self) -> Image:
        return self.situation.image

    @image.setter
    def image(self, image: Image) -> None:
        self.situation = self.situation.with_image(image)

    @property
    def sender(self) -> Sender:
        return Sender(self.config.broker_id, self.epoch.epoch, self.config.listener)

    # Writing.

    async def create(self, states: States) -> None:
        """Bring partitions up that have no state yet. One whose outcome is not known is looked at and tried again."""
        while states:
            updates = await self.registry.topics.create_states(states, self.epoch)
            await self._learn(updates, is_new=True)
            states = {
                where: states[where]
                for where, error in updates.retry.items()
                if self.image.state(where) is None and not isinstance(error, NoNodeError)
            }

    async def update(self, decide: Callable[[Situation], States]) -> States:
        """Write what is decided; what was changed by somebody else meanwhile is read and decided again."""
        states = decide(self.situation)
        written: States = {}
        while states:
            updates = await self.registry.topics.update_states(states, self.epoch)
            self.unclean_elections += sum(self._is_unclean(where, state) for where, state in updates.done.items())
            await self._learn(updates, is_new=False)
            written |= updates.done
            again = decide(self.situation) if updates.retry else {}
            states = {where: state for where, state in again.items() if where in updates.retry}
        return written

    def _is_unclean(self, where: TopicPartition, new: LeaderAndIsr) -> bool:
        old = self.image.state(where)
        return old is not None and new.has_leader and new.leader not in (old.leader, *old.isr)

    async def set_assignment(self, topic: Topic) -> None:
        """Write where a topic's partitions are. Raises BadVersionError if somebody else did meanwhile."""
        written = await self.registry.topics.set_assignment(topic, self.epoch)
        self.image = self.image.with_topic(written._replace(states=self.image.topics[topic.name].states))

    async def _learn(self, updates: StateUpdates, *, is_new: bool) -> None:
        """Believe what was written; read again what was not. All of it concerns the replicas."""
        self.image = self.image.with_states(updates.done)
        late = list(updates.retry)
        if late:
            found = await self.registry.topics.states(late)
            self.image = self.image.with_states(found).without_states(set(late) - found.keys())
        self.situation = self.situation.settled(updates.done)
        for where in (*updates.done, *late):
            assignment = self.image.assignment(where)
            if assignment is not None:
                self.batch.lead(where, assignment.replicas, is_new=is_new)

    # Telling.

    def lead(self, partitions: Iterable[TopicPartition], brokers: Iterable[BrokerId]) -> None:
        """These brokers learn again what they hold of these partitions."""
        wanted = set(brokers)
        for where in partitions:
            assignment = self.image.assignment(where)
            if assignment is not None:
                self.batch.lead(where, wanted.intersection(assignment.replicas))

    def tell(self) -> None:
        """The deed is done: everybody hears of it."""
        batch, self.batch = self.batch, Batch()
        self.streams.put(batch.orders(self.situation, self.sender))

    def forget(self, name: str) -> None:
        """A topic is gone."""
        self.deletions.pop(name, None)
        self.image = self.image.without_topic(name)
        self.situation = replace(self.situation, deleting=self.situation.deleting - {name})

    def begin_deletion(self, name: str) -> None:
        self.deletions[name] = Deletion(self.image.topics[name])
        self.situation = replace(self.situation, deleting=self.situation.deleting | {name})
