"""What brokers are told: LeaderAndIsr, UpdateMetadata and StopReplica, in that order, in one stream a broker.

While the controller acts, a ``Batch`` notes which partitions concern whom. When the deed is done and written, it is made
into ``Orders``, one for each broker, out of the situation as it is then. Orders that a broker has not been sent yet are
merged with what follows: a newer state of a partition takes the place of an older one. Only what would change its meaning
stays apart: the state of a partition behind the order to stop it, and the first that a broker hears of the cluster.

The form is that of a 3.9 controller in ZooKeeper mode. A partition of a topic that is on its way out has the leader -2, and
its replicas are stopped in the epoch -2, whatever epoch they know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from ottla.controller.machine.situation import Situation
from ottla.metadata.ids import ZERO_ID, BrokerId, TopicId, TopicPartition
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment
from ottla.wire import ApiKey, Message
from ottla.wire.messages.k04_leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.k05_stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.wire.messages.k06_update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

VERSIONS: Final[Mapping[type[Message], int]] = {
    LeaderAndIsrRequest: 7,
    UpdateMetadataRequest: 8,
    StopReplicaRequest: 4,
}
"""The versions of Kafka 3.9 for orders; a broker of 3.4 or later takes them."""
ORDER_KEYS: Final = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
OF_EVERYTHING: Final = 2
"""The type of an UpdateMetadata behind which nothing is left of what a broker knew before. Brokers of Kafka do not look at it."""
DELETING: Final = -2
"""The leader, and the epoch, of a partition whose topic is deleted."""
_NO_EPOCH: Final = -1
_SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


T = TypeVar("T")


class Sender(NamedTuple):
    """Who gives orders, and through which listener brokers reach each other."""

    controller_id: BrokerId
    controller_epoch: int
    listener: str


class Orders:
    """For one broker."""

    __slots__ = ("is_greeting", "leaders", "live", "metadata", "states", "stops", "topic_ids")

    def __init__(self) -> None:
        self.states: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
        self.leaders: dict[int, LeaderAndIsrLiveLeader] = {}
        self.metadata: dict[TopicPartition, UpdateMetadataPartitionState] = {}
        self.live: list[UpdateMetadataBroker] | None = None
        """None: nothing is to be told of the cluster."""
        self.stops: dict[TopicPartition, StopReplicaPartitionState] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.is_greeting = False
        """The broker has to know who is alive before it can follow anybody."""

    def merge(self, later: Orders) -> bool:
        """Take up what follows; False if it has to stay apart."""
        if self.is_greeting or later.is_greeting or not self.stops.keys().isdisjoint(later.states):
            return False
        if any(self.topic_ids.get(name, topic_id) != topic_id for name, topic_id in later.topic_ids.items()):
            return False  # deleted and made anew
        for where, state in later.states.items():
            before = self.states.get(where)
            if before is not None and before.is_new and not state.is_new:
                state.is_new = True
            self.states[where] = state
        for where, stop in later.stops.items():
            known = self.stops.get(where)
            stop.delete_partition = stop.delete_partition or (known is not None and known.delete_partition)
            self.stops[where] = stop
        self.leaders.update(later.leaders)
        self.metadata.update(later.metadata)
        self.topic_ids.update(later.topic_ids)
        self.live = later.live or self.live
        return True

    def requests(self, sender: Sender, broker_epoch: int) -> list[Message]:
        """In the order in which they are to be sent."""
        common = (sender.controller_id, sender.controller_epoch, broker_epoch)
        found: list[Message] = []
        if self.states:
            found.append(self._leader_and_isr(*common))
        if self.live is not None:
            found.append(self._update_metadata(*common))
        if self.stops:
            found.append(self._stop_replica(*common))
        return found

    def _leader_and_isr(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> LeaderAndIsrRequest:
        leaders = {state.leader for state in self.states.values()}
        return LeaderAndIsrRequest(
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                LeaderAndIsrTopicState(topic_name=name, topic_id=self._topic_id(name), partition_states=states)
                for name, states in _by_topic(self.states).items()
            ],
            live_leaders=[self.leaders[leader] for leader in sorted(leaders) if leader in self.leaders],
        )

    def _update_metadata(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            controller_id=controller_id,
            type=OF_EVERYTHING if self.is_greeting else 0,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                UpdateMetadataTopicState(topic_name=name, topic_id=self._topic_id(name), partition_states=states)
                for name, states in _by_topic(self.metadata).items()
            ],
            live_brokers=self.live or [],
        )

    def _stop_replica(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> StopReplicaRequest:
        return StopReplicaRequest(
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                StopReplicaTopicState(topic_name=name, partition_states=states)
                for name, states in _by_topic(self.stops).items()
            ],
        )

    def _topic_id(self, name: str) -> TopicId:
        return self.topic_ids.get(name, ZERO_ID)


class Batch:
    """What one deed of the controller means for the brokers."""

    def __init__(self) -> None:
        self._states: dict[BrokerId, dict[TopicPartition, bool]] = {}
        self._stops: dict[BrokerId, dict[TopicPartition, bool]] = {}
        self._metadata: dict[TopicPartition, None] = {}
        self._everything: set[BrokerId] = set()
        self._tells = False

    def lead(self, where: TopicPartition, brokers: Iterable[BrokerId], *, is_new: bool = False) -> None:
        """These brokers learn the state of a partition they hold a replica of, and everybody who leads it."""
        for broker in brokers:
            states = self._states.setdefault(broker, {})
            states[where] = is_new or states.get(where, False)
        self.tell((where,))

    def tell(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Everybody learns who leads these, and who is alive."""
        self._tells = True
        self._metadata.update(dict.fromkeys(partitions))

    def tell_everything(self, broker_id: BrokerId) -> None:
        """This broker knows nothing yet."""
        self._tells = True
        self._everything.add(broker_id)

    def stop(self, where: TopicPartition, brokers: Iterable[BrokerId], *, delete: bool) -> None:
        """These brokers stop their replica, and delete it if so told."""
        for broker in brokers:
            stops = self._stops.setdefault(broker, {})
            stops[where] = delete or stops.get(where, False)

    def orders(self, situation: Situation, sender: Sender) -> dict[BrokerId, Orders]:
        """For every broker that is there and concerned."""
        told: dict[TopicPartition, UpdateMetadataPartitionState] = {}
        for where in self._metadata:
            _note_metadata(situation, where, told)
        everything = dict(told)
        if self._everything:
            for where in situation.image.partitions():
                _note_metadata(situation, where, everything)
        live = [_live_broker(situation, broker) for broker in sorted(situation.image.brokers)]
        found: dict[BrokerId, Orders] = {}
        for broker in situation.image.brokers:
            orders = Orders()
            for where, is_new in self._states.get(broker, {}).items():
                _note_state(orders, situation, where, sender.listener, is_new=is_new)
            if self._tells:
                orders.live = live
                orders.is_greeting = broker in self._everything
                orders.metadata = dict(everything if broker in self._everything else told)
            for where, delete in self._stops.get(broker, {}).items():
                orders.stops[where] = _stop(situation, where, delete=delete)
            for where in (*orders.states, *orders.metadata):
                orders.topic_ids[where.topic] = situation.image.topics[where.topic].topic_id or ZERO_ID
            if orders.states or orders.stops or orders.live is not None:
                found[broker] = orders
        return found


