"""Partitions move: the phases of ``machine.reassignment``, written and told one after another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.controller.machine.elections import moved_state, without_replicas
from ottla.controller.machine.reassignment import Refusal, is_complete, moved, plan, under_way
from ottla.controller.machine.situation import Situation, States
from ottla.controller.term import Term
from ottla.metadata.ids import TopicPartition
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment, Replicas
from ottla.registry import BadVersionError, NoNodeError

log = logging.getLogger(__name__)

Decide = Callable[[Situation], LeaderAndIsr | None]
Moves = Mapping[TopicPartition, Sequence[int] | None]
"""Where partitions are to be; None takes a move back."""


async def reassign(term: Term, wanted: Moves) -> dict[TopicPartition, Refusal | None]:
    """Begin these moves; tells of each what is wrong with it, or None."""
    outcomes: dict[TopicPartition, Refusal | None] = {}
    for where, target in wanted.items():
        try:
            await _begin(term, where, target)
        except Refusal as refusal:
            outcomes[where] = refusal
        else:
            outcomes[where] = None
    term.tell()
    await resume(term, wanted)
    return outcomes


async def resume(term: Term, partitions: Iterable[TopicPartition] | None = None) -> None:
    """Finish the moves whose new replicas are in sync."""
    waiting = under_way(term.situation)
    if partitions is not None:
        concerned = set(waiting)
        waiting = [where for where in partitions if where in concerned]
    arrived = [where for where in waiting if is_complete(term.situation, where)]
    for where in arrived:
        await _complete(term, where)
    if arrived:
        term.tell()


async def _begin(term: Term, where: TopicPartition, target: Sequence[int] | None) -> None:
    before = term.image.assignment(where)
    assignment = plan(term.situation, where, target)
    assert before is not None
    if assignment != before:
        assignment = await _write(term, where, target, assignment)
    unneeded = tuple(broker for broker in before.replicas if broker not in assignment.replicas)
    if unneeded:
        await _stop(term, where, unneeded)
    log.info("%s moves from %s to %s", where, before.replicas, assignment.target_replicas)
    # A new epoch, so that the leader and all others act by the new assignment from one moment on.
    await term.update(_only(where, lambda situation: _next_epoch(situation, where, assignment)))
    term.batch.lead(where, assignment.replicas)
    term.batch.lead(where, assignment.adding, is_new=True)


async def _complete(term: Term, where: TopicPartition) -> None:
    """Those that stay lead and are in sync, those that go are deleted, and then the znode says so."""
    assignment = term.image.assignment(where)
    assert assignment is not None
    target, removing = assignment.target_replicas, assignment.removing
    if moved_state(term.situation, where, target) is None:
        return  # none of them can lead just now
    _believe(term, where, ReplicaAssignment(target))
    if not await term.update(_only(where, lambda situation: moved_state(situation, where, target))):
        _believe(term, where, assignment)
        return
    if removing:
        await _stop(term, where, removing)
    await _write(term, where, target, ReplicaAssignment(target))
    log.info("%s is at %s now", where, target)


async def _stop(term: Term, where: TopicPartition, gone: Replicas) -> None:
    await term.update(_only(where, lambda situation: without_replicas(situation, where, gone)))
    term.batch.stop(where, gone, delete=True)


def _next_epoch(situation: Situation, where: TopicPartition, assignment: ReplicaAssignment) -> LeaderAndIsr | None:
    state = situation.image.state(where)
    if state is None:
        return None
    if not assignment.is_being_reassigned:
        return moved_state(situation, where, assignment.replicas)
    return state.with_leader(state.leader, state.isr, controller_epoch=situation.controller_epoch)


def _believe(term: Term, where: TopicPartition, assignment: ReplicaAssignment) -> None:
    term.image = term.image.with_topic(moved(term.image.topics[where.topic], where.partition, assignment))


async def _write(
    term: Term, where: TopicPartition, target: Sequence[int] | None, assignment: ReplicaAssignment
) -> ReplicaAssignment:
    """Write where a partition is to be. If somebody else changed the topic, plan again on what they made of it."""
    while True:
        try:
            await term.set_assignment(moved(term.image.topics[where.topic], where.partition, assignment))
        except BadVersionError:
            found = await term.registry.topics.read([where.topic])
            if not found:
                raise NoNodeError(f"{where.topic} is gone, or cannot be read any more") from None
            term.image = term.image.with_topics(found)
            if assignment.is_being_reassigned:
                assignment = plan(term.situation, where, target)
        else:
            return assignment


def _only(where: TopicPartition, decide: Decide) -> Callable[[Situation], States]:
    def decide_all(situation: Situation) -> States:
        state = decide(situation)
        return {} if state is None else {where: state}

    return decide_all
