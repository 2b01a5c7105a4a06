"""The same faults against Apache ZooKeeper, which keeps its promises: the witness has nothing to say about it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.chaos.trial import SMALL_TICKS, SYNC_S, TICK_MS, trial
from tests.chaos.witness import ZOOKEEPER as EXACTLY
from tests.peers import RealZooKeeper

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), pytest.mark.usefixtures("zookeeper_libs")]


ZOOKEEPER = EXACTLY._replace(early_ms=TICK_MS)


def test_the_leader_is_killed(tmp_path: Path) -> None:
    with trial(RealZooKeeper(3, tmp_path, settings=SMALL_TICKS), tmp_path, rules=ZOOKEEPER) as (servers, load):
        for _ in range(4):
            load.wait_acked(40)
            leader = servers.leader()
            servers.kill(leader)
            load.wait_acked(40)
            servers.restart(leader)


def test_the_leader_is_paused(tmp_path: Path) -> None:
    ensemble = RealZooKeeper(3, tmp_path, settings=SMALL_TICKS)
    with trial(ensemble, tmp_path, rules=ZOOKEEPER, silence_s=1.0) as (servers, load):
        for factor in (0.5, 1.1, 3.0):
            load.wait_acked(40)
            leader = servers.leader()
            servers.pause(leader)
            time.sleep(factor * SYNC_S)
            servers.resume(leader)
            load.wait_acked(40)
            servers.wait_ready()


def test_all_are_killed_at_once(tmp_path: Path) -> None:
    settings = {**SMALL_TICKS, "snapCount": "100"}
    with trial(RealZooKeeper(3, tmp_path, settings=settings), tmp_path, rules=ZOOKEEPER) as (servers, load):
        for _ in range(3):
            load.wait_acked(60)
            servers.stop()
            servers.start()
        load.wait_acked(20)
