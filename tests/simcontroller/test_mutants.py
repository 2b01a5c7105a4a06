"""Deliberate mistakes, one at a time: a simulation that does not find them proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from ottla.broker.membership import Membership
from ottla.controller.acts import isrs
from ottla.controller.machine import elections, isr, reassignment
from ottla.controller.machine.deletion import Deletion
from ottla.controller.machine.isr import Wish
from ottla.controller.machine.situation import Situation
from ottla.controller.term import Term
from ottla.metadata.ids import TopicPartition
from ottla.metadata.image import ControllerEpoch
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment, Replicas
from ottla.registry import RegistryError, guard, topics
from ottla.registry.store import Operation, Result, ZnodeStore
from ottla.wire import ErrorCode
from tests.simcontroller.world import simulate

SEEDS = 200


def anybody_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is alive leads, in sync or not."""

    def elected(
        situation: Situation, where: TopicPartition, replicas: Replicas, state: LeaderAndIsr
    ) -> LeaderAndIsr | None:
        live = situation.online(where, replicas)
        return elections._led_by(situation, state, live[0], live[:1]) if live else None

    monkeypatch.setattr(elections, "_elected", elected)


def no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deposed controller goes on writing."""

    async def unguarded(
        store: ZnodeStore, _epoch: ControllerEpoch, batches: Iterable[Sequence[Operation]]
    ) -> list[list[Result] | RegistryError]:
        return await store.multi_many(batches)

    for module in (guard, topics):
        monkeypatch.setattr(module, "guarded_many", unguarded)


def same_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader begins no new epoch."""
    monkeypatch.setattr(
        LeaderAndIsr,
        "with_leader",
        lambda state, leader, isr, controller_epoch: state._replace(
            leader=leader, isr=isr, controller_epoch=controller_epoch
        ),
    )


def hasty_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Znodes go before replicas have."""
    monkeypatch.setattr(Deletion, "is_done", property(lambda _: True))


def forgetful_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A move that is taken back drops whoever is in sync."""

    def kept(assignment: ReplicaAssignment, _situation: Situation, _where: TopicPartition) -> ReplicaAssignment:
        return assignment

    monkeypatch.setattr(reassignment, "_keeping_data", kept)


def early_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """A move is complete before the new replicas are in sync."""
    from ottla.controller.acts import moves

    monkeypatch.setattr(moves, "is_complete", lambda _situation, _where: True)
    monkeypatch.setattr(
        moves,
        "moved_state",
        lambda situation, where, target: elections._led_by(situation, situation.image.state(where), target[0], target),
    )


def every_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that was replaced, or missed a change, has its way."""

    def granted(situation: Situation, where: TopicPartition, wish: Wish) -> LeaderAndIsr | ErrorCode:
        state = situation.image.state(where)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return state._replace(isr=tuple(broker for broker, _ in wish.isr), controller_epoch=situation.controller_epoch)

    for module in (isr, isrs):
        monkeypatch.setattr(module, "judge", granted)


def nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided again after a lost race is written, and told to nobody."""
    learn = Term._learn

    async def learned(term: Term, updates: topics.StateUpdates, *, is_new: bool) -> None:
        before = term.batch
        await learn(term, updates, is_new=is_new)
        if not is_new:
            term.batch = before
            before._metadata.clear()

    monkeypatch.setattr(Term, "_learn", learned)


def silent_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that lost its disk keeps that to itself."""

    async def silence(_membership: Membership) -> None:
        return

    monkeypatch.setattr(Membership, "replicas_offline", silence)


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    anybody_leads,
    no_guard,
    same_epoch,
    hasty_deletion,
    forgetful_moves,
    early_arrival,
    every_wish,
    nobody_is_told,
    silent_disks,
]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mistake_is_found(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    for seed in range(SEEDS):
        try:
            simulate(seed)
        except (AssertionError, KeyError):
            return
    pytest.fail(f"{mutant.__name__} was not found in {SEEDS} histories")
