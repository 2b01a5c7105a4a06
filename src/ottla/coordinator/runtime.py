"""Shards of an internal topic: one for each partition that this broker leads.

    this broker leads ──► LOADING ──the whole log is replayed──► ACTIVE ──another leads, or the disk failed──► GONE

LOADING   the log is replayed in slices by a worker (``loading``); whoever asks is told COORDINATOR_LOAD_IN_PROGRESS
ACTIVE    a request is handed to the shard, and what it decides (``outcome``) is done (``led``): records are appended as one
          batch, commits of one turn of the loop together, and replayed, and the answer goes out when they are on every
          replica in sync, or with an error when that takes longer than ``write_timeout_ms``
GONE      timers end, whoever waits is told NOT_COORDINATOR, and nothing that was replayed is kept

Records are replayed as soon as they are in this broker's log, so a shard always decides on all that was decided before. What
a reader is told out of it waits for the replicas (``Outcome.after_log``): nothing that a failover could take back is ever
told. There is nothing to undo either: an append that fails changed nothing, and a log that is truncated is a log that
another broker leads.

A log that cannot be replayed leaves its partition without a coordinator. Serving half of what was committed would be worse.

Nothing here knows what the records mean.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Generic

from ottla.base.clock import Clock
from ottla.base.scope import TaskScope
from ottla.coordinator.led import Led, Means, R, RuntimeConfig, S, ShardState
from ottla.coordinator.loading import RecordCodec, replay_slice
from ottla.coordinator.outcome import Outcome
from ottla.replica.partition import Partition
from ottla.wire import ErrorCode

log = logging.getLogger(__name__)


class Runtime(Generic[S, R]):
    """The shards of one topic on this broker."""

    def __init__(
        self,
        topic: str,
        make_shard: Callable[[int], S],
        codec: RecordCodec[R],
        config: RuntimeConfig,
        *,
        clock: Clock,
        loop: AbstractEventLoop,
        scope: TaskScope,
        executor: Executor,
    ) -> None:
        self.topic = topic
        self._means = Means(codec, config, clock, loop)
        self._make_shard = make_shard
        self._scope = scope
        self._executor = executor
        self._led: dict[int, Led[S, R]] = {}

    def on_leadership(self, partition: Partition) -> None:
        """A partition has a new state: perhaps it is led here now, perhaps no more."""
        if partition.where.topic != self.topic:
            return
        index = partition.where.partition
        led = self._led.get(index)
        if led is not None and not (partition.is_leader and led.partition is partition):
            self._led.pop(index).give_up()
            led = None
        if led is None and partition.is_leader:
            led = self._led[index] = Led(self._means, partition, self._make_shard(index))
            self._scope.spawn(self._load(led), name=f"loading {partition.where}")

    @property
    def is_loading(self) -> bool:
        return any(led.state is ShardState.LOADING for led in self._led.values())

    def active(self) -> Iterator[tuple[int, S]]:
        """The shards that can be asked, by partition."""
        for index, led in list(self._led.items()):
            if led.state is ShardState.ACTIVE:
                yield index, led.shard

    def shard(self, index: int) -> S | ErrorCode:
        """To be looked at, and not to be changed; or why there is none to ask."""
        led = self._find(index)
        if isinstance(led, ErrorCode):
            return led
        led.flush()
        return led.shard

    def _find(self, index: int) -> Led[S, R] | ErrorCode:
        led = self._led.get(index)
        if led is None or led.state is ShardState.GONE:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if led.state is ShardState.LOADING else led

    def run(self, index: int, operation: Callable[[S, int], Outcome[R]]) -> ErrorCode:
        """Let a shard decide, and do what it says. Anything but NONE: there is no shard to ask, and nothing was done."""
        return self.run_each(index, lambda shard, now_ms: (operation(shard, now_ms),))

    def run_each(self, index: int, operation: Callable[[S, int], Iterable[Outcome[R]]]) -> ErrorCode:
        """As ``run``, for what is decided piece by piece: each is done before the next is asked for."""
        led = self._find(index)
        if isinstance(led, ErrorCode):
            return led
        led.flush()
        for outcome in operation(led.shard, self._means.clock.wall_ms()):
            led.do(outcome)
            if led.state is not ShardState.ACTIVE:
                break
        return ErrorCode.NONE

    def run_gathered(self, index: int, operation: Callable[[S, int], Outcome[R]]) -> ErrorCode:
        """As ``run``, for what decides nothing on the records of its like: all of one turn is written as one batch."""
        led = self._find(index)
        if isinstance(led, ErrorCode):
            return led
        led.gather(operation(led.shard, self._means.clock.wall_ms()))
        return ErrorCode.NONE

    async def _load(self, led: Led[S, R]) -> None:
        means, where, source = self._means, led.partition.where, led.partition.log
        started_s = means.clock.monotonic()
        offset, end = source.log_start_offset, source.log_end_offset
        try:
            while offset < end and led.state is ShardState.LOADING:
                fetched = source.read(offset, means.config.load_bytes, upper=end)
                if fetched.range is None:
                    offset = max(fetched.upper_bound, offset + 1)
                    continue
                offset = await means.loop.run_in_executor(
                    self._executor, replay_slice, led.shard, means.codec, fetched.range, offset
                )
        except Exception:  # whatever it is, it is this partition's, and the broker serves others
            log.exception("%s cannot be loaded, so this broker does not coordinate for it", where)
            led.state = ShardState.GONE
            return
        if led.state is ShardState.LOADING:
            led.state = ShardState.ACTIVE
            log.info("%s is loaded, up to offset %d, in %.3f s", where, end, means.clock.monotonic() - started_s)
            led.do(led.shard.loaded(means.clock.wall_ms()))
