"""How a partition moves from brokers to others (KIP-455).

    wish       replicas = target + what is left of the origin, adding, removing    written before anything else happens
    adding     the new replicas are told to fetch; the leader hears of them in a new epoch
    complete   all of the target are in sync: one of them leads, the others leave the ISR and are deleted, and the znode
               has the target alone
    cancel     a move back to the origin: what was being added goes again

As long as nothing of the target is in sync, what is in sync stays, whatever is wished for: it goes when the move is complete.
A move that is under way may be given another target: what it was adding and is not wanted any more goes at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.controller.machine.situation import Situation
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import Topic
from ottla.metadata.znodes.topics import ReplicaAssignment, Replicas
from ottla.wire import ErrorCode


class Refusal(Exception):  # noqa: N818  # it is an answer
    """Why a partition is not moved."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def plan(situation: Situation, where: TopicPartition, target: Sequence[int] | None) -> ReplicaAssignment:
    """The assignment that begins a move to ``target``, or with None the way back. Raises Refusal."""
    assignment = situation.image.assignment(where)
    if target is None:
        if assignment is None or not assignment.is_being_reassigned:
            raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
        return _keeping_data(assignment.reassign_to(assignment.origin_replicas), situation, where)
    # What is wanted is judged before whether there is anything to do it to, as Kafka does.
    replicas = tuple(map(BrokerId, target))
    _check(situation, replicas, () if assignment is None else assignment.replicas)
    if assignment is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if where.topic in situation.deleting:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic is being deleted.")
    return _keeping_data(assignment.reassign_to(replicas), situation, where)


def is_complete(situation: Situation, where: TopicPartition) -> bool:
    """Everything that is to hold the partition in the end is in sync."""
    assignment, state = situation.image.assignment(where), situation.image.state(where)
    if assignment is None or state is None:
        return False
    return not assignment.is_being_reassigned or set(assignment.target_replicas) <= set(state.isr)


def moved(topic: Topic, partition: int, assignment: ReplicaAssignment) -> Topic:
    return topic._replace(partitions={**topic.partitions, partition: assignment})


def under_way(situation: Situation) -> list[TopicPartition]:
    return [where for where, assignment, _ in situation.partitions() if assignment.is_being_reassigned]


def _keeping_data(assignment: ReplicaAssignment, situation: Situation, where: TopicPartition) -> ReplicaAssignment:
    state = situation.image.state(where)
    in_sync = () if state is None else state.isr
    if not set(assignment.replicas).isdisjoint(in_sync):
        return assignment
    return assignment._replace(replicas=(*assignment.replicas, *in_sync), removing=(*assignment.removing, *in_sync))


def _check(situation: Situation, replicas: Replicas, now: Replicas) -> None:
    if not replicas:
        raise _misassigned("Empty replica list specified in partition reassignment.")
    if len(set(replicas)) != len(replicas):
        raise _misassigned(f"Duplicate replica ids in partition reassignment replica list: {_listed(replicas)}")
    if any(broker < 0 for broker in replicas):
        raise _misassigned(f"Invalid broker id in replica list: {_listed(replicas)}")
    # One that holds a replica already may be away; one that is to get one may not.
    alive = sorted(broker for broker in situation.image.brokers if broker not in situation.leaving)
    if not set(replicas) - set(now) <= set(alive):
        raise _misassigned(
            f"Replica assignment has brokers that are not alive. Replica list: {_listed(replicas)}, "
            f"live broker list: {_listed(tuple(alive))}"
        )


def _misassigned(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _listed(brokers: Replicas) -> str:
    return f"[{', '.join(map(str, brokers))}]"
