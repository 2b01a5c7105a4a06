"""What there is one of in a cluster: the paths that are always there, its id, its features, the next producer ids."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.metadata.ids import BrokerId
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.cluster import (
    PRODUCER_ID_BLOCK_SIZE,
    FinalizedFeatures,
    ProducerIdBlock,
    decode_cluster_id,
    decode_features,
    decode_producer_ids,
    encode_cluster_id,
    encode_features,
    encode_producer_ids,
)
from ottla.registry.errors import BadVersionError, ConnectionLossError, NodeExistsError, RefusedError
from ottla.registry.store import ZnodeStore


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
        return None if found is None else decode_features(found.data)._replace(epoch=found.stat.version)

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

    async def skip_producer_ids(self, largest: int, broker_id: BrokerId) -> None:
        """Give out no producer id up to ``largest``: they are in logs already."""
        while True:
            found = await self._store.get(paths.PRODUCER_ID_BLOCK)
            if found is None:
                await self._create(paths.PRODUCER_ID_BLOCK, b"")
                continue
            if decode_producer_ids(found.data).last >= largest:
                return
            first = largest - largest % PRODUCER_ID_BLOCK_SIZE
            block = ProducerIdBlock(broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
            try:
                await self._store.set(paths.PRODUCER_ID_BLOCK, encode_producer_ids(block), version=found.stat.version)
            except (BadVersionError, ConnectionLossError):
                continue

    async def generate_broker_id(self, *, reserved_max: int) -> BrokerId:
        """A number for a broker that was given none: larger than all reserved ones, and nobody else's."""
        while True:
            try:
                stat = await self._store.set(paths.BROKER_SEQ_ID, b"")
            except ConnectionLossError:
                continue  # a number that was drawn and then not known is lost, and that is all
            else:
                return BrokerId(reserved_max + stat.version)

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
