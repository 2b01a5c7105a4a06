"""Settings as they are at the moment: those of the file, and over them what was changed while the broker runs.

``BrokerConfig`` is one object that gets new values, and whoever needs one reads it then. Here are those who have to act on a
change: logs, listeners, quotas, throttles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.base.clock import Clock
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.ports import Ports
from ottla.broker.quotas.entities import ip_quotas
from ottla.broker.throttling import Throttling
from ottla.log import LogConfig
from ottla.metadata.znodes.configs import ConfigEntity
from ottla.replica.fetchers import Fetchers
from ottla.replica.partition import Partition
from ottla.replica.replicas import Replicas

_KEPT_MAX: Final = 1_000


class Settings:
    def __init__(self, config: BrokerConfig, cluster: ClusterView, ports: Ports, clock: Clock) -> None:
        self.config = config
        self.throttling = Throttling(config, clock)
        self.quotas, self.connection_rates = config.quotas()
        self.replicas: Replicas | None = None
        self.fetchers: Fetchers | None = None
        """Told of changes once they are there."""
        self.listeners_changed: Callable[[], None] | None = None
        """Called once there are any."""
        self._cluster = cluster
        self._ports = ports
        self._log_configs: dict[frozenset[tuple[str, str]], LogConfig] = {}
        """By what was set for a topic: most have the same, and many partitions."""

    def begin(self) -> None:
        """What was changed before this start is read."""
        self._renew()
        self.quotas.configure(self._cluster.image.configs)

    def changed(self, entity: ConfigEntity, config: Mapping[str, str]) -> None:
        """Somebody changed the settings of an entity: they are these now."""
        self._cluster.image = self._cluster.image.with_config(entity, config)
        match entity.kind:
            case "topics" if entity.name is not None:
                self._configure(entity.name)
            case "brokers":
                self._renew()
            case "users" | "clients":
                self.quotas.configure(self._cluster.image.configs)
            case "ips":
                self.limit_connections()

    def limit_connections(self) -> None:
        config = self.config
        self._ports.limit()
        self.connection_rates.configure(
            broker_max=config.connection_rate_max,
            listener_max={port.name: config.listener_connection_rate_max(port.name) for port in self._ports},
            address_max=ip_quotas(self._cluster.image.configs),
        )

    def log_config(self, topic: str) -> LogConfig:
        settings = self._cluster.image.topic_config(topic)
        key = frozenset(settings.items())
        found = self._log_configs.get(key)
        if found is None:
            if len(self._log_configs) >= _KEPT_MAX:
                self._log_configs.clear()
            found = self._log_configs[key] = self.config.log_config(settings)
        return found

    def min_insync_replicas(self, topic: str) -> int:
        return self.config.min_insync_replicas(self._cluster.image.topic_config(topic))

    def _renew(self) -> None:
        """The settings of this broker may be others; what is built on them is told."""
        image, config = self._cluster.image, self.config
        dynamic_default, dynamic = image.broker_config(None), image.broker_config(config.broker_id)
        listeners = config.listeners
        if not config.renew(dynamic_default=dynamic_default, dynamic=dynamic):
            return
        if config.listeners != listeners and self.listeners_changed is not None:
            self.listeners_changed()
        self._log_configs.clear()
        self.limit_connections()
        self.throttling.renew()
        if self.fetchers is not None:
            self.fetchers.resize(config.fetchers)
        for name in image.topics:
            self._configure(name)

    def throttle(self, partition: Partition) -> None:
        self.throttling.apply(partition, self._cluster.image.topic_config(partition.where.topic))

    def _configure(self, topic: str) -> None:
        if self.replicas is not None:
            self.replicas.configure(topic, self.log_config(topic), min_insync_replicas=self.min_insync_replicas(topic))
            for partition in self.replicas:
                if partition.where.topic == topic:
                    self.throttle(partition)
