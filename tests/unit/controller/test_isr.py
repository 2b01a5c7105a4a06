"""AlterPartition: every refusal, and that what is granted changes nothing but the ISR."""

from __future__ import annotations

import pytest

from ottla.controller.machine.isr import Wish, judge
from ottla.controller.machine.situation import Situation
from ottla.metadata import BrokerId, BrokerRegistration, Image, LeaderAndIsr, LiveBroker, ReplicaAssignment, Topic
from ottla.metadata.ids import TopicPartition
from ottla.wire import ErrorCode

T0 = TopicPartition("t", 0)
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
STATE = LeaderAndIsr(ONE, 5, (ONE, TWO), 1, partition_epoch=9)


def situation(*alive: BrokerId, state: LeaderAndIsr = STATE, leaving: BrokerId | None = None) -> Situation:
    live = {broker: LiveBroker(BrokerRegistration(broker, ()), 70 + broker) for broker in alive}
    topic = Topic("t", None, {0: ReplicaAssignment((ONE, TWO, THREE))}, {0: state})
    image = Image(brokers=live).with_topic(topic)
    return Situation(image=image, controller_epoch=4, leaving=frozenset() if leaving is None else frozenset({leaving}))


def wish(*isr: int, epoch: int = 5, partition_epoch: int = 9, leader: int = 1, recovering: bool = False) -> Wish:
    return Wish(
        BrokerId(leader), epoch, partition_epoch, tuple((BrokerId(each), -1) for each in isr), recovering=recovering
    )


def test_an_isr_grows_and_shrinks_in_the_same_epoch() -> None:
    for isr in ((1, 2, 3), (1,), (1, 3)):
        new = judge(situation(ONE, TWO, THREE), T0, wish(*isr))
        assert new == STATE._replace(isr=tuple(map(BrokerId, isr)), controller_epoch=4)


def test_what_is_so_already_is_granted_again_since_the_answer_may_have_been_lost() -> None:
    for partition_epoch in (8, 9):
        assert judge(situation(ONE, TWO), T0, wish(1, 2, partition_epoch=partition_epoch)) is not None
    granted = judge(situation(ONE, TWO), T0, wish(1, 2, partition_epoch=8))
    assert granted == STATE


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (wish(1, 3, epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (wish(1, 3, epoch=6), ErrorCode.NOT_CONTROLLER),  # of which only a newer controller can have told
        (wish(2, 3, leader=2), ErrorCode.FENCED_LEADER_EPOCH),
        (wish(1, 3, partition_epoch=8), ErrorCode.INVALID_UPDATE_VERSION),
        (wish(1, 3, partition_epoch=10), ErrorCode.NOT_CONTROLLER),
        (wish(1, 2, partition_epoch=10), ErrorCode.NOT_CONTROLLER),
        (wish(2, 3), ErrorCode.INVALID_REQUEST),  # without its leader
        (wish(), ErrorCode.INVALID_REQUEST),
        (wish(1, 1), ErrorCode.INVALID_REQUEST),
        (wish(1, 4), ErrorCode.INVALID_REQUEST),  # which holds no replica
        (wish(1, recovering=True), ErrorCode.INVALID_REQUEST),  # only an election makes a leader recover
    ],
)
def test_who_is_late_or_makes_no_sense_is_refused(asked: Wish, code: ErrorCode) -> None:
    assert judge(situation(ONE, TWO, THREE), T0, asked) == code


def test_who_is_away_leaving_or_in_another_life_does_not_join() -> None:
    assert judge(situation(ONE, TWO), T0, wish(1, 3)) == ErrorCode.INELIGIBLE_REPLICA
    assert judge(situation(ONE, TWO, THREE, leaving=THREE), T0, wish(1, 3)) == ErrorCode.INELIGIBLE_REPLICA
    alive = situation(ONE, TWO, THREE)
    assert judge(alive, T0, wish()._replace(isr=((ONE, 71), (THREE, 72)))) == ErrorCode.INELIGIBLE_REPLICA
    assert isinstance(judge(alive, T0, wish()._replace(isr=((ONE, 71), (THREE, 73)))), LeaderAndIsr)
    failed = alive.with_failed(THREE, [T0])
    assert judge(failed, T0, wish(1, 3)) == ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_that_recovers_is_alone_until_it_has() -> None:
    recovering = STATE._replace(isr=(ONE,), recovering=True)
    known = situation(ONE, TWO, state=recovering)
    assert judge(known, T0, wish(1, 2, recovering=True)) == ErrorCode.INVALID_REQUEST
    done = judge(known, T0, wish(1))
    assert isinstance(done, LeaderAndIsr)
    assert not done.recovering


def test_what_there_is_not_or_is_going_is_unknown() -> None:
    assert judge(situation(ONE), TopicPartition("t", 7), wish(1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    known = situation(ONE)
    going = Situation(image=known.image, controller_epoch=4, deleting=frozenset({"t"}))
    assert judge(going, T0, wish(1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
