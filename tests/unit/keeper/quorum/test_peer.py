"""Whole machines on the stage that scenarios play on: what must hold whatever the trace looks like."""

from __future__ import annotations

import pytest

from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.effects import LinkDown, LinkUp, Notified, Proposed, Received
from ottla.keeper.quorum.election import Election
from ottla.keeper.quorum.history import first_of
from ottla.keeper.quorum.leading import Leading
from ottla.keeper.quorum.learning import Learning
from ottla.keeper.quorum.messages import LearnerInfo, Notification, Ping, Role, Vote
from ottla.keeper.quorum.peer import Peer
from tests.scenarios.stage import Stage

E1 = first_of(1)


def started(voters: int, observers: int = 0, *, without: tuple[int, ...] = ()) -> Stage:
    stage = Stage(voters, observers)
    for i in stage.actors:
        if i not in without:
            stage.start(i)
    stage.run(500)
    return stage


def peer(stage: Stage, server_id: int) -> Peer:
    machine = stage.actors[server_id].peer
    assert machine is not None
    return machine


def leader_of(stage: Stage) -> int:
    (leader,) = [i for i, actor in stage.actors.items() if actor.peer and isinstance(actor.peer.state, Leading)]
    return leader


def logs(stage: Stage) -> list[list[int]]:
    return [[entry.zxid for entry in actor.disk.log] for actor in stage.actors.values()]


def test_a_lone_server_leads_at_once() -> None:
    stage = started(1)
    stage.propose(1, 3)
    stage.run()
    assert stage.actors[1].committed == E1 + 2


@pytest.mark.parametrize("voters", [3, 5, 7])
def test_the_highest_of_equals_leads(voters: int) -> None:
    assert leader_of(started(voters)) == voters


def test_the_longest_history_leads() -> None:
    stage = started(3)
    stage.stop(1)
    stage.propose(3)
    stage.run()
    stage.stop(3)
    stage.run(500)
    stage.stop(2)
    stage.start(1)
    stage.start(2)
    stage.run(500)
    assert leader_of(stage) == 2


def test_everything_committed_reaches_everybody() -> None:
    stage = started(5, 1)
    stage.propose(5, 10)
    stage.run()
    assert logs(stage) == [list(range(E1, E1 + 10))] * 6
    assert {actor.committed for actor in stage.actors.values()} == {E1 + 9}


def test_every_leader_has_an_epoch_of_its_own() -> None:
    stage, epochs = started(3), []
    for leader in (3, 2, 3, 2):
        assert leader_of(stage) == leader
        epochs.append(stage.actors[leader].disk.current_epoch)
        stage.propose(leader)
        stage.run()
        stage.stop(leader)
        stage.run(500)
        stage.start(leader)
        stage.stop(1)
        stage.start(1)
        stage.run(4000)
        if leader_of(stage) == leader:
            stage.stop(leader)
            stage.run(500)
            stage.start(leader)
            stage.run(500)
    assert epochs == sorted(set(epochs))


def test_without_a_quorum_nothing_happens() -> None:
    stage = started(5, without=(1, 2, 3))
    stage.run(5000)
    assert all(isinstance(peer(stage, i).state, Election) for i in (4, 5))


def test_a_committed_transaction_survives_its_leader() -> None:
    stage = started(3)
    stage.propose(3)
    stage.run()
    stage.stop(3)
    stage.run(500)
    assert stage.actors[leader_of(stage)].committed == E1


def test_an_unsynced_transaction_is_not_acknowledged() -> None:
    stage = started(3)
    stage.actors[1].disk.is_slow = stage.actors[2].disk.is_slow = True
    stage.propose(3)
    stage.run(100)
    assert stage.actors[3].committed == 0
    stage.sync(1)
    stage.run()
    assert stage.actors[3].committed == E1


