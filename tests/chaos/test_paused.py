"""A server that stands still for a while and then goes on as if nothing had happened."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.chaos.trial import SMALL_TICKS, SYNC_S, trial
from tests.peers import OttlaKeepers


def test_a_paused_leader_is_replaced(tmp_path: Path) -> None:
    pause_leaders(tmp_path, factors=[3.0])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 3.0])
def test_the_leader_is_paused_again_and_again(tmp_path: Path, factor: float) -> None:
    pause_leaders(tmp_path, factors=[factor] * 15)


@pytest.mark.long
def test_a_follower_is_paused_again_and_again(tmp_path: Path) -> None:
    with trial(OttlaKeepers(3, tmp_path, settings=SMALL_TICKS), tmp_path, silence_s=1.0) as (keepers, load):
        for factor in [0.5, 1.1, 3.0] * 4:
            follower = keepers.followers()[0]
            keepers.pause(follower)
            load.wait_acked(30)
            time.sleep(factor * SYNC_S)
            keepers.resume(follower)
            keepers.wait_ready()


def pause_leaders(tmp_path: Path, factors: list[float]) -> None:
    """Each pause is ``factor`` times the silence after which followers give their leader up."""
    with trial(OttlaKeepers(3, tmp_path, settings=SMALL_TICKS), tmp_path, silence_s=1.0) as (keepers, load):
        for factor in factors:
            load.wait_acked(30)
            leader = keepers.leader()
            keepers.pause(leader)
            time.sleep(factor * SYNC_S)
            if factor > 2:
                load.wait_acked(10)  # the others have a new leader
            keepers.resume(leader)
            load.wait_acked(30)
            keepers.wait_ready()
