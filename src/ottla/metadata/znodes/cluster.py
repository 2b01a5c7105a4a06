"""What there is one of in a cluster: its id, its controller, its features, the next producer ids.

``/controller_epoch`` counts controllers. Every write of a controller is guarded by the version of that znode, so one
that was replaced without noticing can change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.metadata.documents import Document, encode, number
from ottla.metadata.errors import ZnodeError
from ottla.metadata.hashorder import immutable_order
from ottla.metadata.ids import BrokerId
from ottla.metadata.znodes import paths

INITIAL_CONTROLLER_EPOCH: Final = 0
"""What the first controller finds in ``/controller_epoch``, having put it there itself."""
PRODUCER_ID_BLOCK_SIZE: Final = 1000
_NOT_KRAFT: Final = -1


class ControllerRegistration(NamedTuple):
    """``/controller``: the broker that is the controller. ``kraft_epoch`` is at least 0 while KRaft takes over."""

    broker_id: BrokerId
    timestamp_ms: int
    kraft_epoch: int = _NOT_KRAFT


class ProducerIdBlock(NamedTuple):
    """``/latest_producer_id_block``: the producer ids that were given out last, and the broker that hands them on."""

    broker_id: BrokerId
    first: int
    last: int

    def next_for(self, broker_id: BrokerId) -> ProducerIdBlock | None:
        """The block after this one, or None if the 64 bits are used up."""
        if self.last > 2**63 - 1 - PRODUCER_ID_BLOCK_SIZE:
            return None
        return ProducerIdBlock(broker_id, self.last + 1, self.last + PRODUCER_ID_BLOCK_SIZE)


FIRST_PRODUCER_IDS: Final = ProducerIdBlock(BrokerId(-1), -PRODUCER_ID_BLOCK_SIZE, -1)
"""Before the first block."""


class FinalizedFeatures(NamedTuple):
    """``/feature``: the level of each feature that the whole cluster has agreed on (KIP-584)."""

    levels: Mapping[str, int]
    enabled: bool = True
    version: int = 2
    epoch: int = 0
    """The version of the znode it was read from, which grows with every change."""


class Migration(NamedTuple):
    """``/migration``: how far a KRaft controller has taken over (KIP-866)."""

    kraft_controller_id: int
    kraft_controller_epoch: int
    kraft_metadata_offset: int
    kraft_metadata_epoch: int


def encode_controller(controller: ControllerRegistration) -> bytes:
    return encode(
        {
            "version": 2,
            "brokerid": controller.broker_id,
            "timestamp": str(controller.timestamp_ms),
            "kraftControllerEpoch": controller.kraft_epoch,
        }
    )


def decode_controller(data: bytes | None) -> ControllerRegistration:
    document = Document.parse(paths.CONTROLLER, data)
    return ControllerRegistration(
        BrokerId(document.integer("brokerid")),
        document.digits("timestamp") if "timestamp" in document else 0,
        document.integer("kraftControllerEpoch", _NOT_KRAFT),
    )


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes | None) -> int:
    return number(paths.CONTROLLER_EPOCH, data)


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    return Document.parse(paths.CLUSTER_ID, data).text("id")


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    return encode(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_ids(data: bytes | None) -> ProducerIdBlock:
    if not data:
        return FIRST_PRODUCER_IDS
    document = Document.parse(paths.PRODUCER_ID_BLOCK, data)
    document.version(1)
    return ProducerIdBlock(
        BrokerId(document.integer("broker")), document.digits("block_start"), document.digits("block_end")
    )


def encode_features(features: FinalizedFeatures) -> bytes:
    # Version 1 also had a lower bound, which was always given as the same number.
    names = ("max_version_level", "min_version_level") if features.version == 1 else ("max_version_level",)
    levels = {feature: dict.fromkeys(names, level) for feature, level in features.levels.items()}
    return encode({"features": immutable_order(levels), "version": features.version, "status": int(features.enabled)})


def decode_features(data: bytes | None) -> FinalizedFeatures:
    document = Document.parse(paths.FEATURE, data)
    version = document.version(1, 2)
    status = document.integer("status")
    if status not in {0, 1}:
        raise ZnodeError(f"{document.path}: status must be 0 or 1, and is {status}")
    features = document.document("features")
    levels = {name: features.document(name).integer("max_version_level") for name in features.values}
    return FinalizedFeatures(levels, enabled=status == 1, version=version)


def encode_migration(migration: Migration) -> bytes:
    return encode(
        {
            "version": 0,
            "kraft_metadata_offset": migration.kraft_metadata_offset,
            "kraft_controller_id": migration.kraft_controller_id,
            "kraft_metadata_epoch": migration.kraft_metadata_epoch,
            "kraft_controller_epoch": migration.kraft_controller_epoch,
        }
    )


def decode_migration(data: bytes | None) -> Migration:
    document = Document.parse(paths.MIGRATION, data)
    document.version(0)
    return Migration(
        document.integer("kraft_controller_id"),
        document.integer("kraft_controller_epoch"),
        document.integer("kraft_metadata_offset"),
        document.integer("kraft_metadata_epoch"),
    )
