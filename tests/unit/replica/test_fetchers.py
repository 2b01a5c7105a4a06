"""So many fetchers for each leader, also when their number is changed while they run."""

from __future__ import annotations

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.clock import SystemClock
from ottla.metadata import BrokerId, TopicId, TopicPartition
from ottla.replica.fetcher import FetchSettings, LeaderHere
from ottla.replica.fetchers import Fetchers
from tests.sources import COMPILED

LEADER = BrokerId(1)
SETTINGS = FetchSettings(BrokerId(2), 1, 500, 1, 1 << 20, 10 << 20, 1000, 30_000)


def partition(number: int) -> Any:
    return SimpleNamespace(
        where=TopicPartition("t", number),
        topic_id=TopicId(b"0123456789abcdef"),
        leader=LEADER,
        leader_epoch=0,
        begin_to_follow=lambda **_: None,
    )


@pytest.mark.skipif(COMPILED, reason="compiled fetchers take nothing but partitions")
def test_partitions_are_spread_anew_when_the_number_of_fetchers_changes() -> None:
    def spawn(deed: Coroutine[Any, Any, None], _name: str) -> None:
        deed.close()

    fetchers = Fetchers(SETTINGS, LeaderHere(lambda _broker: None, lambda: 1), SystemClock(), cast("Any", spawn))

    def spread() -> list[int]:
        return [len(fetcher) for fetcher in fetchers._fetchers.values()]

    for number in range(30):
        fetchers.follow(partition(number))
    assert spread() == [30]
    fetchers.resize(3)
    assert len(spread()) == 3
    assert sum(spread()) == 30
    assert min(spread()) > 0
    before = {where: place for where, place in fetchers._places.items() if place[1] == 0}
    fetchers.resize(1)
    assert sorted(spread()) == [0, 0, 30], "those that are left without any end by themselves"
    assert before.items() <= fetchers._places.items()
