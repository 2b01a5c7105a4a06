"""What there is one of in a cluster, and the news that brokers leave for the controller.

News are sequential nodes: the controller takes them, all at once, and deletes what it took.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import ControllerEpoch
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.cluster import (
    FinalizedFeatures,
    ProducerIdBlock,
    decode_cluster_id,
    decode_features,
    decode_producer_ids,
    encode_cluster_id,
    encode_features,
    encode_producer_ids,
)
from ottla.metadata.znodes.orders import (
    decode_log_dir_event,
    decode_partitions,
    encode_log_dir_event,
    encode_partitions,
)
from ottla.registry.errors import BadVersionError, ConnectionLossError, NodeExistsError, RefusedError
from ottla.registry.guard import guarded_many
from ottla.registry.store import Delete, ZnodeStore


class Cluster:
    """The single znodes of a cluster, over a store."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store

    async def make_paths(self, more: Sequence[str] = ()) -> None:
        """Create what must be there before anything else; harmless if it is."""
        wanted = dict.fromkeys(parent for path in (*paths.PERSISTENT, *more) for parent in _upward(path))
        found = await self._store.get_many(list(wanted))
        for path, znode in zip(wanted, found, strict=True):
            if znode is None:
                await self._create(path, b"")

    async def cluster_id(self, drawn: str | None = None) -> str | None:
        """The cluster's id. If it has none yet, ``drawn`` becomes it, unless somebody is faster."""
        found = await self._store.get(paths.CLUSTER_ID)
        if found is None and drawn is not None:
            for path, data in (("/cluster", b""), (paths.CLUSTER_ID, encode_cluster_id(drawn))):
                await self._create(path, data)
            found = await self._store.get(paths.CLUSTER_ID)
        return None if found is None else decode_cluster_id(found.data)

    async def features(self) -> FinalizedFeatures | None:
        found = await self._store.get(paths.FEATURE)
        return None if found is None else decode_features(found.data)

    async def make_features(self, features: FinalizedFeatures) -> None:
        """Write ``/feature`` if it is not there yet."""
        await self._create(paths.FEATURE, encode_features(features))

    async def allocate_producer_ids(self, broker_id: BrokerId) -> ProducerIdBlock:
        """Producer ids that nobody else has or will have."""
        while True:
            found = await self._store.get(paths.PRODUCER_ID_BLOCK)
            if found is None:
                await self._create(paths.PRODUCER_ID_BLOCK, b"")
                continue
            block = decode_producer_ids(found.data).next_for(broker_id)
            if block is None:
                raise RefusedError("all producer ids have been given out")
            try:
                await self._store.set(paths.PRODUCER_ID_BLOCK, encode_producer_ids(block), version=found.stat.version)
            except (BadVersionError, ConnectionLossError):
                continue  # a block that was written and then not known to be ours is lost, and that is all
            else:
                return block

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
        """Have the news of brokers told as they come."""
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

    async def _create(self, path: str, data: bytes) -> None:
        while True:
            try:
                await self._store.create(path, data)
            except ConnectionLossError:
                continue
            except NodeExistsError:
                return
            else:
                return


def _upward(path: str) -> list[str]:
    """A path and all above it, the highest first."""
    parts = path.split("/")[1:]
    return ["/" + "/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
