"""Who leads and who is in sync, given what is assigned and who is alive. A situation goes in, the states to write come out.

no state yet        the first live replica leads, all live replicas are in sync
leader gone         the first live replica in sync leads, in the next epoch
none in sync left   nobody leads, and the last in sync stay listed: one of them has to come back (unclean elections
                    are off unless a topic or an operator asks for them)
follower gone       it leaves the ISR, which never becomes empty
only crashed ones   back from a crash, they may have lost the ends of their logs: the only one in sync leads all the same;
                    of several, the one with the highest epoch and the longest log, once all of them are back; where unclean
                    elections are on, nobody is waited for, but they come before those that were not in sync
leader is back      a partition without a leader gets one as soon as a replica in sync is alive
leader is leaving   the first live replica in sync that stays leads, and who leaves is in sync no more; the last one in sync
                    leads on until it is gone
preferred           the first of the replicas leads, if it is alive and in sync
moved               the first live one of the new replicas that is in sync leads

Every change of the leader or by the controller begins a new epoch. A leader that was not in sync is RECOVERING (KIP-704).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.controller.machine.situation import Replica, Situation, States
from ottla.metadata.ids import NO_LEADER, BrokerId, TopicPartition
from ottla.metadata.image import Topic
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment, Replicas


class LogEnd(NamedTuple):
    """How far a log goes: the higher epoch counts for more than the higher offset."""

    epoch: int
    offset: int


Unclean = Callable[[Mapping[str, str]], bool]
"""Whether the settings of a topic allow unclean elections."""


def first_states(situation: Situation, topics: Iterable[Topic]) -> States:
    """For the partitions that have none. One whose replicas are all gone waits for them."""
    states: States = {}
    for topic in topics:
        for where, assignment, state in topic.leaders():
            live = () if state is not None else situation.online(where, assignment.replicas)
            if live:
                states[where] = LeaderAndIsr(live[0], 0, live, situation.controller_epoch)
    return states


def next_states(situation: Situation, unclean: Unclean, *, only_leaders: bool = False) -> States:
    """For the partitions whose leader, or whose ISR, is not what it can be with the brokers that are alive now."""
    states: States = {}
    for where, assignment, state in situation.partitions():
        if state is None or (only_leaders and situation.has_disk(state.leader, where)):
            continue
        new = _mended(situation, where, assignment, state)
        if new is None and not situation.has_disk(state.leader, where):
            # Where all are back that were in sync, their logs are compared: nothing has to be lost.
            if not _can_compare(situation, where, state) and unclean(situation.image.topic_config(where.topic)):
                new = unclean_state(situation, where)
            if new is None and state.leader != NO_LEADER:
                left = tuple(broker for broker in state.isr if broker in assignment.replicas)
                new = _led_by(situation, state, NO_LEADER, left or state.isr)
        if new is not None:
            states[where] = new
    return states


def unclean_state(situation: Situation, where: TopicPartition) -> LeaderAndIsr | None:
    """Any live replica leads, those in sync first, even if they have crashed since. What it does not have is lost."""
    assignment, state = situation.image.assignment(where), situation.image.state(where)
    if assignment is None or state is None:
        return None
    if (clean := _elected(situation, where, assignment.replicas, state)) is not None:
        return clean
    live = situation.online(where, assignment.replicas)
    leader = next((broker for broker in live if broker in state.isr), live[0] if live else None)
    return None if leader is None else _led_by(situation, state, leader, (leader,))._replace(recovering=True)


def undecided(situation: Situation) -> list[TopicPartition]:
    """What nobody leads though everybody is back that was in sync: their logs have to be compared."""
    return [
        where
        for where, _, state in situation.partitions()
        if state is not None and not state.has_leader and _can_compare(situation, where, state)
    ]


def longest_state(situation: Situation, where: TopicPartition, ends: Mapping[BrokerId, LogEnd]) -> LeaderAndIsr | None:
    """The replica whose log goes furthest leads, alone in sync. None unless all are known that were in sync."""
    state = situation.image.state(where)
    if state is None or where not in undecided(situation) or ends.keys() != set(state.isr):
        return None
    leader = max(state.isr, key=lambda broker: ends[broker])
    return _led_by(situation, state, leader, (leader,))


def preferred_state(situation: Situation, where: TopicPartition) -> LeaderAndIsr | None:
    """The first replica leads; None if it cannot."""
    assignment, state = situation.image.assignment(where), situation.image.state(where)
    if assignment is None or state is None or not assignment.replicas:
        return None
    first = assignment.replicas[0]
    if not (first in state.isr and situation.is_online(first, where)):
        return None
    return _led_by(situation, state, first, state.isr)


def moved_state(situation: Situation, where: TopicPartition, target: Replicas) -> LeaderAndIsr | None:
    """One of ``target`` leads: the leader if it is one of them, in a new epoch all the same; None if none can."""
    state = situation.image.state(where)
    if state is None:
        return None
    candidates = [broker for broker in target if broker in state.isr and situation.is_online(broker, where)]
    if not candidates:
        return None
    leader = state.leader if state.leader in candidates else candidates[0]
    return _led_by(situation, state, leader, state.isr)


def leaving_states(situation: Situation, broker_id: BrokerId) -> States:
    """A broker is about to stop: others lead, and it is in sync with nothing. It is among ``situation.leaving`` already."""
    states: States = {}
    for where, assignment, state in situation.partitions():
        if state is None or broker_id not in state.isr or len(assignment.replicas) < 2:
            continue
        if state.leader == broker_id:
            new = _elected(situation, where, assignment.replicas, state)
        else:
            new = _without(situation, state, (broker_id,))
        if new is not None:
            states[where] = new
    return states


def without_replicas(situation: Situation, where: TopicPartition, gone: Replicas) -> LeaderAndIsr | None:
    """The state once ``gone`` hold no replica any more; None if it is the same."""
    state = situation.image.state(where)
    return None if state is None else _without(situation, state, gone)


def unbalanced(situation: Situation, percentage: int) -> list[TopicPartition]:
    """What the preferred replicas should lead again, of the brokers that lead too little of what they are preferred for."""
    preferred: dict[BrokerId, list[TopicPartition]] = {}
    astray: dict[BrokerId, list[TopicPartition]] = {}
    for where, assignment, state in situation.partitions():
        if state is None or not assignment.replicas:
            continue
        first = assignment.replicas[0]
        preferred.setdefault(first, []).append(where)
        if state.leader != first:
            astray.setdefault(first, []).append(where)
    return [
        where
        for broker, lost in astray.items()
        if len(lost) * 100 > percentage * len(preferred[broker])
        for where in lost
        if not situation.image.topics[where.topic].partitions[where.partition].is_being_reassigned
        and preferred_state(situation, where) is not None
    ]


def _can_compare(situation: Situation, where: TopicPartition, state: LeaderAndIsr) -> bool:
    """Several were in sync, all of them have crashed, and all of them are back."""
    return len(state.isr) > 1 and all(
        situation.is_online(broker, where) and Replica(where, broker) in situation.doubtful for broker in state.isr
    )


def _mended(
    situation: Situation, where: TopicPartition, assignment: ReplicaAssignment, state: LeaderAndIsr
) -> LeaderAndIsr | None:
    """The leader or another one in sync leads those that are alive; None if that is so already, or cannot be.

    Who holds no replica any more is left out too: a controller may have died between the two writes of a move.
    """
    replicas = assignment.replicas
    if not situation.has_disk(state.leader, where) or state.leader not in replicas:
        return _elected(situation, where, replicas, state)
    gone = tuple(
        broker
        for broker in state.isr
        if broker != state.leader and (broker not in replicas or not situation.is_online(broker, where))
    )
    return _without(situation, state, gone)


def _elected(
    situation: Situation, where: TopicPartition, replicas: Replicas, state: LeaderAndIsr
) -> LeaderAndIsr | None:
    in_sync = tuple(broker for broker in situation.online(where, state.isr) if broker in replicas)
    trusted = tuple(broker for broker in in_sync if Replica(where, broker) not in situation.doubtful)
    if not trusted and len(state.isr) == 1:
        trusted = in_sync
    leader = next((broker for broker in replicas if broker in trusted), None)
    return None if leader is None else _led_by(situation, state, leader, trusted)


def _without(situation: Situation, state: LeaderAndIsr, gone: Replicas) -> LeaderAndIsr | None:
    left = tuple(broker for broker in state.isr if broker not in gone) or state.isr[-1:]
    leader = NO_LEADER if state.leader in gone else state.leader
    return None if (leader, left) == (state.leader, state.isr) else _led_by(situation, state, leader, left)


def _led_by(situation: Situation, state: LeaderAndIsr, leader: BrokerId, isr: Replicas) -> LeaderAndIsr:
    return state.with_leader(leader, isr, controller_epoch=situation.controller_epoch)
