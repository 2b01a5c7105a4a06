from __future__ import annotations

import pytest

from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.effects import Effects
from ottla.keeper.quorum.history import Recent, first_of
from ottla.keeper.quorum.learning import Learning, Phase
from ottla.keeper.quorum.membership import Membership, Timing
from ottla.keeper.quorum.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    CommitOnSync,
    LeaderInfo,
    LearnerInfo,
    LinkMessage,
    NewLeader,
    Ping,
    Pong,
    Propose,
    Role,
    Snapshot,
    Truncate,
    UpToDate,
)
from ottla.keeper.quorum.state import Durable

TIMING = Timing(tick_ms=1000, init_ms=5000, sync_ms=3000)
E1, E2, E3 = first_of(1), first_of(2), first_of(3)
LINK = 5


class Learner:
    """Server 1 learning from server 3, with the entries it is given."""

    def __init__(self, *zxids: int, accepted: int = 1, current: int = 1, observer: bool = False) -> None:
        recent = Recent(0)
        recent.append([Entry(zxid, b"x") for zxid in zxids])
        recent.applied_zxid = recent.last_zxid
        self.durable = Durable(accepted, current, recent.last_zxid)
        voters = frozenset({2, 3, 4} if observer else {1, 2, 3})
        self.machine = Learning(Membership(1, voters, frozenset({1}) - voters), TIMING, self.durable, recent, 3, 0)
        self.effects = Effects()

    def hear(self, *messages: LinkMessage, now_ms: int = 0) -> Effects:
        """What the last of them brought about."""
        for message in messages:
            self.effects = Effects()
            self.machine.on_message(LINK, message, now_ms, self.effects)
        return self.effects

    def sync(self, zxid: int) -> Effects:
        self.effects = Effects()
        self.durable.synced_zxid = zxid
        self.machine.on_synced(self.effects)
        return self.effects

    def connect(self) -> Effects:
        self.effects = Effects()
        self.machine.on_link_up(LINK, 0, self.effects)
        return self.effects

    def serve(self) -> None:
        self.connect()
        self.hear(LeaderInfo(2), NewLeader(2), UpToDate(self.machine.recent.last_zxid))
        assert self.machine.phase is Phase.SERVING


def propose(*zxids: int) -> Propose:
    return Propose(tuple(Entry(zxid, b"x") for zxid in zxids))


def test_it_says_who_it_is() -> None:
    assert Learner(E1).connect().send == [(LINK, LearnerInfo(1, 1, False))]
    assert Learner(accepted=4, current=0).connect().send == [(LINK, LearnerInfo(1, 4, True))]


def test_a_promise_is_written_and_then_made() -> None:
    learner = Learner(E1)
    learner.connect()
    effects = learner.hear(LeaderInfo(2))
    assert effects.accepted_epoch == 2
    assert effects.send == [(LINK, AckEpoch(True, 1, E1, True))]


def test_a_promise_made_before_is_confirmed_as_such() -> None:
    learner = Learner(E1, accepted=2)
    learner.connect()
    effects = learner.hear(LeaderInfo(2))
    assert effects.accepted_epoch is None
    assert effects.send == [(LINK, AckEpoch(False, 1, E1, True))]


def test_an_older_epoch_is_refused() -> None:
    learner = Learner(E1, accepted=5)
    learner.connect()
    assert learner.hear(LeaderInfo(4)).send == []
    assert learner.machine.failed is not None


def test_the_epoch_is_taken_over_only_when_every_entry_is_durable() -> None:
    learner = Learner(E1)
    learner.connect()
    effects = learner.hear(LeaderInfo(2), propose(E1 + 1, E1 + 2), NewLeader(2))
    assert (effects.current_epoch, effects.send) == (None, [])
    assert learner.sync(E1 + 1).send == []
    effects = learner.sync(E1 + 2)
    assert effects.current_epoch == 2
    assert effects.send == [(LINK, AckNewLeader(2, E1 + 2))]


