"""Orders to the controller and news for it, left by tools and brokers.

/admin/delete_topics/T                    delete a topic; the znode is empty
/admin/reassign_partitions                move partitions (before KIP-455; tools of old)
/admin/preferred_replica_election         let the preferred replicas lead (before KIP-460)
/isr_change_notification/isr_change_N     these partitions have a new ISR (before KIP-497)
/log_dir_event_notification/…             a log directory of this broker failed
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.metadata.documents import Document, encode
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.topics import Replicas

_LOG_DIR_FAILURE: Final = 1


def encode_reassignment(moves: Mapping[TopicPartition, Replicas]) -> bytes:
    partitions = [
        {"topic": where.topic, "partition": where.partition, "replicas": list(replicas)}
        for where, replicas in moves.items()
    ]
    return encode({"version": 1, "partitions": partitions})


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, Replicas]:
    document = Document.parse(paths.REASSIGN_PARTITIONS, data)
    document.version(1)
    return {
        _partition(each): tuple(map(BrokerId, each.integers("replicas"))) for each in document.documents("partitions")
    }


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """What an election of preferred replicas and a change of ISRs look like."""
    listed = [{"topic": where.topic, "partition": where.partition} for where in partitions]
    return encode({"version": 1, "partitions": listed})


def decode_partitions(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    document = Document.parse(path, data)
    document.version(1)
    return tuple(map(_partition, document.documents("partitions")))


def encode_log_dir_event(broker_id: BrokerId) -> bytes:
    return encode({"version": 1, "broker": broker_id, "event": _LOG_DIR_FAILURE})


def decode_log_dir_event(path: str, data: bytes | None) -> BrokerId:
    return BrokerId(Document.parse(path, data).integer("broker"))


def _partition(document: Document) -> TopicPartition:
    return TopicPartition(document.text("topic"), document.integer("partition"))
