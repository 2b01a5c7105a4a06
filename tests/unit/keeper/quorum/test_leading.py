from __future__ import annotations

import pytest

from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.effects import Effects
from ottla.keeper.quorum.history import COUNTER_MAX, Recent, first_of
from ottla.keeper.quorum.leading import PROPOSE_BYTES_MAX, Leading, Phase
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
    Snapshot,
    Truncate,
    UpToDate,
)
from ottla.keeper.quorum.state import Durable

TIMING = Timing(tick_ms=1000, init_ms=5000, sync_ms=3000)
E1, E2 = first_of(1), first_of(2)


class Leader:
    """A leader of epoch 2 that has the entries of epoch 1 it is given; server 1 of 1 to 5, with 6 observing."""

    def __init__(self, *zxids: int, voters: int = 3, epoch: int = 1, base: int = 0, blank: bool = False) -> None:
        recent = Recent(base)
        recent.append([Entry(zxid, b"x") for zxid in zxids])
        recent.applied_zxid = recent.last_zxid
        self.durable = Durable(epoch, 0 if blank else epoch, recent.last_zxid)
        members = Membership(1, frozenset(range(1, voters + 1)), frozenset({6}))
        self.machine = Leading(members, TIMING, self.durable, recent, 0)
        self.effects = Effects()

    def hear(self, link: int, *messages: LinkMessage, now_ms: int = 0) -> None:
        for message in messages:
            self.machine.on_message(link, message, now_ms, self.effects)

    def calls(self, server_id: int, *, accepted: int = 1, blank: bool = False, now_ms: int = 0) -> None:
        """A learner, over the link of its number."""
        self.hear(server_id, LearnerInfo(server_id, accepted, blank), now_ms=now_ms)

    def promises(
        self, server_id: int, last_zxid: int, *, epoch: int = 1, fresh: bool = True, whole: bool = True
    ) -> None:
        self.hear(server_id, AckEpoch(fresh, epoch, last_zxid, whole))

    def take(self) -> list[tuple[int, LinkMessage]]:
        sent, self.effects.send = self.effects.send, []
        return sent

    def take_to(self, link: int) -> list[LinkMessage]:
        return [message for to, message in self.take() if to == link]

    def establish(self, *servers: int) -> None:
        last_zxid = self.machine.recent.last_zxid
        for server_id in servers:
            self.calls(server_id)
        for server_id in servers:
            self.promises(server_id, last_zxid)
        for server_id in servers:
            self.hear(server_id, AckNewLeader(self.machine.epoch, last_zxid))
        assert self.machine.phase is Phase.BROADCAST
        self.take()

    def propose(self, count: int = 1) -> list[int]:
        zxids = []
        for _ in range(count):
            zxids.append(self.machine.next_zxid())
            self.machine.reserve(zxids[-1])
        self.machine.propose(tuple(Entry(zxid, b"x") for zxid in zxids), self.effects)
        return zxids

    def sync(self, zxid: int) -> None:
        self.durable.synced_zxid = zxid
        self.machine.on_synced(self.effects)


# Discovery.


def test_the_new_epoch_is_greater_than_any_that_was_promised() -> None:
    leader = Leader(E1, voters=5)
    leader.calls(2, accepted=7)
    assert leader.take() == []
    leader.calls(3, accepted=4)
    assert leader.machine.epoch == 8
    assert leader.effects.accepted_epoch == 8
    assert leader.take() == [(2, LeaderInfo(8)), (3, LeaderInfo(8))]


def test_a_learner_that_promised_a_newer_epoch_makes_the_leader_start_again_above_it() -> None:
    leader = Leader(E1)
    leader.establish(2)
    leader.calls(3, accepted=9)
    assert leader.machine.failed is not None
    assert leader.effects.accepted_epoch == 9


def test_strangers_and_doubles_are_shut_out() -> None:
    leader = Leader(E1)
    leader.calls(77)
    leader.calls(1)
    assert leader.effects.close == [77, 1]
    leader.calls(2)
    leader.hear(20, LearnerInfo(2, 1, False))
    assert leader.effects.close == [77, 1, 2]
    assert [learner.link for learner in leader.machine.learners] == [20]


def test_an_observer_does_not_help_to_a_quorum() -> None:
    leader = Leader(E1)
    leader.calls(6)
    assert leader.machine.phase is Phase.DISCOVERY


def test_a_blank_server_does_not_help_one_that_has_a_history() -> None:
    leader = Leader(E1)
    leader.calls(2, accepted=0, blank=True)
    assert leader.machine.phase is Phase.DISCOVERY
    leader.calls(3)
    leader.promises(2, 0, epoch=0)
    assert leader.durable.current_epoch == 1, "the promise of a blank server is none"
    leader.promises(3, E1)
    assert leader.durable.current_epoch == 2


def test_blank_servers_count_when_all_voters_are_there() -> None:
    leader = Leader(E1)
    leader.calls(2, blank=True)
    leader.calls(3, blank=True)
    assert leader.machine.phase is Phase.ESTABLISHING
    leader.promises(2, 0, epoch=0)
    assert leader.durable.current_epoch == 1
    leader.promises(3, 0, epoch=0)
    assert leader.durable.current_epoch == 2


