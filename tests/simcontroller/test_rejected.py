"""Every design that was given up breaks a history of ours: the simulation would have found what others found in production."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.controller.machine.isr import Wish, judge
from ottla.controller.machine.situation import Situation
from ottla.metadata import BrokerId, BrokerRegistration, Image, LeaderAndIsr, LiveBroker, ReplicaAssignment, Topic
from ottla.metadata.ids import TopicPartition
from ottla.replica.leadership import Leadership
from ottla.wire import ErrorCode
from tests.simcontroller.rejected import (
    DESIGNS,
    Design,
    Patch,
    high_watermark_by_the_confirmed_isr_alone,
    one_look_at_epochs,
    one_that_left_joins_unheard,
    stale_registrations_join,
)
from tests.simcontroller.world import simulate
from tests.unit.replica.world import World

SEED_OF_TWO_QUICK_ELECTIONS = 62
SEEDS_BEHIND = 30
"""Another order of messages makes another history of every seed: then one of the next will do."""
PROMISE = re.compile(r"L\d+: ")
RARE = [high_watermark_by_the_confirmed_isr_alone, one_that_left_joins_unheard]
QUICK = [design for design in DESIGNS if design not in RARE]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("design", QUICK, ids=lambda design: design.__name__)
def test_a_design_that_was_given_up_is_caught(design: Design, monkeypatch: Patch) -> None:
    catch(design, monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("design", RARE, ids=lambda design: design.__name__)
def test_a_design_that_takes_more_histories_is_caught(design: Design, monkeypatch: Patch) -> None:
    catch(design, monkeypatch)


def catch(design: Design, patch: Patch) -> None:
    seed = DESIGNS[design]
    design(patch)
    for each in range(seed, seed + SEEDS_BEHIND):
        try:
            simulate(each)
        except AssertionError as error:
            if PROMISE.match(str(error)):
                return
    pytest.fail(f"{design.__name__} was not found in {SEEDS_BEHIND} histories")


@pytest.mark.timeout(600)
def test_one_look_at_epochs_is_caught_where_every_step_is_drawn(tmp_path: Path, monkeypatch: Patch) -> None:
    """KIP-279 takes two elections within the time of one fetch: in that world, messages wait for as long as you like."""
    one_look_at_epochs(monkeypatch)
    for seed in range(SEED_OF_TWO_QUICK_ELECTIONS, SEED_OF_TWO_QUICK_ELECTIONS + 100):
        try:
            World(tmp_path / str(seed), seed).run()
        except AssertionError:
            return
    pytest.fail("a single look at epochs was not found")


def test_a_stale_registration_that_joins_is_caught(monkeypatch: Patch) -> None:
    """KIP-903: a follower catches up, crashes, and is back under another epoch before it is judged."""
    where, one, two = TopicPartition("t", 0), BrokerId(1), BrokerId(2)
    state = LeaderAndIsr(one, 5, (one,), 1)
    leadership = Leadership(one, state, (one, two), start_offset=0, now_s=0.0)
    leadership.fetched(two, 0, 0, broker_epoch=71, end_offset=0, now_s=0.0)
    proposal = leadership.propose_joining(two, broker_epoch=70)
    live = {one: LiveBroker(BrokerRegistration(one, ()), 70), two: LiveBroker(BrokerRegistration(two, ()), 72)}
    topic = Topic("t", None, {0: ReplicaAssignment((one, two))}, {0: state})
    situation = Situation(image=Image(brokers=live).with_topic(topic))
    wish = Wish(one, proposal.leader_epoch, proposal.partition_epoch, proposal.isr)
    assert judge(situation, where, wish) == ErrorCode.INELIGIBLE_REPLICA
    stale_registrations_join(monkeypatch)
    assert isinstance(judge(situation, where, wish), LeaderAndIsr), "the design is not the one that was given up"
