"""Who leads: every row of the table in ``elections``, and that nothing is written where nothing has to change."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.controller.acts.brokers import mend
from ottla.controller.machine.elections import (
    LogEnd,
    first_states,
    leaving_states,
    longest_state,
    moved_state,
    next_states,
    preferred_state,
    unbalanced,
    unclean_state,
    undecided,
)
from ottla.controller.machine.situation import Situation, States
from ottla.controller.term import ControllerConfig, Term
from ottla.metadata import BrokerId, BrokerRegistration, Image, LeaderAndIsr, LiveBroker, ReplicaAssignment, Topic
from ottla.metadata.ids import NO_LEADER, TopicPartition
from ottla.metadata.image import ControllerEpoch
from ottla.metadata.znodes.brokers import Mark
from ottla.registry.topics import StateUpdates

EPOCH = 7
T0 = TopicPartition("t", 0)


def brokers(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def scene(alive: tuple[int, ...], replicas: tuple[int, ...], state: LeaderAndIsr | None, *leaving: int) -> Situation:
    live = {number: LiveBroker(BrokerRegistration(number, ()), 1) for number in brokers(*alive)}
    states = {} if state is None else {0: state}
    image = Image(brokers=live).with_topic(Topic("t", None, {0: ReplicaAssignment(brokers(*replicas))}, states))
    return Situation(image=image, controller_epoch=EPOCH, leaving=frozenset(brokers(*leaving)))


def state(leader: int, isr: tuple[int, ...], *, epoch: int = 3) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), epoch, brokers(*isr), 1, partition_epoch=9)


@pytest.mark.parametrize(
    ("alive", "replicas", "leader", "isr"),
    [((1, 2, 3), (2, 3, 1), 2, (2, 3, 1)), ((1, 3), (2, 3, 1), 3, (3, 1)), ((1,), (2, 1), 1, (1,))],
)
def test_a_new_partition_is_led_by_its_first_live_replica(
    alive: tuple[int, ...], replicas: tuple[int, ...], leader: int, isr: tuple[int, ...]
) -> None:
    known = scene(alive, replicas, None)
    assert first_states(known, known.image.topics.values()) == {
        T0: LeaderAndIsr(BrokerId(leader), 0, brokers(*isr), EPOCH)
    }


def test_a_new_partition_without_a_live_replica_waits() -> None:
    known = scene((4,), (1, 2), None)
    assert first_states(known, known.image.topics.values()) == {}


def test_a_partition_that_has_a_state_is_not_begun_again() -> None:
    known = scene((1,), (1,), state(1, (1,)))
    assert first_states(known, known.image.topics.values()) == {}


@pytest.mark.parametrize(
    ("alive", "before", "leader", "isr"),
    [
        (
            (2, 3),
            (1, (1, 2, 3)),
            2,
            (2, 3),
        ),  # the leader is gone: the first live one in sync, in the order of the replicas
        ((3, 2), (1, (1, 3)), 3, (3,)),  # 2 is alive and not in sync
        ((1, 2), (1, (1, 2, 3)), 1, (1, 2)),  # a follower is gone
        ((2,), (NO_LEADER, (2,)), 2, (2,)),  # one in sync is back
        ((4,), (1, (1, 2)), NO_LEADER, (1, 2)),  # none is left: the last in sync stay listed
        ((3,), (1, (1, 2)), NO_LEADER, (1, 2)),  # 3 is alive, and may not lead
        ((1, 2, 4), (1, (1, 4, 2)), 1, (1, 2)),  # 4 holds no replica any more
        ((1, 2, 4), (4, (4, 2)), 2, (2,)),  # nor may it lead
        ((1,), (4, (4, 2)), NO_LEADER, (2,)),  # nor is it waited for
    ],
)
def test_the_next_state(
    alive: tuple[int, ...], before: tuple[int, tuple[int, ...]], leader: int, isr: tuple[int, ...]
) -> None:
    known = scene(alive, (1, 2, 3), state(*before))
    (new,) = next_states(known, lambda _: False).values()
    assert (new.leader, new.isr) == (leader, isr)
    assert (new.leader_epoch, new.controller_epoch) == (4, EPOCH)
    assert new.partition_epoch == 9, "the epoch the write is conditional on"


@pytest.mark.parametrize(
    ("alive", "before"), [((1, 2), (1, (1, 2))), ((4,), (NO_LEADER, (1, 2))), ((3,), (NO_LEADER, (1,)))]
)
def test_nothing_changes_where_nothing_has_to(alive: tuple[int, ...], before: tuple[int, tuple[int, ...]]) -> None:
    known = scene(alive, (1, 2, 3), state(*before))
    assert next_states(known, lambda _: False) == {}


@pytest.mark.parametrize(("leader", "comes_first"), [(3, True), (NO_LEADER, True), (1, False)])
def test_what_nobody_leads_can_be_told_from_what_has_lost_a_follower(leader: int, *, comes_first: bool) -> None:
    known = scene((1, 2), (1, 2, 3), state(leader, (1, 2, 3)))
    every = next_states(known, lambda _: False)
    assert list(every) == [T0]
    assert next_states(known, lambda _: False, only_leaders=True) == (every if comes_first else {})


@pytest.mark.parametrize("leader", [1, NO_LEADER])
def test_an_unclean_election_takes_whoever_is_alive(leader: int) -> None:
    known = scene((3,), (1, 2, 3), state(leader, (1,)))
    (new,) = next_states(known, lambda _: True).values()
    assert (new.leader, new.isr, new.recovering) == (3, (3,), True)


def test_an_unclean_election_still_prefers_who_is_in_sync() -> None:
    new = unclean_state(scene((1, 3), (1, 2, 3), state(2, (2, 3))), T0)
    assert new is not None
    assert (new.leader, new.isr, new.recovering) == (3, (3,), False)


@pytest.mark.parametrize(("isr", "unclean"), [((1,), 1), ((1, 3), 0)])
def test_leaders_that_were_not_in_sync_are_counted(isr: tuple[int, ...], unclean: int) -> None:
    known = scene((3,), (1, 2, 3), state(1, isr))

    async def written(states: States, _epoch: ControllerEpoch) -> StateUpdates:
        return StateUpdates(dict(states), {})

    registry = SimpleNamespace(topics=SimpleNamespace(update_states=written))
    config = ControllerConfig(broker_id=BrokerId(3), listener="PLAINTEXT", unclean=lambda _: True)
    epoch = ControllerEpoch(EPOCH, 0)
    term = Term(cast("Any", registry), config, epoch, known.image, cast("Any", None))
    asyncio.run(mend(term))
    assert term.image.topics["t"].states[0].leader == 3
    assert term.unclean_elections == unclean


@pytest.mark.parametrize(
    ("alive", "isr", "led"), [((1, 2), (2, 1), True), ((2,), (2, 1), False), ((1, 2), (2,), False)]
)
def test_the_preferred_replica_leads_if_it_is_alive_and_in_sync(
    alive: tuple[int, ...], isr: tuple[int, ...], led: bool
) -> None:
    new = preferred_state(scene(alive, (1, 2), state(2, isr)), T0)
    assert (None if new is None else (new.leader, new.isr, new.leader_epoch)) == ((1, isr, 4) if led else None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, (1, 2, 3)), (2, (2, 3))),  # it leads: another does, and it is in sync no more
        ((2, (1, 2, 3)), (2, (2, 3))),  # it follows
        ((1, (1,)), None),  # nobody else can
        ((2, (2, 3)), None),  # it is out of sync already
    ],
)
def test_who_leaves_leads_nothing(
    before: tuple[int, tuple[int, ...]], after: tuple[int, tuple[int, ...]] | None
) -> None:
    states = leaving_states(scene((1, 2, 3), (1, 2, 3), state(*before), 1), BrokerId(1))
    assert [(new.leader, new.isr) for new in states.values()] == ([] if after is None else [after])


def test_who_leaves_and_leads_on_is_left_alone_until_it_is_gone() -> None:
    assert next_states(scene((1, 2), (1, 2), state(1, (1,)), 1), lambda _: True) == {}


def test_a_replica_without_a_disk_neither_leads_nor_is_in_sync() -> None:
    known = scene((1, 2, 3), (1, 2, 3), state(1, (1, 2, 3))).with_failed(BrokerId(1), [T0])
    (new,) = next_states(known, lambda _: False).values()
    assert (new.leader, new.isr) == (2, (2, 3))


def test_a_moved_partition_keeps_its_leader_if_that_stays() -> None:
    known = scene((1, 2, 3), (1, 2, 3), state(2, (1, 2, 3)))
    kept, other = moved_state(known, T0, brokers(3, 2)), moved_state(known, T0, brokers(3, 1))
    assert kept is not None
    assert other is not None
    assert (kept.leader, other.leader) == (2, 3)
    assert moved_state(known, T0, brokers(4)) is None


def test_balance_is_restored_where_too_much_has_gone_astray() -> None:
    known = scene((1, 2), (1, 2), state(2, (1, 2)))
    assert unbalanced(known, 10) == [T0]
    assert unbalanced(known, 100) == []
    assert unbalanced(scene((2,), (1, 2), state(2, (1, 2))), 10) == []


def after_crashes(alive: tuple[int, ...], isr: tuple[int, ...], *crashed: int) -> Situation:
    """Nobody leads, and these brokers are back from a crash."""
    known = scene(alive, (1, 2, 3), state(NO_LEADER, isr))
    live = {
        broker: each._replace(registration=each.registration._replace(mark=Mark(clean=broker not in crashed)))
        for broker, each in known.image.brokers.items()
    }
    return known.with_image(known.image.with_brokers(live)).doubting(live)


@pytest.mark.parametrize(
    ("alive", "isr", "crashed", "after"),
    [
        ((1, 2), (1, 2), (1,), (2, (2,))),  # one that stopped in order is preferred, and alone in sync
        ((1, 2), (1,), (1,), (1, (1,))),  # the only one in sync leads, whatever it lost
        ((1, 3), (1, 2), (1,), None),  # another that was in sync may have more: it is waited for
        ((1, 2), (1, 2), (1, 2), None),  # all are back: their logs have to be compared
    ],
)
def test_who_crashed_leads_only_if_nobody_can_have_more(
    alive: tuple[int, ...], isr: tuple[int, ...], crashed: tuple[int, ...], after: tuple[int, tuple[int, ...]] | None
) -> None:
    states = next_states(after_crashes(alive, isr, *crashed), lambda _: False)
    assert [(new.leader, new.isr) for new in states.values()] == ([] if after is None else [after])


@pytest.mark.parametrize(
    ("alive", "isr", "crashed", "after"),
    [
        ((1, 2, 3), (2,), (2,), (2, (2,), False)),  # the only one in sync
        ((1, 3), (1, 2), (1,), (1, (1,), True)),  # it may lack something, and who was not in sync lacks more
        ((1, 2, 3), (2, 1), (1, 2), None),  # nothing has to be lost where logs can be compared
    ],
)
def test_an_unclean_election_prefers_who_was_in_sync_and_crashed(
    alive: tuple[int, ...],
    isr: tuple[int, ...],
    crashed: tuple[int, ...],
    after: tuple[int, tuple[int, ...], bool] | None,
) -> None:
    states = next_states(after_crashes(alive, isr, *crashed), lambda _: True)
    assert [(new.leader, new.isr, new.recovering) for new in states.values()] == ([] if after is None else [after])


def test_of_those_that_crashed_the_one_with_the_highest_epoch_and_then_the_longest_log_leads() -> None:
    known = after_crashes((1, 2, 3), (1, 2, 3), 1, 2, 3)
    assert undecided(known) == [T0]
    one, two, three = brokers(1, 2, 3)
    for ends, leader in (
        ({one: LogEnd(3, 5), two: LogEnd(3, 9), three: LogEnd(2, 50)}, 2),
        ({one: LogEnd(-1, -1), two: LogEnd(-1, -1), three: LogEnd(0, 0)}, 3),
    ):
        new = longest_state(known, T0, ends)
        assert new is not None
        assert (new.leader, new.isr, new.leader_epoch) == (leader, (leader,), 4)
    assert longest_state(known, T0, {one: LogEnd(3, 5)}) is None, "not all have told"


def test_a_crash_is_forgiven_with_a_leader_or_a_new_isr() -> None:
    known = after_crashes((1, 2, 3), (1, 2, 3), 1, 2, 3)
    assert not known.settled({T0: state(2, (2,))}).doubtful
    assert len(known.settled({T0: state(NO_LEADER, (1, 2))}).doubtful) == 2
    assert len(known.settled({}).doubtful) == 3
