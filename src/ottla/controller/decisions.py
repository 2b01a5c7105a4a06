"""Who leads, given what is assigned and who is alive. Pure: an image goes in, the states to write come out.

no state yet        the first live replica leads, all live replicas are in sync
leader gone         the first live replica in sync leads, in the next epoch
none in sync left   nobody leads, and the last in sync stay listed: one of them has to come back (unclean elections
                    are off unless a topic asks for them)
follower gone       it leaves the ISR, which never becomes empty
leader is back      a partition without a leader gets one as soon as a replica in sync is alive
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ottla.metadata.ids import NO_LEADER, BrokerId, TopicPartition
from ottla.metadata.image import Image, Topic
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment

States = dict[TopicPartition, LeaderAndIsr]
Unclean = Callable[[str], bool]


def first_states(topic: Topic, alive: Collection[BrokerId], *, controller_epoch: int) -> States:
    """For the partitions of ``topic`` that have none. One whose replicas are all gone waits for them."""
    states: States = {}
    for where, assignment, state in topic.leaders():
        live = tuple(broker for broker in assignment.replicas if broker in alive)
        if state is None and live:
            states[where] = LeaderAndIsr(live[0], 0, live, controller_epoch)
    return states


def next_states(image: Image, *, controller_epoch: int, unclean: Unclean) -> States:
    """For the partitions whose leader or ISR is not what it can be with the brokers that are alive now."""
    states: States = {}
    for name, topic in image.topics.items():
        for where, assignment, state in topic.leaders():
            if state is None:
                continue
            new = _next_state(assignment, state, image.brokers.keys(), controller_epoch, unclean=lambda: unclean(name))  # noqa: B023
            if new is not None:
                states[where] = new
    return states


def _next_state(
    assignment: ReplicaAssignment,
    state: LeaderAndIsr,
    alive: Collection[BrokerId],
    controller_epoch: int,
    *,
    unclean: Callable[[], bool],
) -> LeaderAndIsr | None:
    in_sync = tuple(broker for broker in state.isr if broker in alive)
    if state.leader in alive:
        if in_sync == state.isr:
            return None
        return state.with_leader(state.leader, in_sync, controller_epoch=controller_epoch)
    candidates = [broker for broker in assignment.replicas if broker in in_sync]
    if candidates:
        return state.with_leader(candidates[0], in_sync, controller_epoch=controller_epoch)
    live = [broker for broker in assignment.replicas if broker in alive]
    if live and unclean():
        return state.with_leader(live[0], (live[0],), controller_epoch=controller_epoch)
    if state.leader == NO_LEADER:
        return None
    return state.with_leader(NO_LEADER, state.isr, controller_epoch=controller_epoch)
