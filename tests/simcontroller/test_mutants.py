"""Deliberate mistakes, one at a time: a simulation that does not find them proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.membership import Membership
from ottla.controller.acts import brokers, isrs
from ottla.controller.machine import elections, isr, reassignment
from ottla.controller.machine.deletion import Deletion
from ottla.controller.machine.isr import Wish
from ottla.controller.machine.situation import Situation
from ottla.controller.term import Term
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import ControllerEpoch
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment, Replicas
from ottla.registry import RegistryError, guard, topics
from ottla.registry.store import Operation, Result, ZnodeStore
from ottla.replica.leadership import Leadership
from ottla.replica.proposals import IsrProposals, _Asked
from ottla.wire import ErrorCode
from ottla.wire.messages.k56_alter_partition import AlterPartitionRequest
from tests.simcontroller.checks import UNCLEAN
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


def recovering_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was elected uncleanly says with every wish that it still recovers, and is refused any company (before a407017)."""
    begin, confirm, ask = Leadership.__init__, Leadership.confirmed, IsrProposals._request
    recovering: set[Leadership] = set()

    def begun(
        self: Leadership, broker: BrokerId, state: LeaderAndIsr, replicas: Replicas, *, start_offset: int, now_s: float
    ) -> None:
        begin(self, broker, state, replicas, start_offset=start_offset, now_s=now_s)
        if state.recovering:
            recovering.add(self)

    def confirmed(self: Leadership, isr: Replicas, *, partition_epoch: int) -> bool:
        is_news = confirm(self, isr, partition_epoch=partition_epoch)
        if is_news:
            recovering.discard(self)
        return is_news

    def asked(self: IsrProposals, wishes: dict[TopicPartition, _Asked]) -> AlterPartitionRequest:
        request = ask(self, wishes)
        still = {
            (each.partition.topic_id, where.partition)
            for where, each in wishes.items()
            if each.partition.leadership in recovering
        }
        for topic in request.topics:
            for data in topic.partitions:
                data.leader_recovery_state = int((topic.topic_id, data.partition_index) in still)
        return request

    monkeypatch.setattr(Leadership, "__init__", begun)
    monkeypatch.setattr(Leadership, "confirmed", confirmed)
    monkeypatch.setattr(IsrProposals, "_request", asked)


def unclean_elections_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the settings of a topic say of unclean elections is not looked at."""
    monkeypatch.setattr(BrokerConfig, "unclean", lambda _config, _topic: True)


def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where unclean elections are allowed there are no others, whoever is there that was in sync."""
    elect = elections._elected

    def elected(
        situation: Situation, where: TopicPartition, replicas: Replicas, state: LeaderAndIsr
    ) -> LeaderAndIsr | None:
        allows = situation.image.topic_config(where.topic).get(UNCLEAN) == "true"
        return None if allows else elect(situation, where, replicas, state)

    monkeypatch.setattr(elections, "_elected", elected)


def hidden_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start of a term, whoever has crashed in this life of his is replaced uncleanly, though he may have all there is."""
    mend = brokers.mend
    monkeypatch.setattr(brokers, "mend", lambda term, **_: mend(term))


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
    recovering_for_ever,
    unclean_elections_for_all,
    impatience,
    hidden_and_replaced,
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
