"""A cluster under everything that can happen to it at once: nothing that clients see of it is an anomaly.

``python -m tests.chaos`` does the same for as long as you like.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.clusterrun import Outcome, run


def check(outcome: Outcome) -> None:
    assert not outcome.anomalies, str(outcome)
    assert outcome.acked > 0, str(outcome)
    assert outcome.polled > 0, str(outcome)


def test_the_command_of_make_chaos_starts() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--minutes", "1", "--help"]
    assert "--seed" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.timeout(1800)
def test_a_cluster_under_everything_at_once(tmp_path: Path) -> None:
    check(run(tmp_path, seed=6, seconds=90))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_under_everything_at_once_for_longer(tmp_path: Path, seed: int) -> None:
    check(run(tmp_path, seed=seed, seconds=600))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_cluster_with_a_mistake_is_found_out(tmp_path: Path) -> None:
    """What nobody else had was acknowledged, and is not there any more. A slow machine makes no such finding."""
    outcome = run(tmp_path, seed=1, seconds=120, mistake="acknowledge_alone")
    assert outcome.kinds.keys() & {"lost-write", "unseen", "inconsistent-offsets"}, str(outcome)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nothing_is_found_in_apache_kafka(tmp_path: Path) -> None:
    check(run(tmp_path, seed=2, seconds=180, is_kafka=True))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_cluster_on_zookeeper_under_everything_at_once(tmp_path: Path) -> None:
    check(run(tmp_path, seed=3, seconds=180, on_zookeeper=True))
