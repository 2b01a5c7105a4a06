"""A broker's configuration: ``server.properties`` with Kafka's names, and what was changed while it runs.

The tables are in ``metadata.configs``; here are the values this broker acts on, under names of its own. There is one
``BrokerConfig`` in a broker, and ``renew`` gives it new values: whoever depends on one reads it when it is needed, and whoever
has to act on a change is told by the server (``broker.settings``).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ottla.base.errors import ConfigError
from ottla.base.properties import parse_properties
from ottla.broker.listeners import (
    LOOPBACK,
    PORT_MAX,
    ListenerConfig,
    check_offered,
    check_protocols_stay,
    check_reach,
    check_stay,
    read_listeners,
)
from ottla.broker.quotas import ClientQuotas, ConnectionRates
from ottla.controller.term import ControllerConfig
from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.led import RuntimeConfig
from ottla.log import LogConfig
from ottla.log.cleaner.job import Resources
from ottla.metadata.configs import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    BrokerSources,
    broker_value,
    check_together,
    connection_overrides,
    no_effect,
    topic_value,
    usable,
)
from ottla.metadata.configs.definition import Value
from ottla.metadata.errors import InvalidConfigError
from ottla.metadata.ids import BrokerId
from ottla.net import WINDOW_US
from ottla.peers import Setup
from ottla.records import Codec, TimestampType
from ottla.replica.fetcher import FetchSettings

log = logging.getLogger(__name__)

UNFINISHED_BYTES_MAX = 64 << 20
"""What requests that are not all here yet may hold together, where ``queued.max.request.bytes`` says nothing."""
_LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
_RACK_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_INT_MAX = 2**31 - 1
METRICS_PORT = "ottla.metrics.port"
METRICS_HOST = "ottla.metrics.host"
BUSY_POLL = "ottla.busy.poll.us"
OWN_SETTINGS = frozenset({METRICS_PORT, METRICS_HOST, BUSY_POLL})
"""What Kafka does not have: where metrics are served in Prometheus form (without a port they are not), and for how long the
event loop looks for the next request before it sleeps."""
_BUSY_POLL_US_MAX = 10_000


class CleanerConfig(NamedTuple):
    """Of compaction; the resources are those of each thread."""

    is_enabled: bool
    threads: int
    backoff_ms: int
    resources: Resources


class BrokerConfig:
    """See the module. Raises ConfigError on anything that cannot be meant."""

    def __init__(self, properties: Mapping[str, str], *, insecure: bool = False) -> None:
        self.metrics_at = _metrics_at(properties, insecure=insecure)
        self.busy_poll_us = _busy_poll_us(properties)
        self.unknown = sorted(name for name in properties if name not in BROKER_CONFIGS and name not in OWN_SETTINGS)
        self.sources = BrokerSources(static=dict(properties))
        for name in properties:
            if name in BROKER_CONFIGS:
                self._value(name)
        check_together(self.sources)
        self.inert = {name: reason for name in properties if (reason := no_effect(name)) is not None}
        """What was set and changes nothing, and why."""
        self.broker_id = BrokerId(self._int("broker.id"))
        self.reserved_id_max = self._int("reserved.broker.max.id")
        self._check_broker_id(generated=bool(self._value("broker.id.generation.enable")))
        self.zookeeper_connect = self._text("zookeeper.connect")
        if not self.zookeeper_connect:
            raise ConfigError("zookeeper.connect must be given")
        self.session_timeout_ms = self._int("zookeeper.session.timeout.ms")
        self.log_dirs = self._log_dirs()
        self._insecure = insecure
        self.listeners = self._listeners(self.sources, between=None)
        check_offered(self.listeners)
        self.inter_broker_listener = self._inter_broker_listener()
        self._listeners(self.sources, between=self.inter_broker_listener)
        self.control_plane_listener = self._control_plane_listener()
        self.rack = self._text("broker.rack") or None
        self.request_bytes_max = self._int("socket.request.max.bytes")
        queued_bytes_max = self._int("queued.max.request.bytes")
        self.unfinished_bytes_max = queued_bytes_max if queued_bytes_max > 0 else UNFINISHED_BYTES_MAX
        self.idle_max_ms = self._int("connections.max.idle.ms")
        self.num_partitions = self._int("num.partitions")
        self.default_replication_factor = self._int("default.replication.factor")
        self.auto_create_topics = bool(self._value("auto.create.topics.enable"))
        self.delete_topics = bool(self._value("delete.topic.enable"))
        self.fetch_bytes_max = self._int("fetch.max.bytes")
        self.fetch_sessions_max = self._int("max.incremental.fetch.session.cache.slots")
        self.describe_partitions_max = self._int("max.request.partition.size.limit")
        self.transaction_timeout_max_ms = self._int("transaction.max.timeout.ms")
        self.retention_check_ms = self._int("log.retention.check.interval.ms")
        # Kafka's default is for brokers that take long to start; it never makes the first look later than the next ones.
        delay_ms = self._given_int("log.initial.task.delay.ms")
        self.retention_first_ms = (
            min(self._int("log.initial.task.delay.ms"), self.retention_check_ms) if delay_ms is None else delay_ms
        )
        self.producer_check_ms = self._int("producer.id.expiration.check.interval.ms")
        # All checkpoints are written together, at least as often as the most frequent of them has to be.
        self.checkpoint_ms = min(
            self._int("replica.high.watermark.checkpoint.interval.ms"),
            self._int("log.flush.offset.checkpoint.interval.ms"),
            self._int("log.flush.start.offset.checkpoint.interval.ms"),
        )
        self.connection_timeout_ms = self._int_or("zookeeper.connection.timeout.ms", self.session_timeout_ms)
        self.requests_in_flight_max = self._given_int("zookeeper.max.in.flight.requests")
        # Kafka's defaults are less than what systems choose by themselves today.
        self.send_buffer_bytes = self._given_int("socket.send.buffer.bytes")
        self.receive_buffer_bytes = self._given_int("socket.receive.buffer.bytes")
        self.backlog = self._given_int("socket.listen.backlog.size")
        self.selects_replicas = self._selector()
        self._offsets_codec = self._codec("offsets.topic.compression.codec")
        self.request_timeout_ms = self._int("request.timeout.ms")
        # As long as nobody says otherwise, who waits for the controller waits for as long as that helps.
        controller_timeout_ms = self._given_int("controller.socket.timeout.ms")
        self.controller_timeout_s = None if controller_timeout_ms is None else controller_timeout_ms / 1000
        self.replica_lag_max_ms = self._int("replica.lag.time.max.ms")
        self.controlled_shutdown = bool(self._value("controlled.shutdown.enable"))
        self.controlled_shutdown_retries = self._int("controlled.shutdown.max.retries")
        self.controlled_shutdown_backoff_ms = self._int("controlled.shutdown.retry.backoff.ms")
        self._read_changeable()

    def renew(self, *, dynamic_default: Mapping[str, str], dynamic: Mapping[str, str]) -> bool:
        """Take on what was changed for all brokers and for this one; False if that is what holds already."""
        sources = self.sources._replace(
            dynamic_default=_usable(dynamic_default, all_brokers=True), dynamic=_usable(dynamic, all_brokers=False)
        )
        if sources == self.sources:
            return False
        self._take_listeners(sources)
        self.sources = sources
        self._read_changeable()
        return True

    def _take_listeners(self, sources: BrokerSources) -> None:
        try:
            listeners = self._listeners(sources, between=self.inter_broker_listener)
            check_offered(listeners)
        except ConfigError as error:
            log.error("the listeners stay as they are, since they cannot be what they were changed to: %s", error)  # noqa: TRY400
            return
        self.listeners = listeners

    def _read_changeable(self) -> None:
        """The values that may be others after ``renew``."""
        self.fetchers = self._int("num.replica.fetchers")
        self.connections_max = self._int("max.connections")
        self.connections_per_address_max = self._int("max.connections.per.ip")
        self.connections_per_address_overrides = connection_overrides(self.sources)
        self.connection_rate_max = self._int("max.connection.creation.rate")
        self.leader_throttled_rate = self._int("leader.replication.throttled.rate")
        self.follower_throttled_rate = self._int("follower.replication.throttled.rate")
        self.log_dirs_throttled_rate = self._int("replica.alter.log.dirs.io.max.bytes.per.second")

    def quotas(self) -> tuple[ClientQuotas, ConnectionRates]:
        """The windows that the use of quotas is measured over."""
        samples, window_ms = self._int("quota.window.num"), self._int("quota.window.size.seconds") * 1000
        clients = ClientQuotas(
            samples=samples,
            window_ms=window_ms,
            mutation_samples=self._int("controller.quota.window.num"),
            mutation_window_ms=self._int("controller.quota.window.size.seconds") * 1000,
        )
        return clients, ConnectionRates(samples=samples, window_ms=window_ms)

    def replication_windows(self) -> tuple[int, int]:
        """How many windows throttled replication is measured over, and of how many milliseconds."""
        return self._int("replication.quota.window.num"), self._int("replication.quota.window.size.seconds") * 1000

    def log_dirs_windows(self) -> tuple[int, int]:
        """The same for moves between log directories."""
        window_s = self._int("alter.log.dirs.replication.quota.window.size.seconds")
        return self._int("alter.log.dirs.replication.quota.window.num"), window_s * 1000

    def listener_connections_max(self, listener: str) -> int:
        """``max.connections`` of one listener, which is without a limit of its own unless that was set."""
        name = f"listener.name.{listener.lower()}.max.connections"
        return self._int(name) if self._is_given(name) else _INT_MAX

    def listener_connection_rate_max(self, listener: str) -> int:
        name = f"listener.name.{listener.lower()}.max.connection.creation.rate"
        return self._int(name) if self._is_given(name) else _INT_MAX

    def groups(self) -> GroupConfig:
        return GroupConfig(
            session_timeout_min_ms=self._int("group.min.session.timeout.ms"),
            session_timeout_max_ms=self._int("group.max.session.timeout.ms"),
            size_max=self._int("group.max.size"),
            initial_rebalance_delay_ms=self._int("group.initial.rebalance.delay.ms"),
            metadata_max=self._int("offset.metadata.max.bytes"),
            retention_ms=self._int("offsets.retention.minutes") * 60_000,
            retention_check_ms=self._int("offsets.retention.check.interval.ms"),
        )

    def group_runtime(self) -> RuntimeConfig:
        return RuntimeConfig(
            write_timeout_ms=self._int("offsets.commit.timeout.ms"),
            load_bytes=self._int("offsets.load.buffer.size"),
            compression=self._offsets_codec,
            acks=self._int("offsets.commit.required.acks"),
        )

    def setup(self, *, receive_buffer_bytes: int | None = None) -> Setup:
        """How this broker connects to others."""
        return Setup(
            timeout_s=self._int("socket.connection.setup.timeout.ms") / 1000,
            timeout_max_s=self._int("socket.connection.setup.timeout.max.ms") / 1000,
            receive_buffer_bytes=receive_buffer_bytes,
        )

    def fetch_setup(self) -> Setup:
        """The same for its fetchers."""
        size = self._given_int("replica.socket.receive.buffer.bytes")
        return self.setup(receive_buffer_bytes=size if size is not None and size > 0 else None)

    def fetch_settings(self) -> FetchSettings:
        """How this broker fetches as a follower."""
        return FetchSettings(
            broker_id=self.broker_id,
            fetchers=self.fetchers,
            wait_max_ms=self._int("replica.fetch.wait.max.ms"),
            min_bytes=self._int("replica.fetch.min.bytes"),
            max_bytes=self._int("replica.fetch.max.bytes"),
            response_max_bytes=self._int("replica.fetch.response.max.bytes"),
            backoff_ms=self._int("replica.fetch.backoff.ms"),
            timeout_ms=self._int("replica.socket.timeout.ms"),
        )

    @classmethod
    def from_file(cls, file: str, settings: Mapping[str, str], *, insecure: bool) -> BrokerConfig:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"cannot be read: it is not UTF-8 ({error.reason} at byte {error.start})") from error
        return cls({**parse_properties(text), **settings}, insecure=insecure)

    def log_config(self, topic_config: Mapping[str, str]) -> LogConfig:
        """What holds for the logs of a topic."""
        # The tables give each setting its type; from here on the fields of LogConfig do.
        value: dict[str, Any] = {name: topic_value(name, topic_config, self.sources) for name in _LOG_SETTINGS}
        return LogConfig(
            **{field: value[name] for name, field in _PLAIN.items()},
            compression_level=self._compression_level(value["compression.type"], topic_config),
            cleanup_policy=frozenset(value["cleanup.policy"]),
            message_timestamp_before_max_ms=_or_difference(value, "message.timestamp.before.max.ms"),
            message_timestamp_after_max_ms=_or_difference(value, "message.timestamp.after.max.ms"),
            message_timestamp_type=_TIMESTAMP_TYPES[value["message.timestamp.type"]],
            producer_id_expiration_ms=self._int("producer.id.expiration.ms"),
        )

    def controller(self) -> ControllerConfig:
        return ControllerConfig(
            broker_id=self.broker_id,
            listener=self.inter_broker_listener,
            unclean=self.unclean,
            may_delete=self.delete_topics,
            auto_rebalance=bool(self._value("auto.leader.rebalance.enable")),
            imbalance_percentage=self._int("leader.imbalance.per.broker.percentage"),
            imbalance_check_s=self._int("leader.imbalance.check.interval.seconds"),
        )

    def cleaner(self) -> CleanerConfig:
        """What the cleaner goes by, as it is at the moment."""
        threads = self._int("log.cleaner.threads")
        each = max(threads, 1)
        return CleanerConfig(
            is_enabled=bool(self._value("log.cleaner.enable")),
            threads=threads,
            backoff_ms=self._int("log.cleaner.backoff.ms"),
            resources=Resources(
                dedupe_bytes=self._int("log.cleaner.dedupe.buffer.size") // each,
                load_factor=self._float("log.cleaner.io.buffer.load.factor"),
                io_bytes=self._int("log.cleaner.io.buffer.size") // each,
                bytes_per_second=self._float("log.cleaner.io.max.bytes.per.second") / each,
            ),
        )

    def _compression_level(self, codec: str, topic_config: Mapping[str, str]) -> int | None:
        name = f"compression.{codec}.level"
        if name not in TOPIC_CONFIGS:
            return None
        level = topic_value(name, topic_config, self.sources)
        assert isinstance(level, int)
        return None if level == TOPIC_CONFIGS[name].default else level

    def min_insync_replicas(self, topic_config: Mapping[str, str]) -> int:
        value = topic_value("min.insync.replicas", topic_config, self.sources)
        assert isinstance(value, int)
        return value

    def unclean(self, topic_config: Mapping[str, str]) -> bool:
        return bool(topic_value("unclean.leader.election.enable", topic_config, self.sources))

    def _check_broker_id(self, *, generated: bool) -> None:
        if self.broker_id < (-1 if generated else 0):
            raise ConfigError("broker.id must be given" if not generated else "broker.id must be -1 or greater")
        if generated and self.broker_id > self.reserved_id_max:
            raise ConfigError(
                f"broker.id is {self.broker_id}; what is above reserved.broker.max.id ({self.reserved_id_max}) is given "
                "out by the ensemble"
            )

    def _log_dirs(self) -> list[Path]:
        """What is given as empty does not fall back on the default, where nobody would look for the data."""
        given = self._text("log.dir" if self._value("log.dirs") is None else "log.dirs").split(",")
        found = [Path(each.strip()) for each in given if each.strip()]
        if not found:
            raise ConfigError("requirement failed: At least one log directory must be defined via log.dirs or log.dir.")
        return found

    def check_listeners(self, dynamic: Mapping[str, str]) -> None:
        """Raise the reason why this broker cannot listen as these changes of its settings would have it."""
        try:
            after = self._listeners(self.sources._replace(dynamic=dynamic), between=self.inter_broker_listener)
            check_protocols_stay(self.listeners, after)
            check_offered(after)
            check_stay(self.listeners, after, {self.inter_broker_listener, self.control_plane_listener})
        except ConfigError as error:
            raise InvalidConfigError(str(error)) from error

    def _listeners(self, sources: BrokerSources, *, between: str | None) -> list[ListenerConfig]:
        def setting(name: str) -> str | None:
            value = broker_value(name, sources)
            return None if value is None else _text(value)

        return read_listeners(setting, between=between, insecure=self._insecure)

    def _inter_broker_listener(self) -> str:
        named = self._text("inter.broker.listener.name").upper()
        if named and self._is_given("security.inter.broker.protocol"):
            raise ConfigError(
                "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
            )
        names = [listener.name for listener in self.listeners]
        name = named or self._text("security.inter.broker.protocol")
        if name in names:
            return name
        if named or self._is_given("security.inter.broker.protocol"):
            raise ConfigError(f"the listener between brokers, {name}, is none of listeners: {', '.join(names)}")
        return next(listener.name for listener in self.listeners if listener.is_advertised)

    def _control_plane_listener(self) -> str:
        """Where the controller reaches brokers."""
        name = self._text("control.plane.listener.name").upper()
        if not name:
            return self.inter_broker_listener
        if name not in [listener.name for listener in self.listeners]:
            raise ConfigError(f"control.plane.listener.name: {name} is none of listeners")
        if name == self.inter_broker_listener:
            raise ConfigError(
                "control.plane.listener.name, when defined, should have a different value from the inter broker listener "
                f"name. Currently they both have the value {name}"
            )
        return name

    def value(self, name: str) -> object:
        """What holds for any setting of a broker, by Kafka's name, now."""
        return broker_value(name, self.sources)

    def _is_given(self, name: str) -> bool:
        return any(name in given for given in self.sources)

    def _selector(self) -> bool:
        """Whether consumers are sent to a replica in their rack."""
        name = self._text("replica.selector.class")
        if name not in ("", _LEADER_SELECTOR, _RACK_SELECTOR):
            raise ConfigError(f"replica.selector.class: {name!r}; there are {_LEADER_SELECTOR} and {_RACK_SELECTOR}")
        return name == _RACK_SELECTOR

    def _codec(self, name: str) -> Codec:
        codec = self._int(name)
        if codec not in list(Codec):
            raise ConfigError(f"{name}: {codec} is no codec; there are 0 to {max(Codec)}")
        return Codec(codec)

    def _value(self, name: str) -> Value:
        return broker_value(name, self.sources)

    def _int(self, name: str) -> int:
        value = self._value(name)
        assert isinstance(value, int), name
        return value

    def _float(self, name: str) -> float:
        value = self._value(name)
        assert isinstance(value, int | float), name
        return float(value)

    def _int_or(self, name: str, default: int) -> int:
        value = self._value(name)
        return value if isinstance(value, int) else default

    def _given_int(self, name: str) -> int | None:
        """What was set, however that is also the default."""
        return self._int(name) if self._is_given(name) else None

    def _text(self, name: str) -> str:
        return _text(self._value(name))


