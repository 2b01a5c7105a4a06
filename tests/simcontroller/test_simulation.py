"""Every seed is another history; none may break what the cluster promises."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simcontroller.world import simulate

QUICK, MANY = 3, 500
HAPPENS = ("acknowledged", "read", "joined", "elected", "cut", "lost", "failed", "unclean", "forgotten")
"""What has to be survived, and not only not to happen."""
ENOUGH = 30
KEPT = (167,)
"""Histories that went wrong once: a topic was deleted while a broker that had heard of it was away."""


@pytest.mark.timeout(600)
def test_a_few_histories() -> None:
    seen: Counter[str] = Counter()
    for seed in range(ENOUGH):
        seen += simulate(seed).truth.seen
        if seed >= QUICK - 1 and all(seen[each] for each in HAPPENS):
            return
    pytest.fail(f"some of what has to be survived did not happen: {seen}")


@pytest.mark.parametrize("seed", KEPT)
def test_a_history_that_went_wrong_once(seed: int) -> None:
    simulate(seed)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_histories() -> None:
    for seed in range(QUICK, QUICK + MANY):
        simulate(seed)
