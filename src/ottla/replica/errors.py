"""Why a replica does not do what it is asked, by Kafka's names for it."""

from __future__ import annotations

from typing import ClassVar

from ottla.base.errors import Error


class ReplicaError(Error):
    """``error`` is the name of the Kafka error a client is answered with."""

    error: ClassVar[str]


class UnknownPartitionError(ReplicaError):
    error = "UNKNOWN_TOPIC_OR_PARTITION"


class NotHereError(UnknownPartitionError):
    """The partition exists. Clients are told to look for its leader, which unlike the other is worth doing at once."""

    error = "NOT_LEADER_OR_FOLLOWER"


class UnknownTopicIdError(ReplicaError):
    error = "UNKNOWN_TOPIC_ID"


class OfflinePartitionError(ReplicaError):
    error = "KAFKA_STORAGE_ERROR"


class NotLeaderError(ReplicaError):
    error = "NOT_LEADER_OR_FOLLOWER"


class FencedLeaderEpochError(ReplicaError):
    error = "FENCED_LEADER_EPOCH"


class UnknownLeaderEpochError(ReplicaError):
    error = "UNKNOWN_LEADER_EPOCH"


class NotEnoughReplicasError(ReplicaError):
    error = "NOT_ENOUGH_REPLICAS"


class OffsetNotAvailableError(ReplicaError):
    error = "OFFSET_NOT_AVAILABLE"


class StaleOrderError(ReplicaError):
    """An order of the past. The name is the one that Kafka's brokers answer with, whichever epoch is meant."""

    error = "STALE_CONTROLLER_EPOCH"


class InconsistentTopicIdError(ReplicaError):
    error = "INCONSISTENT_TOPIC_ID"


class PolicyViolationError(ReplicaError):
    error = "POLICY_VIOLATION"
