"""What a leader makes of its followers' fetches: high watermark, ISR, and who may be acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.metadata import BrokerId
from ottla.replica.errors import NotEnoughReplicasError, NotLeaderError, OffsetNotAvailableError
from ottla.replica.partition import ALL
from tests.unit.replica.pairs import Broker

A, B, C = 1, 2, 3
ALL_THREE = (A, B, C)
LAG_S = 10.0


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path, A)
    broker.order(A, 0, ALL_THREE, ALL_THREE)
    yield broker
    broker.close()


def fetched(leader: Broker, replica: int, offset: int, *, now_s: float = 0.0, broker_epoch: int = 7) -> None:
    leader.partition.fetched(replica, offset, 0, broker_epoch=broker_epoch, now_s=now_s)


def lag(leader: Broker, now_s: float) -> None:
    leader.partition.check_lag(now_s=now_s, lag_s=LAG_S)


def confirm(leader: Broker, *isr: int) -> None:
    proposal = leader.proposals.pop()
    leader.partition.isr_confirmed(
        proposal.leader_epoch, tuple(map(BrokerId, isr)), partition_epoch=proposal.partition_epoch + 1
    )


def proposed(leader: Broker) -> list[int]:
    (proposal,) = leader.proposals
    return sorted(member for member, _ in proposal.isr)


def test_the_high_watermark_is_what_all_in_sync_have(leader: Broker) -> None:
    leader.append("m1", "m2")
    fetched(leader, B, 2)
    assert leader.high_watermark == 0
    fetched(leader, C, 1)
    assert leader.high_watermark == 1
    fetched(leader, C, 2)
    assert leader.high_watermark == 2


def test_whoever_waits_is_woken_when_the_high_watermark_moves(leader: Broker) -> None:
    woken: list[int] = []
    leader.append("m1")
    leader.partition.wait(lambda: woken.append(leader.high_watermark))
    fetched(leader, B, 1)
    assert woken == []
    fetched(leader, C, 1)
    assert woken == [1]


def test_a_follower_is_woken_when_the_log_grows_and_a_consumer_is_not(leader: Broker) -> None:
    woken: list[str] = []
    leader.partition.wait(lambda: woken.append("consumer"))
    leader.partition.watch(lambda grown: woken.append(f"follower {grown}"))
    leader.append("m1")
    assert woken == ["follower True"]
    fetched(leader, B, 1)
    fetched(leader, C, 1)
    assert woken == ["follower True", "follower False", "consumer"]


def test_a_follower_that_had_to_wait_for_another_is_proposed_without_another_fetch(leader: Broker) -> None:
    leader.order(A, 1, (A,), ALL_THREE)
    fetched(leader, B, 0)
    fetched(leader, C, 0)
    assert proposed(leader) == [A, B]
    confirm(leader, A, B)
    assert proposed(leader) == [A, B, C]


def test_a_follower_at_the_end_is_not_late_however_long_nothing_came(leader: Broker) -> None:
    fetched(leader, B, 0)
    fetched(leader, C, 0)
    lag(leader, 100.0)
    leader.append("m1")
    lag(leader, 101.0)
    assert leader.proposals == []
    lag(leader, 100.0 + LAG_S + 1)
    assert proposed(leader) == [A]


def test_a_late_follower_leaves_only_once_the_controller_agrees(leader: Broker) -> None:
    leader.append("m1")
    fetched(leader, B, 1, now_s=LAG_S)
    lag(leader, LAG_S)
    assert leader.proposals == []
    lag(leader, LAG_S + 1)
    assert proposed(leader) == [A, B]
    assert leader.high_watermark == 0
    confirm(leader, A, B)
    assert (leader.partition.isr, leader.high_watermark) == ((A, B), 1)


def test_a_follower_that_left_for_being_late_shows_up_before_it_joins_again(leader: Broker) -> None:
    leader.partition.min_insync_replicas = 3  # so that the high watermark does not leave it behind
    leader.append("m1")
    for follower in (B, C):
        fetched(leader, follower, 1)
    leader.append("m2")
    fetched(leader, B, 2, now_s=LAG_S)
    lag(leader, 2 * LAG_S)
    assert proposed(leader) == [A, B]
    confirm(leader, A, B)
    assert leader.proposals == []
    fetched(leader, C, 2, now_s=2 * LAG_S)
    assert proposed(leader) == [A, B, C]


def test_one_proposal_at_a_time(leader: Broker) -> None:
    leader.append("m1")
    lag(leader, LAG_S + 1)
    lag(leader, LAG_S + 2)
    assert proposed(leader) == [A]


def test_whoever_is_to_join_counts_before_the_controller_has_agreed(leader: Broker) -> None:
    leader.append("m1")
    lag(leader, LAG_S + 1)
    confirm(leader, A)
    assert leader.high_watermark == 1
    fetched(leader, B, 1, now_s=20.0)
    assert proposed(leader) == [A, B]
    leader.append("m2")
    assert leader.high_watermark == 1
    fetched(leader, B, 2, now_s=20.0)
    assert leader.high_watermark == 2


def test_joining_takes_all_that_is_committed_and_all_of_earlier_epochs(leader: Broker) -> None:
    leader.append("m1", "m2", "m3")
    leader.order(A, 1, (A, B), ALL_THREE)
    fetched(leader, B, 1)
    assert leader.high_watermark == 1
    fetched(leader, C, 2)
    assert leader.proposals == []
    fetched(leader, C, 3)
    assert proposed(leader) == [A, B, C]


def test_a_proposal_carries_the_epochs_of_the_brokers_that_fetched(leader: Broker) -> None:
    leader.order(A, 1, (A,), ALL_THREE)
    fetched(leader, B, 0, broker_epoch=42)
    (proposal,) = leader.proposals
    assert proposal.isr == ((A, leader.broker_epoch), (B, 42))


def test_a_fetch_of_an_earlier_life_of_a_broker_does_not_count(leader: Broker) -> None:
    leader.append("m1")
    fetched(leader, B, 0, broker_epoch=8)
    with pytest.raises(NotLeaderError):
        fetched(leader, B, 1, broker_epoch=7)
    fetched(leader, C, 1)
    assert leader.high_watermark == 0


def test_a_stranger_does_not_count(leader: Broker) -> None:
    with pytest.raises(NotLeaderError):
        fetched(leader, 9, 0)


def test_a_member_that_lost_what_it_had_leaves_at_once(leader: Broker) -> None:
    leader.append("m1", "m2")
    fetched(leader, B, 2)
    fetched(leader, C, 2)
    assert leader.high_watermark == 2
    fetched(leader, C, 1, broker_epoch=8)
    assert proposed(leader) == [A, B]


def test_nothing_is_known_of_followers_in_a_new_epoch(leader: Broker) -> None:
    leader.append("m1")
    fetched(leader, B, 1)
    fetched(leader, C, 1)
    leader.order(A, 1, ALL_THREE, ALL_THREE)
    leader.append("m2")
    fetched(leader, B, 2)
    assert leader.high_watermark == 1


def test_an_answer_of_another_epoch_or_an_older_one_is_no_news(leader: Broker) -> None:
    lag(leader, LAG_S + 1)
    leader.append("m1")
    lag(leader, LAG_S + 1)
    proposal = leader.proposals.pop()
    leader.order(A, 1, ALL_THREE, ALL_THREE, version=5)
    leader.partition.isr_confirmed(proposal.leader_epoch, (BrokerId(A),), partition_epoch=9)
    leader.partition.isr_confirmed(1, (BrokerId(A),), partition_epoch=4)
    assert leader.partition.isr == ALL_THREE


def test_a_refused_proposal_can_be_made_again(leader: Broker) -> None:
    leader.order(A, 1, (A,), ALL_THREE)
    fetched(leader, B, 0)
    leader.proposals.clear()
    leader.partition.isr_refused(1)
    fetched(leader, B, 0)
    assert not leader.proposals, "not with every fetch"
    leader.partition.isr_open_again(1)
    assert proposed(leader) == [A, B]


def test_who_was_refused_is_not_waited_for(leader: Broker) -> None:
    """A broker that is about to stop fetches until it is gone, and the controller does not want it in the ISR."""
    leader.order(A, 1, (A, C), ALL_THREE)
    fetched(leader, C, 0)
    fetched(leader, B, 0)
    leader.append("m1")
    fetched(leader, C, 1)
    assert leader.high_watermark == 0, "B may be about to join"
    leader.partition.isr_refused(1)
    assert leader.high_watermark == 1
    leader.append("m2")
    fetched(leader, B, 2)
    leader.append("m3")
    fetched(leader, C, 3)
    assert leader.high_watermark == 3, "though it goes on fetching"


def test_who_is_gone_is_neither_waited_for_nor_proposed(leader: Broker) -> None:
    leader.order(A, 1, (A, C), ALL_THREE)
    fetched(leader, C, 0)
    fetched(leader, B, 0)
    leader.partition.isr_refused(1)
    leader.partition.isr_open_again(1)
    fetched(leader, B, 0)
    leader.partition.isr_refused(1)
    leader.append("m1")
    fetched(leader, B, 1)
    fetched(leader, C, 1)
    leader.proposals.clear()
    leader.partition.broker_gone(BrokerId(B))
    leader.partition.isr_open_again(1)
    assert not leader.proposals
    leader.append("m2")
    fetched(leader, C, 2)
    assert leader.high_watermark == 2
    fetched(leader, B, 2)
    assert B in proposed(leader), "it is back"


def test_who_was_gone_and_has_fetched_before_that_was_told_is_proposed_once_it_is_told_to_be_back(
    leader: Broker,
) -> None:
    """It has nothing more to fetch, and so will not show up again by itself."""
    leader.order(A, 1, (A, C), ALL_THREE)
    fetched(leader, C, 0)
    fetched(leader, B, 0)
    leader.partition.isr_refused(1)
    leader.proposals.clear()
    leader.partition.broker_gone(BrokerId(B))
    leader.partition.isr_open_again(1)
    assert not leader.proposals
    leader.partition.broker_back(BrokerId(B))
    assert B in proposed(leader)


def test_too_few_in_sync_are_refused_before_and_not_acknowledged_after(leader: Broker) -> None:
    leader.partition.min_insync_replicas = 2
    leader.append("m1", acks=ALL)
    lag(leader, LAG_S + 1)
    confirm(leader, A)
    assert leader.partition.is_under_min_isr
    assert not leader.partition.is_replicated(1)
    with pytest.raises(NotEnoughReplicasError):
        leader.append("m2", acks=ALL)
    leader.append("m2", acks=1)
    assert leader.high_watermark == 0


def test_a_new_leader_does_not_tell_the_end_before_it_knows_what_is_committed(leader: Broker) -> None:
    leader.append("m1", "m2")
    leader.order(A, 1, ALL_THREE, ALL_THREE)
    with pytest.raises(OffsetNotAvailableError):
        leader.partition.check_offsets_known()
    fetched(leader, B, 2)
    fetched(leader, C, 2)
    leader.partition.check_offsets_known()


def test_who_is_not_registered_any_more_leads_nothing(leader: Broker) -> None:
    leader.replicas.resign_all()
    with pytest.raises(NotLeaderError):
        leader.append("m1")
    leader.order(A, 0, ALL_THREE, ALL_THREE)
    leader.append("m1")
