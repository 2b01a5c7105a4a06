"""What tools and brokers leave for the controller.

Orders are single nodes, and the controller deletes one when it is carried out. News are sequential nodes: the controller
takes them, all at once, and deletes what it took.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import ControllerEpoch
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.orders import (
    decode_log_dir_event,
    decode_partitions,
    decode_reassignment,
    encode_log_dir_event,
    encode_partitions,
)
from ottla.metadata.znodes.topics import Replicas
from ottla.registry.errors import ConnectionLossError, NoNodeError
from ottla.registry.guard import guarded, guarded_many
from ottla.registry.store import Delete, ZnodeStore


class Orders:
    """The orders and news of a cluster, over a store."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store

    async def reassignment(self) -> dict[TopicPartition, Replicas] | None:
        """Where a tool of old wants partitions to be; None if nothing is asked."""
        found = await self._store.get(paths.REASSIGN_PARTITIONS)
        return None if found is None else decode_reassignment(found.data)

    async def finish_reassignment(self, controller: ControllerEpoch) -> None:
        await self._finish(paths.REASSIGN_PARTITIONS, controller)

    async def preferred_election(self) -> tuple[TopicPartition, ...] | None:
        """Which partitions are to be led by their preferred replicas; None if nothing is asked."""
        found = await self._store.get(paths.PREFERRED_REPLICA_ELECTION)
        return None if found is None else decode_partitions(paths.PREFERRED_REPLICA_ELECTION, found.data)

    async def finish_preferred_election(self, controller: ControllerEpoch) -> None:
        await self._finish(paths.PREFERRED_REPLICA_ELECTION, controller)

    async def announce_isr_change(self, partitions: Iterable[TopicPartition]) -> None:
        """Tell the controller that these partitions have a new ISR (brokers without AlterPartition do)."""
        await self._announce(paths.ISR_CHANGE_PREFIX, encode_partitions(partitions))

    async def announce_log_dir_failure(self, broker_id: BrokerId) -> None:
        await self._announce(paths.LOG_DIR_EVENT_PREFIX, encode_log_dir_event(broker_id))

    async def take_isr_changes(self, controller: ControllerEpoch) -> set[TopicPartition]:
        """The partitions that were announced; the announcements are gone afterwards."""
        taken = await self._take(paths.ISR_CHANGES, controller)
        return {where for path, data in taken.items() for where in decode_partitions(path, data)}

    async def take_log_dir_failures(self, controller: ControllerEpoch) -> set[BrokerId]:
        """The brokers that announced the failure of a log directory; the announcements are gone afterwards."""
        taken = await self._take(paths.LOG_DIR_EVENTS, controller)
        return {decode_log_dir_event(path, data) for path, data in taken.items()}

    def watch(self) -> None:
        """Have orders and news told as they come."""
        self._store.watch_data(paths.REASSIGN_PARTITIONS)
        self._store.watch_data(paths.PREFERRED_REPLICA_ELECTION)
        self._store.watch_children(paths.ISR_CHANGES)
        self._store.watch_children(paths.LOG_DIR_EVENTS)

    async def _take(self, root: str, controller: ControllerEpoch) -> dict[str, bytes]:
        listed = [f"{root}/{name}" for name in await self._store.children(root) or ()]
        found = await self._store.get_many(listed)
        taken = {path: znode.data for path, znode in zip(listed, found, strict=True) if znode is not None}
        await guarded_many(self._store, controller, [[Delete(path)] for path in taken])
        return taken

    async def _announce(self, prefix: str, data: bytes) -> None:
        while True:
            try:
                await self._store.create(prefix, data, sequential=True)
            except ConnectionLossError:
                continue  # an announcement too many does no harm
            else:
                return

    async def _finish(self, path: str, controller: ControllerEpoch) -> None:
        try:
            await guarded(self._store, controller, [Delete(path)])
        except NoNodeError:
            return
