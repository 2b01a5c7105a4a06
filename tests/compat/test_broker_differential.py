"""Ours answers as Apache Kafka 3.9.1 does: the same random requests to both, every answer compared field by field."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla.broker.apis import ALL
from ottla.wire import APIS, ApiKey
from tests.compat.broker_differential import compare
from tests.compat.broker_requests import NOT_COMPARED, PRODUCE_FLOOR, Generator
from tests.compat.brokerpair import pair

QUICK = (1, 900)
FULL = [(seed, 3000) for seed in range(10, 15)]
"""Seed and number of requests."""


def served() -> set[str]:
    """Every API and version that a client may use here."""
    wanted = set()
    for handler in ALL:
        low, high = APIS[handler.key].offered
        low = max(low, PRODUCE_FLOOR) if handler.key is ApiKey.PRODUCE else low
        if handler.key not in NOT_COMPARED:
            wanted |= {f"{handler.key.name} {version}" for version in range(low, high + 1)}
    return wanted


def test_same_answers_as_kafka() -> None:
    seed, requests = QUICK
    with pair() as (kafka, ours):
        compared = compare(kafka, ours, Generator(seed).steps(requests))
    assert compared.total() >= requests
    assert served() <= compared.keys(), "an API or a version was not asked for"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "requests"), FULL)
def test_same_answers_as_kafka_in_full(seed: int, requests: int) -> None:
    with pair() as (kafka, ours):
        compared: Counter[str] = compare(kafka, ours, Generator(seed).steps(requests))
    assert compared.total() >= requests
    assert served() <= compared.keys()


def test_the_full_run_is_long_enough() -> None:
    assert sum(requests for _seed, requests in FULL) >= 10_000