def test_a_learner_that_calls_too_early_is_kept_waiting() -> None:
    stage = Stage(3)
    stage.start(1)
    machine = peer(stage, 1)
    machine.step(Received(4, LearnerInfo(2, 0, True)), 0)
    vote = Vote(0, 0, 1)
    machine.step(Notified(Notification(2, Role.LOOKING, 1, vote, blank=True)), 0)
    effects = machine.step(Notified(Notification(3, Role.LOOKING, 1, vote, blank=True)), 0)
    assert isinstance(machine.state, Leading)
    assert [link for link, _ in effects.send] == [4]


def test_a_learner_that_called_in_vain_is_sent_away() -> None:
    stage = Stage(3)
    stage.start(1)
    machine = peer(stage, 1)
    machine.step(Received(4, LearnerInfo(2, 0, True)), 0)
    for now_ms in range(0, 600, 100):
        stage.now_ms = now_ms
        stage.run(100)
    vote = Vote(0, 0, 3)
    machine.step(Notified(Notification(2, Role.LOOKING, 1, vote, blank=True)), 600)
    effects = machine.step(Notified(Notification(3, Role.LOOKING, 1, vote, blank=True)), 600)
    assert isinstance(machine.state, Learning)
    assert 4 not in [link for link, _ in effects.send]


def following() -> Peer:
    """Server 1, which has just decided to follow 3 and is calling it; 2 had called before, over link 4."""
    stage = Stage(3)
    stage.start(1)
    machine = peer(stage, 1)
    machine.step(Received(4, Ping()), 0)
    vote = Vote(0, 0, 3)
    machine.step(Notified(Notification(2, Role.LOOKING, 1, vote, blank=True)), 0)
    machine.step(Notified(Notification(3, Role.LOOKING, 1, vote, blank=True)), 0)
    assert isinstance(machine.state, Learning)
    return machine


def test_the_end_of_somebody_elses_link_does_not_end_our_call() -> None:
    machine = following()
    machine.step(LinkDown(4), 10)
    assert isinstance(machine.state, Learning)
    machine.step(LinkUp(9), 20)
    assert machine.state.link == 9


def test_a_call_that_comes_to_nothing_ends_it() -> None:
    machine = following()
    effects = machine.step(LinkDown(9), 10)
    assert isinstance(machine.state, Election)
    assert effects.role is not None
    assert effects.role.role is Role.LOOKING


def test_a_link_that_nobody_wants_any_more_is_closed() -> None:
    machine = following()
    machine.step(LinkDown(9), 10)
    assert machine.step(LinkUp(9), 20).close == [9]


def test_strangers_are_not_listened_to() -> None:
    machine = following()
    assert machine.step(Notified(Notification(77, Role.LOOKING, 1, Vote(9, 9, 77), blank=False)), 0).notify == []


def test_stepping_down_says_nothing_more_but_keeps_what_was_logged() -> None:
    stage = started(3)
    leading = stage.actors[3].leading
    leading._last_proposed = 1 << 32 | 0xFFFFFFFE
    leading.recent.reset(1 << 32 | 0xFFFFFFFE)
    zxid = leading.next_zxid()
    leading.reserve(zxid)
    effects = peer(stage, 3).step(Proposed((Entry(zxid, b"x"),)), 600)
    assert [entry.zxid for entry in effects.append] == [zxid]
    assert effects.send == []
    assert isinstance(peer(stage, 3).state, Election)


def test_one_promise_never_makes_two_leaders_of_an_epoch() -> None:
    """1 promises epoch 2 to 3, and is lost to it before 3 hears of that; then 2 wants to lead epoch 2 with it."""
    stage = started(3)
    stage.stop(1)
    stage.stop(2)
    stage.run(4000)
    for i in (1, 2):
        stage.actors[i].disk.accepted_epoch = 1
    stage.actors[1].disk.accepted_epoch = 2
    stage.stop(3)
    stage.start(1)
    stage.start(2)
    stage.run(1000)
    assert stage.actors[leader_of(stage)].disk.current_epoch == 3
