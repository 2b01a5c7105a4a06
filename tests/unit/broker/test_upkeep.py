"""Looking after thousands of logs keeps nobody waiting, and what is old is looked for soon after the start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

from ottla.base.clock import Clock
from ottla.base.pace import TURN_S
from ottla.broker.config import BrokerConfig
from ottla.broker.upkeep import Upkeep
from ottla.log import LogDirectory
from ottla.replica.replicas import Replicas

COUNT = 2000
STEP_S = 0.001
EVERY_MS = 100


class SlowLoop(asyncio.SelectorEventLoop):
    """Time passes only where somebody says so."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s


class SlowLog:
    """Whatever is asked of it takes a millisecond."""

    def __init__(self, loop: SlowLoop, seen: dict[str, int]) -> None:
        self._loop = loop
        self._seen = seen
        self.config = SimpleNamespace(flush_ms=1 << 62)
        self.producers = SimpleNamespace(expire=self._step("expire"))
        self.flush_due = self._step("flush_due")
        self.delete_old_segments = self._step("delete_old_segments")
        self.delete_marked = self._step("delete_marked")

    def _step(self, name: str) -> Callable[..., None]:
        def step(*_: object, **__: object) -> None:
            self._loop.now_s += STEP_S
            self._seen[name] = self._seen.get(name, 0) + 1

        return step


class Held:
    """Partitions, of which one goes while it is the next one's turn."""

    def __init__(self, logs: list[SlowLog]) -> None:
        self._partitions = [SimpleNamespace(log=log) for log in logs]
        self.gone: list[object] = []
        self.collected = 0

    def __iter__(self) -> Iterator[SimpleNamespace]:
        return iter(self._partitions)

    def holds(self, partition: object) -> bool:
        return partition not in self.gone

    def checkpoints(self) -> list[Callable[[], Callable[[], None]]]:
        def collect() -> Callable[[], None]:
            self.collected += 1
            return lambda: None

        return [collect]


def upkeep_of(loop: SlowLoop, held: Held, directories: list[LogDirectory], *, retention_ms: int) -> Upkeep:
    config = SimpleNamespace(
        checkpoint_ms=EVERY_MS,
        producer_check_ms=EVERY_MS,
        retention_check_ms=retention_ms,
        retention_first_ms=EVERY_MS,
    )
    return Upkeep(
        cast("BrokerConfig", config),
        cast("Clock", SimpleNamespace(wall_ms=lambda: round(loop.time() * 1000))),
        directories,
        cast("Replicas", held),
    )


def test_old_segments_are_looked_for_long_before_the_interval_is_over() -> None:
    seen: dict[str, int] = {}

    async def run(loop: SlowLoop) -> None:
        upkeep = upkeep_of(loop, Held([SlowLog(loop, seen)]), [], retention_ms=3_600_000)
        running = asyncio.ensure_future(upkeep.run())
        while loop.time() < 3_600:
            await asyncio.sleep(0)
            loop.now_s += 1
            assert not running.done(), running
        running.cancel()

    loop = SlowLoop()
    with asyncio.Runner(loop_factory=lambda: cast("Any", loop)) as runner:
        runner.run(run(loop))
    assert seen["delete_old_segments"] == 1


def test_everybody_gets_a_turn_every_few_milliseconds() -> None:
    seen: dict[str, int] = {}

    async def run(loop: SlowLoop) -> float:
        logs = [SlowLog(loop, seen) for _ in range(COUNT)]
        held = Held(logs)
        directory = SimpleNamespace(
            logs=dict(enumerate(logs)), future_logs={}, take_doomed=lambda **_: [], remove_folders=None
        )
        upkeep = upkeep_of(loop, held, [cast("LogDirectory", directory)], retention_ms=EVERY_MS)
        running = asyncio.ensure_future(upkeep.run())
        longest_s, last_s = 0.0, loop.time()
        while seen.get("delete_marked", 0) < COUNT:
            await asyncio.sleep(0)
            longest_s = max(longest_s, loop.time() - last_s)
            loop.now_s += STEP_S / 10
            last_s = loop.time()
            assert not running.done(), running
        running.cancel()
        assert held.collected == 1
        return longest_s

    loop = SlowLoop()
    with asyncio.Runner(loop_factory=lambda: cast("Any", loop)) as runner:
        assert runner.run(run(loop)) <= TURN_S + 2 * STEP_S
    assert seen == {
        "flush_due": 2 * COUNT,
        "delete_old_segments": COUNT,
        "expire": COUNT,
        "delete_marked": COUNT,
    }
