"""Leaders change because somebody wants it: an operator, a broker that is about to stop, or balance."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ottla.controller.machine.elections import (
    LogEnd,
    leaving_states,
    longest_state,
    preferred_state,
    unbalanced,
    unclean_state,
)
from ottla.controller.machine.situation import Situation
from ottla.controller.term import Term
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.znodes.topics import LeaderAndIsr
from ottla.wire import ErrorCode

log = logging.getLogger(__name__)

Outcomes = dict[TopicPartition, tuple[ErrorCode, str | None]]
Elect = Callable[[Situation, TopicPartition], LeaderAndIsr | None]


async def elect_preferred(term: Term, partitions: Iterable[TopicPartition] | None) -> Outcomes:
    """The preferred replicas lead, of these or of all partitions."""

    def is_needed(where: TopicPartition, state: LeaderAndIsr) -> bool:
        assignment = term.image.assignment(where)
        return assignment is not None and state.leader != assignment.replicas[0]

    return await _elect(term, partitions, is_needed, preferred_state, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)


async def elect_unclean(term: Term, partitions: Iterable[TopicPartition] | None) -> Outcomes:
    """Partitions without a live leader get one, though it may have lost records: the operator says so."""

    def is_needed(where: TopicPartition, state: LeaderAndIsr) -> bool:
        return not term.situation.has_disk(state.leader, where)

    return await _elect(term, partitions, is_needed, unclean_state, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)


async def elect_longest(term: Term, where: TopicPartition, ends: Mapping[BrokerId, LogEnd]) -> None:
    """All that were in sync with a partition are back from a crash, and this is how far their logs go."""

    def decide(situation: Situation) -> dict[TopicPartition, LeaderAndIsr]:
        state = longest_state(situation, where, ends)
        return {} if state is None else {where: state}

    log.info("%s: after a crash of all that were in sync, their logs end at %s", where, dict(ends))
    await term.update(decide)
    term.tell()


async def rebalance(term: Term) -> None:
    """Brokers that lead too little of what they are preferred for get it back."""
    wanted = unbalanced(term.situation, term.config.imbalance_percentage)
    if wanted:
        log.info("%d partitions go back to their preferred leaders", len(wanted))
        await elect_preferred(term, wanted)


async def leave(term: Term, broker_id: BrokerId) -> list[TopicPartition]:
    """A broker is about to stop: others lead. Gives what nobody else could lead."""
    term.situation = replace(term.situation, leaving=term.situation.leaving | {broker_id})
    concerned = [where for where in term.image.partitions_on(broker_id) if _has_others(term, where)]
    followed = [where for where in concerned if _leader(term, where) != broker_id]
    await term.update(lambda situation: leaving_states(situation, broker_id))
    for where in followed:
        term.batch.stop(where, (broker_id,), delete=False)
    term.batch.tell(concerned)
    term.tell()
    return [where for where in concerned if _leader(term, where) == broker_id]


async def _elect(
    term: Term,
    partitions: Iterable[TopicPartition] | None,
    is_needed: Callable[[TopicPartition, LeaderAndIsr], bool],
    elect: Elect,
    refusal: ErrorCode,
) -> Outcomes:
    outcomes: Outcomes = {}
    wanted: list[TopicPartition] = []
    for where in term.image.partitions() if partitions is None else partitions:
        state = term.image.state(where)
        if term.image.assignment(where) is None:
            outcomes[where] = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        elif where.topic in term.deletions:
            outcomes[where] = (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        elif state is None or is_needed(where, state):
            wanted.append(where)
        else:
            outcomes[where] = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")

    def decide(situation: Situation) -> dict[TopicPartition, LeaderAndIsr]:
        found = ((where, elect(situation, where)) for where in wanted)
        return {where: state for where, state in found if state is not None}

    written = await term.update(decide)
    term.tell()
    for where in wanted:
        if where in written:
            outcomes[where] = (ErrorCode.NONE, None)
        else:
            outcomes[where] = (refusal, f"Failed to elect leader for partition {where}")
    return outcomes


def _leader(term: Term, where: TopicPartition) -> BrokerId | None:
    state = term.image.state(where)
    return None if state is None else state.leader


def _has_others(term: Term, where: TopicPartition) -> bool:
    assignment = term.image.assignment(where)
    return assignment is not None and len(assignment.replicas) > 1 and where.topic not in term.deletions
