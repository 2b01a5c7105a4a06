"""A broker as a running thing: log directories, the registry, the controller and the listeners, put together.

start    take the log directories and read what is there, connect to the ensemble, find or make the cluster id, open the
         listeners, register, and only then try to be the controller: whoever is told of this broker can reach it
run      connections are served as frames come; a few tasks look after retention, flushing and checkpoints
stop     accept nothing more, close connections, leave the ensemble, close the logs, and say that they are whole
"""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64encode
from dataclasses import replace
from os import urandom

from ottla.base.clock import SystemClock
from ottla.base.errors import ConfigError
from ottla.base.scope import TaskScope
from ottla.broker import apis
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig, ListenerConfig
from ottla.broker.connection import KafkaConnection
from ottla.broker.dispatch import Dispatch
from ottla.broker.fetchsessions import FetchSessions
from ottla.broker.producerids import ProducerIds
from ottla.broker.services import Services
from ottla.broker.topics import TopicAdmin
from ottla.controller.controller import Controller
from ottla.log import LogConfig, LogDirectory, MetaProperties
from ottla.metadata.image import Image
from ottla.metadata.znodes.brokers import BrokerRegistration
from ottla.metadata.znodes.cluster import ControllerRegistration
from ottla.net import Listener
from ottla.registry import KazooStore, Registry
from ottla.replica.replicas import Replicas

log = logging.getLogger(__name__)


class ListenerPort:
    """One listener with its socket."""

    def __init__(self, config: ListenerConfig, listener: Listener) -> None:
        self.name = config.name
        self.config = config
        self.listener = listener


class BrokerServer:
    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.clock = SystemClock()
        self.cluster = ClusterView()
        self.dispatch = Dispatch(apis.ALL)
        self.connections: set[KafkaConnection] = set()
        self.services: Services
        self.ports: list[ListenerPort] = []
        self.failed = asyncio.Event()
        self._scope = TaskScope("broker")
        self._directories: list[LogDirectory] = []
        self._store: KazooStore | None = None
        self._epoch = -1
        self._replicas: Replicas
        self._controller: Controller

    # Start and stop.

    async def start(self) -> None:
        await self._scope.__aenter__()
        config, now_ms = self.config, self.clock.wall_ms()
        self._directories = [LogDirectory(path) for path in config.log_dirs]
        self._store = await KazooStore(
            config.zookeeper_connect, session_timeout_ms=config.session_timeout_ms
        ).__aenter__()
        registry = Registry(self._store)
        await registry.cluster.make_paths()
        cluster_id = await registry.cluster.cluster_id(urlsafe_b64encode(urandom(16))[:22].decode())
        assert cluster_id is not None
        configs = await registry.configs.read_all()
        self.cluster.image = replace(Image(), cluster_id=cluster_id, configs=configs)
        for directory in self._directories:
            directory.claim(MetaProperties(broker_id=config.broker_id, cluster_id=cluster_id))
            directory.load(self._log_config, now_ms=now_ms)
        self._replicas = Replicas(config.broker_id, self._directories, self._log_config)
        self._controller = Controller(
            registry,
            config.broker_id,
            self,
            self.clock,
            unclean=lambda topic: config.unclean(self.cluster.image.topic_config(topic)),
            may_delete=config.delete_topics,
        )
        self.services = Services(
            config=config,
            clock=self.clock,
            loop=asyncio.get_running_loop(),
            scope=self._scope,
            dispatch=self.dispatch,
            cluster=self.cluster,
            replicas=self._replicas,
            topics=TopicAdmin(config, self.cluster, registry, self._controller, self._scope),
            producer_ids=ProducerIds(registry, config.broker_id, self._scope),
            fetch_sessions=FetchSessions(sessions_max=config.fetch_sessions_max),
        )
        await self._listen()
        await self._register(registry)
        await self._controller.start()
        self._scope.spawn(self._follow(self._store), name="registry events")
        self._scope.spawn(self._look_after_logs(), name="log upkeep")
        self._scope.spawn(self._close_idle(), name="idle connections")

    async def _listen(self) -> None:
        for config in self.config.listeners:
            listener = Listener(
                connections_max=self.config.connections_max, per_address_max=self.config.connections_per_address_max
            )
            port = ListenerPort(config, listener)
            try:
                await listener.listen(lambda port=port: KafkaConnection(self, port), config.host, config.port)  # type: ignore[misc]
            except OSError as error:
                raise ConfigError(f"cannot listen on {config.host}:{config.port}: {error.strerror or error}") from error
            self.ports.append(port)

    async def _register(self, registry: Registry) -> None:
        registration = BrokerRegistration(
            self.config.broker_id,
            tuple(port.config.endpoint(port.listener.port) for port in self.ports),
            rack=self.config.rack,
            timestamp_ms=self.clock.wall_ms(),
        )
        self._epoch = await registry.brokers.register(registration, wait_ms=2 * self.config.session_timeout_ms)

    async def stop(self) -> None:
        for port in self.ports:
            port.listener.stop()
        for connection in list(self.connections):
            connection.close()
        self._scope.cancel()
        await self._scope.wait()
        if self._store is not None:
            await self._store.__aexit__(None, None, None)
        if hasattr(self, "_replicas"):
            self._replicas.checkpoint()
        for directory in self._directories:
            directory.close(now_ms=self.clock.wall_ms(), broker_epoch=self._epoch)

    # What the controller decides.

    def decided(self, image: Image) -> None:
        now_ms = self.clock.wall_ms()
        epoch = self._controller.epoch
        controller = ControllerRegistration(self.config.broker_id, now_ms) if epoch is not None else image.controller
        image = image.with_controller(controller, epoch or image.controller_epoch)
        image = replace(image, cluster_id=self.cluster.image.cluster_id)
        known = self.cluster.image.topics
        self.cluster.image = image
        for name, topic in image.topics.items():
            if known.get(name) is not topic:
                self._replicas.apply(topic, now_ms=now_ms)
        for partition in self._replicas:
            topic_config = image.topic_config(partition.where.topic)
            partition.min_insync_replicas = self.config.min_insync_replicas(topic_config)
        self.cluster.update(image)

    def deleted(self, topic: str) -> None:
        self._replicas.delete(topic, now_ms=self.clock.wall_ms())
        self.cluster.update(self.cluster.image.without_topic(topic))

    def _log_config(self, topic: str) -> LogConfig:
        return self.config.log_config(self.cluster.image.topic_config(topic))

    # Tasks.

    async def _follow(self, store: KazooStore) -> None:
        async for event in store.events():
            await self._controller.on_event(event)

    async def _look_after_logs(self) -> None:
        checked_ms = self.clock.wall_ms()
        while True:
            await asyncio.sleep(min(self.config.checkpoint_ms, self.config.retention_check_ms) / 1000)
            now_ms = self.clock.wall_ms()
            for partition in self._replicas:
                if partition.log.flush_due(now_ms) is not None:
                    flush = partition.log.begin_flush()
                    await asyncio.get_running_loop().run_in_executor(None, flush.sync)
                    partition.log.finish_flush(flush, now_ms=now_ms)
            self._replicas.checkpoint()
            if now_ms - checked_ms >= self.config.retention_check_ms:
                checked_ms = now_ms
                for partition in self._replicas:
                    partition.log.delete_old_segments(now_ms=now_ms)
            for directory in self._directories:
                directory.delete_marked(now_ms=now_ms)

    async def _close_idle(self) -> None:
        limit_s = self.config.idle_max_ms / 1000
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(30.0, limit_s))
            for connection in [each for each in self.connections if each.is_idle(loop.time(), limit_s)]:
                connection.close()
