"""Ours answers as ZooKeeper 3.9.5 does: the same random requests to both, and every field and event compared."""

from __future__ import annotations

import pytest

from tests.compat.differential import SUPER, DivergenceError, compare, pair, shrink
from tests.compat.steps import Generator

QUICK = [(1, 1, 900), (2, 3, 600)]
FULL = [(seed, 1 if seed % 3 else 3, 1500) for seed in range(10, 22)]
"""Seed, number of servers, number of requests; 18,000 of them in all."""


def agree(seed: int, servers: int, requests: int) -> None:
    steps = Generator(seed, servers=servers).steps(requests)
    with pair(servers) as (left, right):
        try:
            compared = compare(left, right, steps)
        except DivergenceError as error:
            failure, failed = str(error), error.step
        else:
            assert compared >= requests
            return
    fewer = shrink(steps[: failed + 1], servers, budget_s=60)
    told = "\n".join(f"  {step}" for step in fewer)
    pytest.fail(f"seed {seed}, {servers} servers, {failure}\nThese steps alone diverge too:\n{told}", pytrace=False)


@pytest.mark.parametrize(("seed", "servers", "requests"), QUICK)
def test_same_answers(seed: int, servers: int, requests: int) -> None:
    agree(seed, servers, requests)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "servers", "requests"), FULL)
def test_same_answers_in_full(seed: int, servers: int, requests: int) -> None:
    agree(seed, servers, requests)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_same_answers_without_extended_types_and_enforced_quotas() -> None:
    """As ZooKeeper comes: TTL nodes are refused, and quotas only count."""
    steps = Generator(30).steps(1500)
    with pair(1, properties=SUPER) as (left, right):
        assert compare(left, right, steps) >= 1500


def test_the_full_run_is_long_enough() -> None:
    assert sum(requests for _seed, _servers, requests in FULL) >= 10_000
