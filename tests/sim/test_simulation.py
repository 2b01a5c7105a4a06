"""The simulation as tests: two hundred seeds, the seeds that once failed, and bugs that must be found.

``make sim`` runs a thousand seeds; ``python -m tests.sim --replay SEED`` tells the story of one.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sim.coverage import Coverage
from tests.sim.mutants import MUTANTS
from tests.sim.runner import kept_seeds, run_seed, run_seeds

SEEDS = 200
MUTANT_SEEDS_MAX = 200
"""Most bugs show at once, a few need a rare turn of events."""


@pytest.mark.timeout(900)
def test_no_invariant_breaks_and_everything_expected_happens() -> None:
    coverage, failed = Coverage(), []
    for outcome in run_seeds(range(SEEDS), jobs=2):
        coverage.add(outcome.counts)
        if outcome.violation:
            failed.append(f"seed {outcome.seed}: {outcome.violation}")
    assert not failed, "\n".join(failed)
    assert not coverage.missing(), f"never happened: {coverage.missing()}"


@pytest.mark.parametrize("seed", kept_seeds())
def test_a_seed_that_once_failed_holds(seed: int) -> None:
    assert run_seed(seed).violation is None


def test_a_seed_is_the_same_story_every_time() -> None:
    """Also where strings hash differently, so that no set decides the order of anything."""
    program = "from tests.sim.runner import run_seed; print([run_seed(s).fingerprint for s in (3, 4)])"
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": number},
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        ).stdout
        for number in ("1", "2")
    }
    assert len(told) == 1, told


@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_a_bug_is_found(mutant: str) -> None:
    assert any(run_seed(seed, mutant).violation for seed in range(MUTANT_SEEDS_MAX)), f"{mutant} went unnoticed"
