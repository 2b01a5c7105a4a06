"""What can be wrong with the description of a cluster.

Error
├── ZnodeError                  a znode that holds what no Kafka writes; the message names the path
├── InvalidTopicError           a topic name that cannot be, or that collides with another
├── InvalidPartitionsError      a number of partitions that cannot be
├── InvalidReplicationError     a number of replicas that the live brokers cannot hold
└── InvalidConfigError          a setting of a topic, broker or client that cannot be
    ├── UnknownConfigError      one that does not exist
    └── ConfigConflictError     one that is good by itself, and not for what it is meant for
"""

from __future__ import annotations

from ottla.base.errors import ConfigError, Error


class ZnodeError(Error):
    """A znode that cannot be read. Whoever wrote it is newer, broken or not Kafka."""


class InvalidTopicError(Error):
    """The reason why a topic may not have this name."""


class InvalidPartitionsError(Error):
    """The reason why a topic may not have this many partitions."""


class InvalidReplicationError(Error):
    """The reason why partitions may not have these replicas."""


class InvalidConfigError(ConfigError):
    """The reason why a setting may not have this value."""


class UnknownConfigError(InvalidConfigError):
    """Nothing has a setting of this name."""


class ConfigConflictError(InvalidConfigError):
    """The reason why a setting cannot be, though its value could."""
