"""Servers that die and come back under load. Nothing that was acknowledged is lost, and nobody sees time run backwards."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.chaos.failover import DEFAULT_TICKS, measure
from tests.chaos.trial import SMALL_TICKS, trial
from tests.peers import OttlaKeepers


def test_the_leader_is_killed(tmp_path: Path) -> None:
    kill_leaders(tmp_path, rounds=2)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_leader_is_killed_again_and_again(tmp_path: Path) -> None:
    kill_leaders(tmp_path, rounds=40)


def kill_leaders(tmp_path: Path, rounds: int) -> None:
    with trial(OttlaKeepers(3, tmp_path, settings=SMALL_TICKS), tmp_path) as (keepers, load):
        for _ in range(rounds):
            load.wait_acked(40)
            leader = keepers.leader()
            keepers.kill(leader)
            load.wait_acked(40)
            keepers.restart(leader)


def test_all_are_killed_at_once(tmp_path: Path) -> None:
    kill_all(tmp_path, rounds=1)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_all_are_killed_at_once_again_and_again(tmp_path: Path) -> None:
    kill_all(tmp_path, rounds=25)


def kill_all(tmp_path: Path, rounds: int) -> None:
    """Snapshots are frequent here, so that restarts find them in every state."""
    settings = {**SMALL_TICKS, "snapCount": "100"}
    with trial(OttlaKeepers(3, tmp_path, settings=settings), tmp_path) as (keepers, load):
        for _ in range(rounds):
            load.wait_acked(60)
            keepers.stop()
            keepers.start()
        load.wait_acked(20)


@pytest.mark.long
def test_two_of_five_are_killed_together(tmp_path: Path) -> None:
    with trial(OttlaKeepers(5, tmp_path, settings=SMALL_TICKS), tmp_path) as (keepers, load):
        for _ in range(12):
            load.wait_acked(30)
            victims = [keepers.leader(), keepers.followers()[0]]
            for victim in victims:
                keepers.kill(victim)
            load.wait_acked(30)
            for victim in victims:
                keepers.restart(victim)


@pytest.mark.long
@pytest.mark.parametrize("observers", [0, 1])
def test_servers_are_restarted_one_by_one(tmp_path: Path, observers: int) -> None:
    ensemble = OttlaKeepers(3, tmp_path, settings=SMALL_TICKS, observers=observers)
    with trial(ensemble, tmp_path) as (keepers, load):
        for index in list(range(len(keepers.servers))) * 6:
            load.wait_acked(20)
            keepers.restart(index)
        load.wait_acked(20)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("commit_log_count", ["500", "5"], ids=["by what is missing", "by a snapshot"])
def test_a_follower_is_killed_while_it_synchronizes(tmp_path: Path, commit_log_count: str) -> None:
    draw = random.Random(commit_log_count)
    settings = {**SMALL_TICKS, "commitLogCount": commit_log_count}
    with trial(OttlaKeepers(3, tmp_path, settings=settings), tmp_path) as (keepers, load):
        for _ in range(25):
            victim = keepers.followers()[0]
            keepers.kill(victim)
            load.wait_acked(30)
            keepers.servers[victim].start()
            time.sleep(draw.uniform(0.2, 0.8))  # somewhere between its first line of code and its first client
            keepers.kill(victim)
            keepers.restart(victim)


@pytest.mark.long
def test_writes_succeed_again_within_a_second(tmp_path: Path) -> None:
    with OttlaKeepers(3, tmp_path, settings=DEFAULT_TICKS) as keepers:
        figures = measure(keepers)
    print(figures)
    assert figures.median_ms < 1000, str(figures)