def _note_state(orders: Orders, situation: Situation, where: TopicPartition, listener: str, *, is_new: bool) -> None:
    assignment, state = situation.image.assignment(where), situation.image.state(where)
    if assignment is None or state is None:
        return
    orders.states[where] = LeaderAndIsrPartitionState(
        partition_index=where.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(assignment.replicas),
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
        is_new=is_new,
        leader_recovery_state=int(state.recovering),
    )
    endpoint = situation.image.endpoint(state.leader, listener)
    if endpoint is not None:
        orders.leaders[state.leader] = LeaderAndIsrLiveLeader(
            broker_id=state.leader, host_name=endpoint.host, port=endpoint.port
        )


def _note_metadata(
    situation: Situation, where: TopicPartition, told: dict[TopicPartition, UpdateMetadataPartitionState]
) -> None:
    assignment, state = situation.image.assignment(where), situation.image.state(where)
    if assignment is not None and state is not None:
        told[where] = _metadata(situation, where, assignment, state)


def _metadata(
    situation: Situation, where: TopicPartition, assignment: ReplicaAssignment, state: LeaderAndIsr
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=where.partition,
        controller_epoch=state.controller_epoch,
        leader=DELETING if where.topic in situation.deleting else state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        zk_version=state.partition_epoch,
        replicas=list(assignment.replicas),
        offline_replicas=[broker for broker in assignment.replicas if not situation.is_online(broker, where)],
    )


def _stop(situation: Situation, where: TopicPartition, *, delete: bool) -> StopReplicaPartitionState:
    state = situation.image.state(where)
    epoch = _NO_EPOCH if state is None else state.leader_epoch
    return StopReplicaPartitionState(
        partition_index=where.partition,
        leader_epoch=DELETING if where.topic in situation.deleting else epoch,
        delete_partition=delete,
    )


def _live_broker(situation: Situation, broker_id: BrokerId) -> UpdateMetadataBroker:
    registration = situation.image.brokers[broker_id].registration
    return UpdateMetadataBroker(
        id=broker_id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=_SECURITY_PROTOCOLS.get(endpoint.security_protocol, 0),
            )
            for endpoint in registration.endpoints
        ],
        rack=registration.rack,
    )


def _by_topic(states: Mapping[TopicPartition, T]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for where, state in states.items():
        found.setdefault(where.topic, []).append(state)
    return found
