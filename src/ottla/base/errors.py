"""The root of every error this project raises on purpose.

    Error
    ├── ConfigError                a setting that cannot be; the message names the key and what would do
    ├── CorruptionError            bytes on disk that are not what was written (ottla.keeper.store, ottla.log)
    ├── DiskError                  the disk refused; what it holds is not known any more (ottla.keeper.disk)
    ├── RemoteProtocolError        the peer sent what the protocol does not allow
    ├── ZnodeError and others      a description of a cluster that cannot be (ottla.metadata.errors)
    ├── RegistryError              what the ensemble answers instead of a result (ottla.registry.errors)
    ├── RecordsError               records that cannot be appended, by Kafka's names (ottla.records.errors)
    ├── ScanError                  what keeps a log from being read in bulk (ottla.scan.errors)
    ├── LogError                   what a log cannot do, by Kafka's names (ottla.log.errors)
    ├── ReplicaError               what a replica does not do, by Kafka's names (ottla.replica.errors)
    └── KeeperError                a ZooKeeper result code (ottla.keeper.proto.errors)

What else is raised is a mistake of ours, and nobody but the outermost boundary catches it.
"""

from __future__ import annotations


class Error(Exception):
    """Raised only by code of this project, so that a boundary can tell it from a surprise."""


class ConfigError(Error):
    """A configuration that cannot work. The message says which key, what it holds and what it may hold."""


class CorruptionError(Error):
    """Stored bytes that fail their checksum or their structure where no crash can explain it."""


class DiskError(Error):
    """A write or a sync failed. Nothing may be built on it, nor on what was to follow it."""


class RemoteProtocolError(Error):
    """A peer broke the protocol; the connection to it is closed."""
