"""Whether a leader hung up on those that fetch from it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

from ottla.base.clock import ManualClock
from ottla.metadata import BrokerId
from ottla.peers import PeerLostError
from ottla.replica.fetcher import FetchSettings, LeaderHere
from ottla.replica.fetchers import VERDICT_S, Fetchers
from ottla.wire.messages.k01_fetch import FetchResponse
from tests.unit.replica.pairs import Broker

LEADER = BrokerId(1)
SETTINGS = FetchSettings(BrokerId(2), 1, 500, 1, 1 << 20, 1 << 20, backoff_ms=1, timeout_ms=60_000)


class Leader:
    """Answers as often as it is said to, and hangs up on everybody else."""

    def __init__(self) -> None:
        self.answers = 0
        self.asked = asyncio.Event()

    def dial(self, host: str, port: int, *, client_id: str) -> Any:
        del client_id
        return _Line(self, host, port)


class _Line:
    def __init__(self, leader: Leader, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._leader = leader

    async def call(self, *_: object, **__: object) -> FetchResponse:
        self._leader.asked.set()
        await asyncio.sleep(0)
        if self._leader.answers == 0:
            raise PeerLostError("it hung up")
        self._leader.answers -= 1
        return FetchResponse()

    def close(self) -> None:
        pass


class Following:
    """A broker that fetches from ``leader``, by a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.leader, self.clock = Leader(), ManualClock()
        self._tasks: list[asyncio.Future[None]] = []
        here = LeaderHere(lambda _broker: ("h", 1), lambda: 1, cast("Any", self.leader.dial))
        self.fetchers = Fetchers(SETTINGS, here, self.clock, self._spawn)
        self._broker = Broker(folder, 2)
        self._broker.order(LEADER, 0, (1, 2), (1, 2))
        self.fetchers.follow(self._broker.partition)

    def _spawn(self, deed: Coroutine[Any, Any, None], _name: str) -> None:
        self._tasks.append(asyncio.ensure_future(deed))

    async def until(self, expected: set[BrokerId]) -> None:
        async with asyncio.timeout(60):
            while self.fetchers.cut_off != expected:
                self.leader.asked.clear()
                await self.leader.asked.wait()

    async def end(self) -> None:
        self.fetchers.forget(self._broker.partition)
        await asyncio.wait_for(asyncio.gather(*self._tasks), 60)
        self._broker.close()


def test_a_leader_that_hung_up_is_cut_off_until_it_answers(tmp_path: Path) -> None:
    async def story() -> None:
        following = Following(tmp_path)
        assert following.fetchers.cut_off == set()
        await following.until({LEADER})
        following.leader.answers = 1_000_000_000
        await following.until(set())
        following.leader.answers = 0
        await following.until({LEADER})
        await following.end()
        assert following.fetchers.cut_off == set(), "nobody fetches from it any more"

    asyncio.run(story())


def test_it_is_cut_off_for_as_long_as_a_verdict_takes(tmp_path: Path) -> None:
    async def story() -> None:
        following = Following(tmp_path)
        await following.until({LEADER})
        following.clock.advance(VERDICT_S)
        assert following.fetchers.cut_off == set(), "nobody will say more of it"
        following.leader.asked.clear()
        await asyncio.wait_for(following.leader.asked.wait(), 60)
        await asyncio.sleep(0.05)
        assert following.fetchers.cut_off == set(), "however often it refuses"
        await following.end()

    asyncio.run(story())