def _text(value: Value) -> str:
    if value is None:
        return ""
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _metrics_at(properties: Mapping[str, str], *, insecure: bool) -> tuple[str, int] | None:
    port = properties.get(METRICS_PORT, "").strip()
    if not port:
        return None
    if not port.isdecimal() or int(port) > PORT_MAX:
        raise ConfigError(f"{METRICS_PORT}: {port!r} must be a port, or 0 for a free one")
    host = properties.get(METRICS_HOST, "").strip() or LOOPBACK
    check_reach(METRICS_HOST, host, insecure=insecure)
    return host, int(port)


def _busy_poll_us(properties: Mapping[str, str]) -> int:
    given = properties.get(BUSY_POLL, str(WINDOW_US)).strip()
    if not given.isdecimal() or int(given) > _BUSY_POLL_US_MAX:
        raise ConfigError(f"{BUSY_POLL}: {given!r} must be microseconds, at most {_BUSY_POLL_US_MAX}; 0 for never")
    return int(given)


def _usable(config: Mapping[str, str], *, all_brokers: bool) -> dict[str, str]:
    kept = usable(config, all_brokers=all_brokers)
    for name in config.keys() - kept.keys():
        log.error("%s was changed to what cannot be, and is ignored", name)
    return kept


def _or_difference(value: Mapping[str, Any], name: str) -> int:
    """One of the two limits of a record's time; who did not set it may still have set what both were before (KIP-937)."""
    own: int = value[name]
    both: int = value["message.timestamp.difference.max.ms"]
    return both if own == TOPIC_CONFIGS[name].default else own


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
    "delete.retention.ms": "delete_retention_ms",
    "min.compaction.lag.ms": "min_compaction_lag_ms",
    "max.compaction.lag.ms": "max_compaction_lag_ms",
    "min.cleanable.dirty.ratio": "min_cleanable_dirty_ratio",
    "compression.type": "compression_type",
    "max.message.bytes": "max_message_bytes",
}
"""Settings of a topic that are a field of ``LogConfig`` as they are."""
_LOG_SETTINGS = (
    *_PLAIN,
    "cleanup.policy",
    "message.timestamp.type",
    "message.timestamp.difference.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
)
_TIMESTAMP_TYPES = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}