def test_entries_are_logged_but_not_applied_while_synchronizing() -> None:
    learner = Learner(E1)
    learner.connect()
    effects = learner.hear(LeaderInfo(2), propose(E1 + 1))
    assert [entry.zxid for entry in effects.append] == [E1 + 1]
    assert effects.commit is None


def test_a_commit_before_up_to_date_is_not_believed() -> None:
    learner = Learner(E1)
    learner.connect()
    assert learner.hear(LeaderInfo(2), NewLeader(2), Commit(E1)).commit is None
    assert learner.machine.failed is not None


def test_it_serves_once_it_is_up_to_date() -> None:
    learner = Learner(E1)
    learner.connect()
    effects = learner.hear(LeaderInfo(2), NewLeader(2), UpToDate(E1))
    assert effects.commit == E1
    assert effects.role is not None
    assert (effects.role.role, effects.role.serving, effects.role.epoch) == (Role.FOLLOWING, True, 2)


def test_it_does_not_serve_while_its_tree_shows_more_than_is_committed() -> None:
    learner = Learner(E1, E1 + 1)
    learner.connect()
    assert learner.hear(LeaderInfo(2), NewLeader(2), UpToDate(E1)).role is None
    effects = learner.hear(Commit(E1 + 1))
    assert effects.role is not None
    assert effects.role.serving
    assert learner.hear(propose(E2), Commit(E2)).role is None


def test_an_observer_learns_the_same_way() -> None:
    learner = Learner(E1, observer=True)
    learner.connect()
    effects = learner.hear(LeaderInfo(2), NewLeader(2), UpToDate(E1))
    assert effects.role is not None
    assert effects.role.role is Role.OBSERVING


def test_proposals_are_acknowledged_when_they_are_durable() -> None:
    learner = Learner(E1)
    learner.serve()
    assert learner.hear(propose(E2, E2 + 1)).send == []
    assert learner.sync(E2).send == [(LINK, Ack(E2))]
    assert learner.sync(E2).send == []
    assert learner.sync(E2 + 1).send == [(LINK, Ack(E2 + 1))]


def test_commits_are_passed_on() -> None:
    learner = Learner(E1)
    learner.serve()
    assert learner.hear(propose(E2), Commit(E2)).commit == E2


@pytest.mark.parametrize("told_first", [True, False])
def test_what_needs_only_this_server_is_committed_when_it_is_durable_here(*, told_first: bool) -> None:
    learner = Learner(E1)
    learner.serve()
    if told_first:
        assert learner.hear(propose(E2, E2 + 1), CommitOnSync(E2 + 1)).commit is None
        assert learner.sync(E2).commit == E2
        assert learner.sync(E2 + 1).commit == E2 + 1
    else:
        learner.hear(propose(E2, E2 + 1))
        assert learner.sync(E2).commit is None
        assert learner.hear(CommitOnSync(E2 + 1)).commit == E2


def test_a_server_whose_tree_shows_too_much_may_complete_the_quorum_itself() -> None:
    learner = Learner(E1, E1 + 1)
    learner.connect()
    assert learner.hear(LeaderInfo(2), NewLeader(2), UpToDate(E1)).role is None
    effects = learner.hear(CommitOnSync(E1 + 1))
    assert effects.role is not None
    assert effects.role.serving


@pytest.mark.parametrize("announced", [CommitOnSync(E2), CommitOnSync(E1 + 5)])
def test_an_announcement_of_something_unknown_is_not_believed(announced: CommitOnSync) -> None:
    learner = Learner(E1)
    learner.serve()
    assert learner.hear(announced).commit is None
    assert learner.machine.failed is not None


def test_a_commit_of_something_unknown_is_not_believed() -> None:
    learner = Learner(E1)
    learner.serve()
    assert learner.hear(Commit(E2)).commit is None
    assert learner.machine.failed is not None


