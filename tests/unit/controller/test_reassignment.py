"""Moves: what begins one, what is refused and in which words, and when one is complete; and what holds a deletion up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.machine.deletion import Deletion
from ottla.controller.machine.reassignment import Refusal, is_complete, plan, under_way
from ottla.controller.machine.situation import Replica, Situation
from ottla.metadata import BrokerId, BrokerRegistration, Image, LeaderAndIsr, LiveBroker, ReplicaAssignment, Topic
from ottla.metadata.ids import TopicPartition
from ottla.wire import ErrorCode

T0 = TopicPartition("t", 0)


def brokers(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def situation(assignment: ReplicaAssignment, isr: tuple[BrokerId, ...], *alive: int) -> Situation:
    live = {broker: LiveBroker(BrokerRegistration(broker, ()), 70 + broker) for broker in brokers(*alive)}
    topic = Topic("t", None, {0: assignment}, {0: LeaderAndIsr(isr[0], 5, isr, 1)})
    return Situation(image=Image(brokers=live).with_topic(topic), controller_epoch=4)


HERE = ReplicaAssignment(brokers(1, 2))
MOVING = HERE.reassign_to(brokers(2, 3))


def test_a_move_names_who_comes_and_who_goes() -> None:
    begun = plan(situation(HERE, brokers(1, 2), 1, 2, 3), T0, [2, 3])
    assert begun == ReplicaAssignment(brokers(2, 3, 1), adding=brokers(3), removing=brokers(1))


def test_a_move_is_complete_when_all_that_stay_are_in_sync() -> None:
    assert not is_complete(situation(MOVING, brokers(1, 2), 1, 2, 3), T0)
    assert is_complete(situation(MOVING, brokers(1, 2, 3), 1, 2, 3), T0)
    assert under_way(situation(MOVING, brokers(1, 2), 1, 2, 3)) == [T0]
    assert under_way(situation(HERE, brokers(1, 2), 1, 2, 3)) == []


def test_a_move_is_taken_back_and_another_one_drops_what_the_first_was_adding() -> None:
    known = situation(MOVING, brokers(1, 2), 1, 2, 3, 4)
    # As with Kafka, the way back keeps the order that the move had brought.
    assert plan(known, T0, None) == ReplicaAssignment(brokers(2, 1))
    assert plan(known, T0, [1, 4]).replicas == brokers(1, 4, 2)


def test_as_long_as_nothing_that_stays_is_in_sync_what_is_in_sync_stays() -> None:
    known = situation(MOVING, brokers(3), 1, 2, 3)
    back = plan(known, T0, None)
    assert (back.replicas, back.adding, back.removing) == (brokers(2, 1, 3), (), brokers(3))
    assert back.target_replicas == brokers(2, 1)


@pytest.mark.parametrize(
    ("target", "code", "reason"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Empty replica list"),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate replica ids"),
        ([-1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Invalid broker id"),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not alive"),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
    ],
)
def test_what_cannot_be_is_refused(target: list[int] | None, code: ErrorCode, reason: str | None) -> None:
    with pytest.raises(Refusal) as refused:
        plan(situation(HERE, brokers(1, 2), 1, 2, 3), T0, target)
    assert refused.value.code == code
    assert (reason is None and refused.value.message is None) or str(reason) in str(refused.value.message)


def test_one_that_holds_a_replica_may_be_away() -> None:
    assert plan(situation(HERE, brokers(1), 1, 3), T0, [1, 2, 3]).adding == brokers(3)


replica_lists = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)


@given(replica_lists, replica_lists, replica_lists, st.data())
def test_no_sequence_of_wishes_drops_the_last_in_sync(
    start: list[int], first: list[int], second: list[int], data: st.DataObject
) -> None:
    """C7: whatever is wished for, somebody in sync keeps a replica, and everybody who is to come is among the replicas."""
    assignment = ReplicaAssignment(brokers(*start))
    isr = brokers(*data.draw(st.lists(st.sampled_from(start), min_size=1, unique=True)))
    for target in (first, second, None):
        known = situation(assignment, isr, *range(1, 7))
        if target is None and not assignment.is_being_reassigned:
            continue
        assignment = plan(known, T0, target)
        assert set(isr) & set(assignment.replicas)
        assert len(set(assignment.replicas)) == len(assignment.replicas)
        if target is not None:
            assert set(target) <= set(assignment.replicas)
            assert set(assignment.target_replicas) == set(target)
        isr = tuple(broker for broker in isr if broker in assignment.replicas)


def test_a_deletion_asks_everybody_once_in_each_life_and_waits_for_who_is_away() -> None:
    known = situation(HERE, brokers(1, 2), 1)
    deletion = Deletion(known.image.topics["t"])
    assert deletion.ask(known) == [Replica(T0, BrokerId(1))]
    assert deletion.ask(known) == []
    assert deletion.is_held_up(known)
    deletion.gone(Replica(T0, BrokerId(1)))
    back = situation(HERE, brokers(1, 2), 1, 2)
    assert not deletion.is_held_up(back)
    assert deletion.ask(back) == [Replica(T0, BrokerId(2))]
    again = back.with_image(back.image.with_broker(LiveBroker(BrokerRegistration(BrokerId(2), ()), 99)))
    assert deletion.ask(again) == [Replica(T0, BrokerId(2))], "it did not answer in the life before"
    deletion.gone(Replica(T0, BrokerId(2)))
    assert deletion.is_done