def test_blank_servers_make_a_blank_leader() -> None:
    leader = Leader(epoch=0, blank=True)
    leader.calls(2, accepted=0, blank=True)
    assert leader.machine.epoch == 1


# Establishing.


def test_a_voter_with_a_longer_history_makes_the_leader_step_down() -> None:
    leader = Leader(E1)
    leader.calls(2)
    leader.promises(2, E1 + 1)
    assert leader.machine.failed == "server 2 has a longer history"


def test_an_observer_with_a_longer_history_does_not() -> None:
    leader = Leader(E1)
    leader.calls(6)
    leader.calls(2)
    leader.promises(6, E1 + 1)
    assert leader.machine.failed is None
    leader.promises(2, E1)
    assert leader.take_to(6)[-2:] == [Truncate(E1), NewLeader(2)]


def test_a_promise_made_to_another_before_does_not_count() -> None:
    leader = Leader(E1)
    leader.calls(2)
    leader.promises(2, E1, fresh=False)
    assert leader.durable.current_epoch == 1
    leader.calls(3)
    leader.promises(3, E1)
    assert leader.durable.current_epoch == 2


def test_a_promise_outlives_the_link_it_came_over() -> None:
    leader = Leader(E1, voters=5)
    leader.calls(2)
    leader.calls(3)
    leader.promises(2, E1)
    leader.machine.on_link_down(2)
    leader.promises(3, E1)
    assert leader.durable.current_epoch == 2


def test_the_epoch_is_not_begun_before_our_own_history_is_durable() -> None:
    leader = Leader(E1, E1 + 1)
    leader.durable.synced_zxid = E1
    leader.calls(2)
    leader.promises(2, E1)
    assert leader.effects.current_epoch is None
    leader.sync(E1 + 1)
    assert leader.effects.current_epoch == 2


@pytest.mark.parametrize(
    ("last_zxid", "whole", "expected"),
    [
        (E1 + 4, True, ["NewLeader"]),
        (E1 + 2, True, ["Propose", "NewLeader"]),
        (E1 + 9, True, ["Truncate", "NewLeader"]),
        (E1, True, ["Propose", "NewLeader"]),
        (E1 - 1, True, ["Snapshot", "NewLeader"]),
        (E1 + 4, False, ["Snapshot", "NewLeader"]),
    ],
)
def test_a_learner_is_made_equal_by_what_it_has(last_zxid: int, whole: bool, expected: list[str]) -> None:
    leader = Leader(*range(E1 + 1, E1 + 5), base=E1)
    leader.establish(3)
    leader.calls(2)
    leader.promises(2, last_zxid, whole=whole)
    assert [type(message).__name__ for message in leader.take_to(2) if not isinstance(message, LeaderInfo)] == expected


def test_what_follows_a_snapshot_is_what_the_tree_does_not_contain() -> None:
    leader = Leader(E1, E1 + 1, E1 + 2)
    leader.machine.recent.applied_zxid = E1 + 1
    leader.calls(2)
    leader.promises(2, E1, whole=False)
    _, snapshot, propose, new_leader = leader.take_to(2)
    assert (snapshot, new_leader) == (Snapshot(E1 + 1), NewLeader(2))
    assert propose == Propose((Entry(E1 + 2, b"x"),))


def test_the_history_is_committed_when_a_quorum_has_it() -> None:
    leader = Leader(E1, voters=5)
    leader.calls(2)
    leader.calls(3)
    leader.promises(2, E1)
    leader.promises(3, E1)
    leader.hear(2, AckNewLeader(2, E1))
    commits = [leader.effects.commit]
    leader.hear(3, AckNewLeader(2, E1))
    commits.append(leader.effects.commit)
    assert commits == [None, E1]
    assert leader.effects.role is not None
    assert leader.effects.role.serving


def test_an_acknowledgement_of_another_epoch_is_not_believed() -> None:
    leader = Leader(E1)
    leader.calls(2)
    leader.promises(2, E1)
    leader.hear(2, AckNewLeader(1, E1))
    assert leader.machine.phase is Phase.ESTABLISHING
    assert leader.effects.close == [2]


def test_no_quorum_in_time_ends_it() -> None:
    leader = Leader(E1)
    leader.machine.tick(5001, leader.effects)
    assert leader.machine.failed is not None


# Broadcast.


def test_a_transaction_commits_when_a_quorum_has_it_on_disk() -> None:
    leader = Leader(E1, voters=5)
    leader.establish(2, 3)
    (zxid,) = leader.propose()
    assert zxid == E2
    leader.hear(2, Ack(zxid))
    leader.sync(zxid)
    assert leader.machine.committed_zxid == E1
    leader.hear(3, Ack(zxid))
    assert leader.machine.committed_zxid == zxid
    assert (2, Commit(zxid)) in leader.take()


