"""Producer ids, handed out from a block that the cluster gave to this broker. The next block is fetched before it is needed."""

from __future__ import annotations

from collections.abc import Callable

from ottla.base.scope import TaskScope
from ottla.metadata.ids import BrokerId
from ottla.registry import Registry


class ProducerIds:
    def __init__(self, registry: Registry, broker_id: BrokerId, scope: TaskScope) -> None:
        self._registry = registry
        self._broker_id = broker_id
        self._scope = scope
        self._free: range = range(0)
        self._waiting: list[Callable[[int], None]] = []
        self._asking = False

    def take(self, give: Callable[[int], None]) -> None:
        """Call ``give`` with a fresh id: at once, or when there is one."""
        if self._free:
            producer_id, self._free = self._free[0], self._free[1:]
            give(producer_id)
            return
        self._waiting.append(give)
        if not self._asking:
            self._asking = True
            self._scope.spawn(self._ask(), name="producer ids")

    async def _ask(self) -> None:
        try:
            block = await self._registry.cluster.allocate_producer_ids(self._broker_id)
        finally:
            self._asking = False
        self._free = range(block.first, block.last + 1)
        waiting, self._waiting = self._waiting, []
        for give in waiting:
            self.take(give)
