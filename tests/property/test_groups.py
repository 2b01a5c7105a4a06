"""Groups under random requests, with time passing: what the log restores is what was there, and nobody waits for ever."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.formats import Stored
from ottla.coordinator.groups.group import Group, GroupState
from ottla.coordinator.groups.rebalance import Rebalance
from ottla.coordinator.groups.shard import GroupShard, Identity
from ottla.coordinator.outcome import Outcome
from ottla.metadata.ids import TopicPartition
from ottla.wire import ErrorCode
from ottla.wire.messages.k11_join_group import JoinGroupResponse
from ottla.wire.messages.k14_sync_group import SyncGroupResponse
from tests.groupmodel import GROUP, GroupModel, Waiting
from tests.sources import COMPILED

CONFIG = GroupConfig(initial_rebalance_delay_ms=1_000, size_max=5, retention_ms=500_000)
SESSION_MS, REBALANCE_MS = 10_000, 30_000
STEPS = 80


class Life:
    """One group's life out of a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.model = GroupModel(CONFIG)
        self.joins: list[Waiting[JoinGroupResponse]] = []
        self.syncs: list[Waiting[SyncGroupResponse]] = []
        self.joined: dict[str, JoinGroupResponse] = {}

    def step(self) -> None:
        draw, model = self.draw, self.model
        model.refusal = ErrorCode.NOT_ENOUGH_REPLICAS if draw.random() < 0.05 else None
        match draw.choices(("join", "sync", "beat", "leave", "commit", "time", "expire"), (8, 8, 4, 2, 4, 6, 1))[0]:
            case "join":
                self._join()
            case "sync" if self.joined:
                told = draw.choice(list(self.joined.values()))
                leads = told.leader == told.member_id
                shares = {each.member_id: f"for {each.member_id}".encode() for each in told.members} if leads else {}
                self.syncs.append(model.sync(told, shares, instance_id=_instance(told.member_id)))
            case "beat" if self.joined:
                told = draw.choice(list(self.joined.values()))
                model.heartbeat(told.member_id, told.generation_id, instance_id=_instance(told.member_id))
            case "leave" if self.joined:
                model.leave(Identity(draw.choice(list(self.joined)), None))
            case "commit":
                known = list(self.joined.values())
                told = draw.choice(known) if known else JoinGroupResponse()
                who = Identity(told.member_id, None, told.generation_id)
                where = TopicPartition("t", draw.randrange(3))
                model.commit({where: model.at(draw.randrange(100))}, draw.choice((who, Identity(""))))
            case "time":
                model.pass_time(draw.choice((10, 1_000, 5_000, 20_000)))
            case "expire":
                model.expire()
        self.hear()

    def _join(self) -> None:
        draw = self.draw
        known = list(self.joined)
        member_id = draw.choice(known) if known and draw.random() < 0.6 else ""
        static = draw.random() < 0.3
        name = draw.choice("xyz") if static and not member_id else None
        self.joins.append(
            self.model.join(
                member_id,
                instance_id=name or _instance(member_id),
                client="dynamic",
                protocols=draw.choice(((("range", b"1"),), (("range", b"2"), ("other", b"3")))),
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
                needs_known_id=not static and draw.random() < 0.5,
                can_skip_assignment=draw.random() < 0.5,
            )
        )

    def hear(self) -> None:
        for join in self.joins:
            if join.is_answered:
                if not join.answer.error_code or join.answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                    self.joined[join.answer.member_id] = join.answer
                elif join.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self.joined.pop(join.answer.member_id, None)
        self.joins = [join for join in self.joins if not join.is_answered]
        self.syncs = [sync for sync in self.syncs if not sync.is_answered]

    def check(self) -> None:
        """A broker that took over now would go on where this one is."""
        group = self.model.shard.groups.get(GROUP)
        again = self.model.restarted().shard.groups.get(GROUP)
        if group is None:
            assert again is None
            return
        _check_counts(group)
        offsets = {where: group.offsets.get(where) for where in group.offsets}
        restored = {} if again is None else {where: again.offsets.get(where) for where in again.offsets}
        assert restored == offsets
        if group.state is GroupState.STABLE:
            assert again is not None
            assert (again.state, again.generation, again.leader_id) == (group.state, group.generation, group.leader_id)
            assert {each.member_id: each.assignment for each in again.members.values()} == {
                each.member_id: each.assignment for each in group.members.values()
            }
            assert again.static_members == group.static_members


def _instance(member_id: str) -> str | None:
    """Ids of static members begin with their name."""
    name = member_id.partition("-")[0]
    return name if name in {"x", "y", "z"} else None


def _check_counts(group: Group) -> None:
    assert group.awaiting_join == sum(member.awaiting_join is not None for member in group.members.values())
    assert group.static_members == {
        member.instance_id: member.member_id for member in group.members.values() if member.instance_id is not None
    }
    assert group.leader_id is None or group.leader_id in group.members
    assert (group.state is GroupState.EMPTY) <= (not group.members)


@given(st.integers(0, 2**32))
def test_the_log_restores_what_was_there_and_nobody_waits_for_ever(seed: int) -> None:
    live_on(seed)


def live_on(seed: int) -> None:
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
        life.check()
    life.model.refusal = None
    # New members that nobody hears of are given up after five minutes, and then the others' sessions end.
    for _ in range(20):
        life.model.pass_time(60_000)
    life.hear()
    assert not life.joins
    assert not life.syncs
    group = life.model.shard.groups.get(GROUP)
    assert group is None or group.state is GroupState.EMPTY


# The checks themselves: each of these mistakes has to be found.


def _keeps_a_new_id_to_itself(patch: pytest.MonkeyPatch) -> None:
    write = Rebalance._write

    def wrong(self: Rebalance, assignments: Mapping[str, bytes]) -> None:
        if self._group.state is not GroupState.STABLE:
            write(self, assignments)

    patch.setattr(Rebalance, "_write", wrong)


def _writes_nothing(patch: pytest.MonkeyPatch) -> None:
    commit = GroupShard.commit

    def wrong(self: GroupShard, *arguments: Any) -> Outcome[Stored]:
        outcome = commit(self, *arguments)
        for offset, record in enumerate(outcome.records):
            self.replay(record, offset=offset, producer_id=-1)
        outcome.records = []
        return outcome

    patch.setattr(GroupShard, "commit", wrong)


def _forgets_who_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rebalance, "_refuse_syncs", lambda *_: None)


def _sets_no_sessions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rebalance, "_set_session", lambda *_: None)


@pytest.mark.skipif(COMPILED, reason="compiled methods stay as they are")
@pytest.mark.parametrize("mistake", [_keeps_a_new_id_to_itself, _writes_nothing, _forgets_who_waits, _sets_no_sessions])
def test_mistakes_are_found(mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    for seed in range(200):
        try:
            live_on(seed)
        except AssertionError:
            return
    pytest.fail("nothing was found")