def test_who_could_be_the_last_of_a_quorum_is_told() -> None:
    leader = Leader(E1)
    leader.establish(2, 3)
    (zxid,) = leader.propose()
    leader.take()
    leader.sync(zxid)
    assert leader.take() == [(2, CommitOnSync(zxid)), (3, CommitOnSync(zxid))]
    leader.hear(2, Ack(zxid))
    assert leader.machine.committed_zxid == zxid
    assert leader.take() == [], "both find out from their own disks"
    leader.machine.tick(1, leader.effects)
    assert (3, Commit(zxid)) in leader.take(), "but that of 3 is slow"
    leader.machine.tick(2, leader.effects)
    assert leader.take() == []


def test_nobody_is_told_while_two_are_missing() -> None:
    leader = Leader(E1, voters=5)
    leader.establish(2, 3)
    (zxid,) = leader.propose()
    leader.take()
    leader.sync(zxid)
    assert leader.take() == []
    leader.hear(2, Ack(zxid))
    assert leader.take() == [(3, CommitOnSync(zxid))]


def test_an_observer_is_never_told_to_complete_a_quorum() -> None:
    leader = Leader(E1)
    leader.establish(2)
    leader.calls(6)
    leader.promises(6, E1)
    leader.hear(6, AckNewLeader(2, E1))
    (zxid,) = leader.propose()
    leader.take()
    leader.sync(zxid)
    assert leader.take() == [(2, CommitOnSync(zxid))]


def test_the_leaders_own_disk_may_be_the_last() -> None:
    leader = Leader(E1)
    leader.establish(2, 3)
    (zxid,) = leader.propose()
    leader.hear(2, Ack(zxid))
    leader.hear(3, Ack(zxid))
    assert leader.machine.committed_zxid == zxid
    assert leader.durable.synced_zxid < zxid


def test_acknowledgements_are_cumulative() -> None:
    leader = Leader(E1)
    leader.establish(2)
    *_, last = leader.propose(3)
    leader.sync(last)
    leader.hear(2, Ack(last))
    assert leader.machine.committed_zxid == last


def test_an_observers_acknowledgement_does_not_count() -> None:
    leader = Leader(E1)
    leader.establish(2)
    leader.calls(6)
    leader.promises(6, E1)
    leader.hear(6, AckNewLeader(2, E1))
    (zxid,) = leader.propose()
    leader.sync(zxid)
    leader.hear(6, Ack(zxid))
    assert leader.machine.committed_zxid == E1


def test_a_late_learner_gets_everything_once_and_the_commits_it_can_use() -> None:
    leader = Leader(E1)
    leader.establish(2)
    (first,) = leader.propose()
    leader.take()
    leader.calls(3)
    leader.promises(3, E1)
    (second,) = leader.propose()
    leader.sync(second)
    leader.hear(2, Ack(second))
    leader.hear(3, AckNewLeader(2, first))
    got = leader.take_to(3)
    proposed = [entry.zxid for message in got if isinstance(message, Propose) for entry in message.entries]
    assert proposed == [first, second]
    assert got[-1] == UpToDate(second)
    assert not any(isinstance(message, Commit) for message in got)


def test_long_runs_are_cut_into_messages_of_bounded_size() -> None:
    leader = Leader()
    entries = [Entry(E1 + i, bytes(PROPOSE_BYTES_MAX // 2)) for i in range(5)]
    leader.machine.recent.append(entries)
    leader.durable.synced_zxid = entries[-1].zxid
    leader.calls(2)
    leader.promises(2, 0)
    proposals = [message for message in leader.take_to(2) if isinstance(message, Propose)]
    assert [len(message.entries) for message in proposals] == [2, 2, 1]
    assert [entry for message in proposals for entry in message.entries] == entries


def test_a_learner_that_speaks_out_of_turn_is_dropped() -> None:
    leader = Leader(E1)
    leader.establish(2)
    leader.calls(3)
    leader.hear(3, Ack(E1))
    leader.hear(99, Pong())
    leader.hear(2, UpToDate(E1))
    assert leader.effects.close == [3, 99, 2]


def test_silent_learners_are_dropped_and_without_a_quorum_the_leader_steps_down() -> None:
    leader = Leader(E1)
    leader.establish(2)
    for now_ms in range(0, 4000, 500):
        leader.machine.tick(now_ms, leader.effects)
    assert leader.effects.close == [2]
    assert leader.machine.failed == "no quorum of followers left"


def test_a_learner_that_answers_pings_stays() -> None:
    leader = Leader(E1)
    leader.establish(2)
    for now_ms in range(0, 10_000, 500):
        leader.machine.tick(now_ms, leader.effects)
        leader.hear(2, Pong(), now_ms=now_ms)
    assert leader.machine.failed is None
    assert (2, Ping()) in leader.take()


def test_the_last_zxid_of_an_epoch_ends_it() -> None:
    leader = Leader(E1)
    leader.establish(2)
    leader.machine._last_proposed = 2 << 32 | COUNTER_MAX - 1
    leader.machine.reserve(leader.machine.next_zxid())
    assert leader.machine.failed == "the counter of this epoch is used up"
