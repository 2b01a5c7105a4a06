"""What becomes of a leader's wish for another ISR (AlterPartition, KIP-497): a state to write, or a refusal.

The leader's epoch and the partition epoch have to be those of now: a leader that was replaced is fenced, and one that missed
a change reads it first. One that knows of a newer epoch than this controller has it from the next one, and is to ask
there. A wish that is fulfilled already is granted again, since its answer may have been lost. Replicas that come in have to be
alive, in the life that the leader knows, and not about to leave (KIP-841, KIP-903).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.controller.machine.situation import Situation
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.znodes.topics import LeaderAndIsr
from ottla.wire import ErrorCode

ANY_EPOCH: Final = -1


class Wish(NamedTuple):
    """What a leader asks for."""

    leader: BrokerId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[BrokerId, int], ...]
    """The replicas, each with the epoch of its broker, or -1."""
    recovering: bool = False


def judge(situation: Situation, where: TopicPartition, wish: Wish) -> LeaderAndIsr | ErrorCode:
    """The state that is to be, which may be the one that is; or why not."""
    state, assignment = situation.image.state(where), situation.image.assignment(where)
    if state is None or assignment is None or where.topic in situation.deleting:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wish.leader_epoch > state.leader_epoch or wish.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if wish.leader_epoch != state.leader_epoch or wish.leader != state.leader:
        return ErrorCode.FENCED_LEADER_EPOCH
    isr = tuple(broker for broker, _ in wish.isr)
    if (isr, wish.recovering) == (state.isr, state.recovering):
        return state
    if wish.partition_epoch != state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not _is_sane(wish, isr, state, assignment.replicas):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(situation, where, broker, epoch) for broker, epoch in wish.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return state._replace(isr=isr, recovering=wish.recovering, controller_epoch=situation.controller_epoch)


def _is_sane(wish: Wish, isr: tuple[BrokerId, ...], state: LeaderAndIsr, replicas: tuple[BrokerId, ...]) -> bool:
    if wish.leader not in isr or len(set(isr)) != len(isr) or not set(isr) <= set(replicas):
        return False
    # Only an election makes a leader recover, and while it does it is alone (KIP-704).
    return not wish.recovering or (state.recovering and len(isr) == 1)


def _is_eligible(situation: Situation, where: TopicPartition, broker: BrokerId, epoch: int) -> bool:
    if not situation.is_online(broker, where):
        return False
    return epoch in (ANY_EPOCH, situation.image.broker_epoch(broker))
