"""Where everything is. Each function gives the path of one znode; constants are the znodes that are always there."""

from __future__ import annotations

from typing import Final

from ottla.metadata.ids import TopicPartition

BROKERS: Final = "/brokers"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQ_ID: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
MIGRATION: Final = "/migration"
CONSUMERS: Final = "/consumers"
ADMIN: Final = "/admin"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
CONFIG: Final = "/config"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
ISR_CHANGES: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "/log_dir_event_notification/log_dir_event_"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
DELEGATION_TOKENS: Final = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES: Final = "/delegation_token/token_changes"  # noqa: S105
DELEGATION_TOKEN_CHANGE_PREFIX: Final = "/delegation_token/token_changes/token_change_"  # noqa: S105

PERSISTENT: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQ_ID,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""What the first broker of a cluster makes before anything else, and nobody ever deletes."""


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(where: TopicPartition) -> str:
    return f"{TOPICS}/{where.topic}/partitions/{where.partition}"


def partition_state(where: TopicPartition) -> str:
    return f"{TOPICS}/{where.topic}/partitions/{where.partition}/state"


def deletion(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def config_entities(kind: str) -> str:
    """The parent of all entities of one kind: topics, brokers, clients, users or ips."""
    return f"{CONFIG}/{kind}"


def consumer_offset(group: str, where: TopicPartition) -> str:
    """Where consumers of old kept their offsets; the tools still read it."""
    return f"{CONSUMERS}/{group}/offsets/{where.topic}/{where.partition}"


def delegation_token(token_id: str) -> str:
    return f"{DELEGATION_TOKENS}/{token_id}"


def sequence(path: str) -> int:
    """The number that ZooKeeper gave to a sequential node: its last ten characters."""
    return int(path[-10:])
