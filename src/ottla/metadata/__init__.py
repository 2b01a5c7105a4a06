"""The cluster as values: ids, names, images, settings, and for every znode its path, encode and decode. Pure.

ids, names      what brokers, topics and partitions are called
placement       which brokers get the replicas of new partitions
znodes          the znodes of Kafka 3.9, byte for byte
image           the whole cluster as one immutable value
configs         every setting of topics and brokers, declared once
"""

from __future__ import annotations

from ottla.metadata.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicationError,
    InvalidTopicError,
    ZnodeError,
)
from ottla.metadata.ids import BrokerId, TopicId, TopicPartition
from ottla.metadata.image import Image, LiveBroker, Topic
from ottla.metadata.znodes.brokers import BrokerRegistration
from ottla.metadata.znodes.configs import ConfigEntity
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment

__all__ = [
    "BrokerId",
    "BrokerRegistration",
    "ConfigEntity",
    "Image",
    "InvalidConfigError",
    "InvalidPartitionsError",
    "InvalidReplicationError",
    "InvalidTopicError",
    "LeaderAndIsr",
    "LiveBroker",
    "ReplicaAssignment",
    "Topic",
    "TopicId",
    "TopicPartition",
    "ZnodeError",
]
