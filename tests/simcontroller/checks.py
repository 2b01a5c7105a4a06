"""What must hold after every write to the registry, and when all is well again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.metadata.ids import NO_LEADER, BrokerId, TopicPartition
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.cluster import decode_controller_epoch
from ottla.metadata.znodes.configs import decode_config, topic_entity
from ottla.metadata.znodes.topics import LeaderAndIsr, TopicAssignment, decode_state, decode_topic
from ottla.registry.store import Create, Delete, Operation, Result, SetData
from ottla.wire import ErrorCode
from tests.peers.memorystore import MemoryEnsemble
from tests.simcontroller.eras import Place, is_unclean

if TYPE_CHECKING:
    from tests.simcontroller.world import World

UNCLEAN = "unclean.leader.election.enable"
"""A setting of topics."""


class CheckedEnsemble(MemoryEnsemble):
    """A registry that looks at every write before anybody else does."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.written = 0
        self._joined: dict[tuple[TopicPartition, BrokerId], int | None] = {}
        """In which life whoever is in sync came to be so."""
        self.deleted_topics: set[str] = set()
        self.deleted_assignments: dict[str, TopicAssignment] = {}

    def write(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        for operation in operations:
            if isinstance(operation, Delete) and operation.path.count("/") == 3 and operation.path in self.nodes:
                topic = operation.path.rpartition("/")[2]
                if operation.path == paths.topic(topic):
                    self.deleted_assignments[topic] = self.assignment(topic)
        results = super().write(operations, session_id)
        for operation in operations:
            if isinstance(operation, Delete):
                self._deleted(operation.path)
            elif isinstance(operation, (Create, SetData)) and operation.path.endswith("/state"):
                _, _, _, topic, _, number, _ = operation.path.split("/")
                self._state_written(TopicPartition(topic, int(number)), operation.data)
        return results

    def assignment(self, topic: str) -> TopicAssignment:
        return decode_topic(topic, self.nodes[paths.topic(topic)].data)

    def place(self, where: TopicPartition) -> Place | None:
        """What a partition of that name is now."""
        node = self.nodes.get(paths.topic(where.topic))
        topic_id = None if node is None else decode_topic(where.topic, node.data).topic_id
        return None if topic_id is None else Place(topic_id, where.partition)

    def allows_unclean(self, topic: str) -> bool:
        entity = topic_entity(topic)
        node = self.nodes.get(entity.path)
        return node is not None and decode_config(entity, node.data).get(UNCLEAN) == "true"

    def is_deleted(self, topic: str) -> bool:
        """Somebody has asked for that."""
        return paths.deletion(topic) in self.nodes

    def _state_written(self, where: TopicPartition, data: bytes) -> None:
        self.written += 1
        node = self.nodes[paths.partition_state(where)]
        state = decode_state(where, data, partition_epoch=node.version)
        before = self.states.get(where)
        self.states[where] = state
        told = f"{where}: {before} -> {state}"
        epoch = decode_controller_epoch(self.nodes[paths.CONTROLLER_EPOCH].data)
        assert state.controller_epoch == epoch, f"C1: written in the name of another controller than {epoch}: {told}"
        assert state.isr, f"C3: nobody is in sync: {told}"
        assert len(set(state.isr)) == len(state.isr), told
        assert state.leader in (*state.isr, NO_LEADER), f"C3: a leader that is not in sync: {told}"
        replicas = self.assignment(where.topic).partitions[where.partition].replicas
        assert len(state.isr) == 1 or not state.recovering, f"unclean: in sync with a leader that recovers: {told}"
        assert set(state.isr) <= set(replicas), f"C3: in sync without a replica ({replicas}): {told}"
        self._world.truth.state_written(where, before, state)
        if before is not None:
            self._check_change(where, before, state)
        for broker in set(state.isr) - set(() if before is None else before.isr):
            self._joined[where, broker] = self._life(broker)

    def _check_change(self, where: TopicPartition, before: LeaderAndIsr, state: LeaderAndIsr) -> None:
        told = f"{where}: {before} -> {state}"
        assert state.leader_epoch >= before.leader_epoch, f"C3: an epoch that goes back: {told}"
        if state.leader != before.leader:
            assert state.leader_epoch > before.leader_epoch, f"C3: another leader in the same epoch: {told}"
        if is_unclean(before, state):
            self._check_unclean(where, before, state)
            return
        for broker in set(state.isr) - set(before.isr):
            joining = self._world.nodes.get(broker)
            known = None if joining is None else joining.partition(where)
            assert known is None or known.leader_epoch >= state.leader_epoch, (
                f"L9: {broker} is in sync and follows in epoch {known.leader_epoch}: {told}"
            )
        if state.leader_epoch != before.leader_epoch:
            assert set(state.isr) <= set(before.isr), f"L9: in sync without having asked for it: {told}"

    def _check_unclean(self, where: TopicPartition, before: LeaderAndIsr, state: LeaderAndIsr) -> None:
        told = f"an unclean election of {where}: {before} -> {state}"
        assert self._world.asked == where or self.allows_unclean(where.topic), f"unclean: nobody wanted {told}"
        assert state.leader_epoch > before.leader_epoch, f"C3: no epoch began with {told}"
        assert state.isr == (state.leader,), f"unclean: in sync with a leader that recovers: {told}"
        assert state.recovering, f"unclean: nobody is told of {told}"
        there = [broker for broker in before.isr if self._was_there(where, broker)]
        assert not there or state.leader in there, f"unclean: {there} could have led, and there was {told}"

    def _was_there(self, where: TopicPartition, broker: BrokerId) -> bool:
        """Since it came to be in sync: nothing of what it had then can be missing."""
        node, registered = self._world.nodes.get(broker), self.nodes.get(paths.broker(broker))
        if node is None or registered is None or not node.is_whole:
            return False
        return registered.czxid == self._joined.get((where, broker))

    def _life(self, broker: BrokerId) -> int | None:
        """The one that the controller means. None if there is another one by now, of which it has not heard."""
        registered = self.nodes.get(paths.broker(broker))
        if registered is None:
            return None
        rulers = [node.controller.image for node in self._world.nodes.values() if node.controller_is_active]
        meant = [image.brokers[broker].epoch for image in rulers if image is not None and broker in image.brokers]
        return registered.czxid if registered.czxid in meant else None

    def _deleted(self, path: str) -> None:
        match path.split("/"):
            case ["", "brokers", "topics", _, "partitions", _, "state"]:
                self.states = {
                    where: state for where, state in self.states.items() if paths.partition_state(where) != path
                }
            case ["", "brokers", "topics", topic]:
                self._topic_deleted(topic)

    def _topic_deleted(self, topic: str) -> None:
        self.deleted_topics.add(topic)
        assigned = self.deleted_assignments.pop(topic)
        left = [
            (broker, number)
            for number, assignment in assigned.partitions.items()
            for broker in assignment.replicas
            if self._world.holds(broker, TopicPartition(topic, number), assigned.topic_id)
        ]
        assert not left, f"C6: {topic} is gone, and left {left}"


def nothing_is_led_by(world: World, failed: Sequence[BrokerId]) -> None:
    """These live, and their disks do not. Of a topic that is on its way out nobody elects leaders any more."""
    ensemble = world.ensemble
    led = [
        where
        for where, state in ensemble.states.items()
        if state.leader in failed and not ensemble.is_deleted(where.topic)
    ]
    assert not led, f"led on disks that failed: {led}"


def _waits_for_an_operator(world: World, where: TopicPartition) -> bool:
    """Its leader has a log of an earlier topic of that name, and was not told in time that this one is new.

    As with Kafka, that is for somebody to decide, and the broker has said so: nobody else might have the records.
    """
    return any(node.refuses(where) == ErrorCode.INCONSISTENT_TOPIC_ID for node in world.nodes.values())


def all_is_well(world: World) -> None:
    """Nobody has failed for a while: everybody agrees, and nothing is left undone."""
    ensemble = world.ensemble
    assert sum(node.controller_is_active for node in world.nodes.values()) == 1
    assert not ensemble.children(paths.DELETE_TOPICS), "deletions are left"
    topics = ensemble.children(paths.TOPICS)
    known: dict[TopicPartition, tuple[int, int, tuple[int, ...]]] = {}
    for topic in topics:
        for number, assignment in ensemble.assignment(topic).partitions.items():
            where = TopicPartition(topic, number)
            znode = ensemble.nodes[paths.partition_state(where)]
            state = decode_state(where, znode.data, partition_epoch=znode.version)
            known[where] = (state.leader, state.leader_epoch, state.isr)
            if _waits_for_an_operator(world, where):
                continue
            assert not assignment.is_being_reassigned, f"{where} is still on its way: {assignment}"
            assert state.leader in world.nodes, f"{where} is led by nobody: {state}"
            assert set(state.isr) == set(assignment.replicas), f"{where}: {state}, {assignment}"
            for broker in assignment.replicas:
                held = world.nodes[broker].partition(where)
                assert held is not None, f"{where} is not held by {broker}"
                assert (held.leader, held.leader_epoch) == known[where][:2], f"{where} at {broker}"
            _is_alike(world, where, assignment.replicas)
    for ruler in (node.controller.image for node in world.nodes.values() if node.controller_is_active):
        assert ruler is not None
        for topic in topics:
            allows = ruler.topic_config(topic).get(UNCLEAN) == "true"
            assert allows == ensemble.allows_unclean(topic), (
                f"unclean: the controller believes {topic} allows it: {allows}"
            )
    for node in world.nodes.values():
        image = node.cluster.image
        states = {where: image.state(where) for where in image.partitions()}
        told = {where: (each.leader, each.leader_epoch, each.isr) for where, each in states.items() if each is not None}
        assert told == known, f"C5: broker {node.broker_id} believes {told} instead of {known}"
        assert image.brokers.keys() == world.nodes.keys(), f"C5: broker {node.broker_id} believes {image.brokers} alive"


def _is_alike(world: World, where: TopicPartition, replicas: Sequence[BrokerId]) -> None:
    place = world.ensemble.place(where)
    assert place is not None
    logs = [world.records(broker, where, place) for broker in replicas]
    committed = world.truth.committed(where, place)
    assert all(log == logs[0] for log in logs), f"L3: the logs of {where} differ in the end"
    assert logs[0] == committed, f"L1: {where} has {len(logs[0])} records in the end, and {len(committed)} committed"