def test_a_hole_is_not_logged_and_only_a_snapshot_helps() -> None:
    learner = Learner(E1)
    learner.serve()
    assert learner.hear(propose(E2 + 1)).append == []
    assert learner.machine.failed is not None
    assert not learner.durable.whole


def test_a_truncation_shortens_the_history() -> None:
    learner = Learner(E1, E1 + 1, E1 + 2)
    learner.connect()
    assert learner.hear(LeaderInfo(2), Truncate(E1)).truncate_to == E1
    learner.machine.on_truncated(E1)
    assert learner.machine.failed is None
    assert (learner.machine.recent.last_zxid, learner.durable.synced_zxid) == (E1, E1)
    assert [entry.zxid for entry in learner.hear(propose(E2)).append] == [E2]


def test_a_history_cut_shorter_than_asked_starts_over_from_there() -> None:
    learner = Learner(E1, E3, current=3, accepted=3)
    learner.connect()
    learner.hear(LeaderInfo(4), Truncate(E2))
    learner.machine.on_truncated(E1)
    assert learner.machine.failed is not None
    assert learner.durable.whole
    assert learner.machine.recent.last_zxid == E1


def test_a_history_that_cannot_be_cut_needs_a_snapshot() -> None:
    learner = Learner(E1, E3, current=3, accepted=3)
    learner.connect()
    learner.hear(LeaderInfo(4), Truncate(E2))
    learner.machine.on_truncated(E3)
    assert learner.machine.failed is not None
    assert not learner.durable.whole


def test_a_snapshot_is_another_history_and_whole() -> None:
    learner = Learner(E1, E1 + 1)
    learner.durable.whole = False
    learner.connect()
    learner.hear(LeaderInfo(3), Snapshot(E2 + 9), propose(E2 + 10), NewLeader(3))
    assert learner.durable.whole
    assert learner.sync(E2 + 10).send == [(LINK, AckNewLeader(3, E2 + 10))]


@pytest.mark.parametrize(
    "message", [Truncate(E1), Snapshot(E1), UpToDate(E1), LeaderInfo(2), LearnerInfo(2, 1, False), Ack(E1)]
)
def test_what_does_not_belong_into_broadcast_ends_it(message: LinkMessage) -> None:
    learner = Learner(E1)
    learner.serve()
    learner.hear(message)
    assert learner.machine.failed is not None


@pytest.mark.parametrize(
    "message", [propose(E2), Commit(E1), CommitOnSync(E1), UpToDate(E1), Truncate(E1), Snapshot(E1)]
)
def test_what_does_not_belong_into_discovery_ends_it(message: LinkMessage) -> None:
    learner = Learner(E1)
    learner.connect()
    learner.hear(message)
    assert learner.machine.failed is not None


def test_pings_are_answered() -> None:
    learner = Learner(E1)
    learner.serve()
    assert learner.hear(Ping()).send == [(LINK, Pong())]


def test_a_silent_leader_is_given_up() -> None:
    learner = Learner(E1)
    learner.serve()
    learner.hear(Ping(), now_ms=1000)
    learner.machine.tick(4000)
    assert learner.machine.failed is None
    assert learner.machine.next_ms() == 4001
    learner.machine.tick(4001)
    assert learner.machine.failed is not None


def test_synchronization_takes_only_so_long() -> None:
    learner = Learner(E1)
    learner.connect()
    learner.hear(Ping(), now_ms=4900)
    learner.machine.tick(5001)
    assert learner.machine.failed is not None


def test_other_links_mean_nothing() -> None:
    learner = Learner(E1)
    learner.serve()
    effects = Effects()
    learner.machine.on_message(LINK + 1, Commit(E1), 0, effects)
    assert effects.close == [LINK + 1]
    learner.machine.on_link_down(LINK + 1)
    assert learner.machine.failed is None
    learner.machine.on_link_down(LINK)
    assert learner.machine.failed is not None
