"""The group coordinator of a broker: which partition a group belongs to, and what is done there.

A group lives in the partition ``abs(hash of its id) % partitions`` of ``__consumer_offsets``, hashed as Java does; whoever
leads that partition coordinates the group.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from ottla.base.clock import Clock
from ottla.base.scope import TaskScope
from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.formats import GroupCodec, Stored
from ottla.coordinator.groups.group import Group
from ottla.coordinator.groups.shard import GroupShard
from ottla.coordinator.led import RuntimeConfig
from ottla.coordinator.outcome import Outcome
from ottla.coordinator.runtime import Runtime
from ottla.metadata.hashorder import string_hash
from ottla.metadata.names import CONSUMER_OFFSETS
from ottla.wire import ErrorCode

_SIGN = 1 << 31
NO_PARTITION = -1
GROUPS_AT_A_TIME = 100
"""Looked through before others are served again."""

HASHED_MAX = 2_000
HASHED_CHARACTERS_MAX = 100
"""Of what clients make up, little is kept."""

Piecewise = Callable[[GroupShard, int], Iterator[Outcome[Stored]]]


def partition_for(group_id: str, partitions: int) -> int:
    hashed = string_hash(group_id)
    # Java's abs of the smallest number is made 0, and that of any other is its distance from 0.
    return 0 if hashed == _SIGN else (hashed if hashed < _SIGN else (_SIGN << 1) - hashed) % partitions


class GroupCoordinator:
    def __init__(
        self,
        config: GroupConfig,
        runtime_config: RuntimeConfig,
        partitions: Callable[[], int],
        *,
        clock: Clock,
        loop: AbstractEventLoop,
        scope: TaskScope,
    ) -> None:
        self.config = config
        self._partitions = partitions
        """How many ``__consumer_offsets`` has, or 0 as long as that is not known."""
        self._hashed: dict[str, tuple[int, int]] = {}
        """Of groups that were asked for lately, how many partitions there were, and the one they belong to."""
        self._executor = ThreadPoolExecutor(1, "loading groups")
        self._scope = scope
        self.runtime: Runtime[GroupShard, Stored] = Runtime(
            CONSUMER_OFFSETS,
            lambda _index: GroupShard(config, lambda: str(uuid4())),
            GroupCodec(),
            runtime_config,
            clock=clock,
            loop=loop,
            scope=scope,
            executor=self._executor,
        )

    def partition_for(self, group_id: str) -> int:
        """No partition at all before it is known how many there are: a wrong one would not know the group."""
        partitions = self._partitions()
        if not partitions:
            return NO_PARTITION
        found = self._hashed.get(group_id)
        if found is None or found[0] != partitions:
            found = partitions, partition_for(group_id, partitions)
            if len(group_id) <= HASHED_CHARACTERS_MAX:
                if len(self._hashed) >= HASHED_MAX:
                    self._hashed.clear()
                self._hashed[group_id] = found
        return found[1]

    def run(self, group_id: str, operation: Callable[[GroupShard, int], Outcome[Stored]]) -> ErrorCode:
        """Let the shard of a group decide. Anything but NONE: it is not here, and nothing was done."""
        return self.runtime.run(self.partition_for(group_id), operation)

    def run_gathered(self, group_id: str, operation: Callable[[GroupShard, int], Outcome[Stored]]) -> ErrorCode:
        """As ``run``, for commits, which are written with those of the same turn."""
        return self.runtime.run_gathered(self.partition_for(group_id), operation)

    def run_each(self, group_id: str, operation: Piecewise) -> ErrorCode:
        """As ``run``, for what is decided piece by piece."""
        return self.runtime.run_each(self.partition_for(group_id), operation)

    def group(self, group_id: str) -> Group | ErrorCode | None:
        """To be looked at; None if there is none, and an error if another broker would know."""
        found = self.runtime.shard(self.partition_for(group_id))
        return found if isinstance(found, ErrorCode) else found.groups.get(group_id)

    def groups(self) -> Iterator[Group]:
        for _, shard in self.runtime.active():
            yield from shard.groups.values()

    def topic_deleted(self, topic: str) -> None:
        self._scope.spawn(
            self._each_group(lambda group_id: lambda shard, _now_ms: shard.forget_topic(group_id, topic)),
            name=f"forgetting the offsets of {topic}",
        )

    async def expire_regularly(self) -> None:
        while True:
            await asyncio.sleep(self.config.retention_check_ms / 1000)
            await self._each_group(lambda group_id: lambda shard, now_ms: shard.expire(group_id, now_ms))

    async def _each_group(self, operation: Callable[[str], Piecewise]) -> None:
        """There may be very many, and others want to be served meanwhile."""
        for index, shard in self.runtime.active():
            for number, group_id in enumerate(list(shard.groups)):
                if number % GROUPS_AT_A_TIME == 0:
                    await asyncio.sleep(0)
                self.runtime.run_each(index, operation(group_id))

    def stop(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
