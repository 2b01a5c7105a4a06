"""A broker's configuration: ``server.properties`` with Kafka's names, and what was changed while it runs.

The tables are in ``metadata.configs``; here are the values this broker acts on, under names of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ottla.base.errors import ConfigError
from ottla.base.properties import parse_properties
from ottla.log import LogConfig
from ottla.metadata.configs import BROKER_CONFIGS, BrokerSources, broker_value, topic_value
from ottla.metadata.ids import BrokerId
from ottla.metadata.znodes.brokers import Endpoint, parse_endpoint
from ottla.records import TimestampType

_LOOPBACK = "127.0.0.1"
_LOOPBACK_PREFIXES = ("127.", "::1", "localhost")
_PLAINTEXT = "PLAINTEXT"


class ListenerConfig(NamedTuple):
    """Where to listen, and under which address clients are told to come."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    security_protocol: str

    def endpoint(self, port: int) -> Endpoint:
        """What is registered, once the port is known."""
        return Endpoint(self.name, self.advertised_host, self.advertised_port or port, self.security_protocol)


class BrokerConfig:
    """See the module. Raises ConfigError on anything that cannot be meant."""

    def __init__(self, properties: Mapping[str, str], *, insecure: bool = False) -> None:
        self.unknown = sorted(name for name in properties if name not in BROKER_CONFIGS)
        self.sources = BrokerSources(static=dict(properties))
        for name in properties:
            if name in BROKER_CONFIGS:
                self._value(name)
        self.broker_id = BrokerId(self._int("broker.id"))
        if self.broker_id < 0:
            raise ConfigError("broker.id must be given")
        self.zookeeper_connect = self._text("zookeeper.connect")
        if not self.zookeeper_connect:
            raise ConfigError("zookeeper.connect must be given")
        self.session_timeout_ms = self._int("zookeeper.session.timeout.ms")
        self.log_dirs = [Path(each) for each in (self._text("log.dirs") or self._text("log.dir")).split(",")]
        self.listeners = self._listeners(insecure=insecure)
        self.inter_broker_listener = self._text("inter.broker.listener.name") or self.listeners[0].name
        self.rack = self._text("broker.rack") or None
        self.request_bytes_max = self._int("socket.request.max.bytes")
        self.connections_max = self._int("max.connections")
        self.connections_per_address_max = self._int("max.connections.per.ip")
        self.idle_max_ms = self._int("connections.max.idle.ms")
        self.num_partitions = self._int("num.partitions")
        self.default_replication_factor = self._int("default.replication.factor")
        self.auto_create_topics = bool(self._value("auto.create.topics.enable"))
        self.delete_topics = bool(self._value("delete.topic.enable"))
        self.fetch_sessions_max = self._int("max.incremental.fetch.session.cache.slots")
        self.retention_check_ms = self._int("log.retention.check.interval.ms")
        self.checkpoint_ms = self._int("replica.high.watermark.checkpoint.interval.ms")

    @classmethod
    def from_file(cls, file: str, settings: Mapping[str, str], *, insecure: bool) -> BrokerConfig:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or error}") from error
        return cls({**parse_properties(text), **settings}, insecure=insecure)

    def log_config(self, topic_config: Mapping[str, str]) -> LogConfig:
        """What holds for the logs of a topic."""
        # The tables give each setting its type; from here on the fields of LogConfig do.
        value: dict[str, Any] = {name: topic_value(name, topic_config, self.sources) for name in _LOG_SETTINGS}
        return LogConfig(
            **{field: value[name] for name, field in _PLAIN.items()},
            cleanup_policy=frozenset(value["cleanup.policy"]),
            message_timestamp_type=_TIMESTAMP_TYPES[value["message.timestamp.type"]],
            producer_id_expiration_ms=self._int("producer.id.expiration.ms"),
        )

    def min_insync_replicas(self, topic_config: Mapping[str, str]) -> int:
        value = topic_value("min.insync.replicas", topic_config, self.sources)
        assert isinstance(value, int)
        return value

    def unclean(self, topic_config: Mapping[str, str]) -> bool:
        return bool(topic_value("unclean.leader.election.enable", topic_config, self.sources))

    def _listeners(self, *, insecure: bool) -> list[ListenerConfig]:
        protocols = dict(
            pair.rsplit(":", 1) for pair in self._text("listener.security.protocol.map").split(",") if pair
        )
        advertised = dict(_endpoints("advertised.listeners", self._text("advertised.listeners")))
        listeners = []
        for name, (host, port) in _endpoints("listeners", self._text("listeners")):
            if not (insecure or not host or host.startswith(_LOOPBACK_PREFIXES)):
                raise ConfigError(
                    f"listeners: {host} can be reached from other machines, and there is no access control yet; "
                    "use a loopback address, or allow it with --insecure"
                )
            protocol = protocols.get(name, name)
            if protocol != _PLAINTEXT:
                raise ConfigError(f"listeners: {name} wants {protocol}, which this version does not have yet")
            told_host, told_port = advertised.get(name, (host or _LOOPBACK, port))
            listeners.append(ListenerConfig(name, host or _LOOPBACK, port, told_host, told_port, protocol))
        if not listeners:
            raise ConfigError("listeners: at least one is needed")
        return listeners

    def _value(self, name: str) -> object:
        return broker_value(name, self.sources)

    def _int(self, name: str) -> int:
        value = self._value(name)
        assert isinstance(value, int), name
        return value

    def _text(self, name: str) -> str:
        value = self._value(name)
        if value is None:
            return ""
        return ",".join(value) if isinstance(value, tuple) else str(value)


def _endpoints(setting: str, text: str) -> list[tuple[str, tuple[str, int]]]:
    found = []
    for each in filter(None, text.split(",")):
        parsed = parse_endpoint(each.strip())
        if parsed is None:
            raise ConfigError(f"{setting}: {each!r} must be like PLAINTEXT://host:9092")
        found.append((parsed[0], (parsed[1], parsed[2])))
    return found


_PLAIN = {
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.jitter.ms": "segment_jitter_ms",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "preallocate": "preallocate",
    "flush.messages": "flush_messages",
    "flush.ms": "flush_ms",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "file.delete.delay.ms": "file_delete_delay_ms",
    "compression.type": "compression_type",
    "max.message.bytes": "max_message_bytes",
    "message.timestamp.before.max.ms": "message_timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "message_timestamp_after_max_ms",
}
"""Settings of a topic that are a field of ``LogConfig`` as they are."""
_LOG_SETTINGS = (*_PLAIN, "cleanup.policy", "message.timestamp.type")
_TIMESTAMP_TYPES = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}
