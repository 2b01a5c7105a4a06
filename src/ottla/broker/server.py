"""A broker as a running thing: log directories, the registry, the controller and the listeners, put together.

start    take the log directories and read what is there, connect to the ensemble, find or make the cluster id, open the
         listeners, register, and only then try to be the controller: whoever is told of this broker can reach it
run      connections are served as frames come; a few tasks look after the rest (``upkeep``). A log directory that fails
         goes offline with its partitions, which others lead once the controller was told, and the broker goes on, even
         without any: the keeper may live in its process, and clients are told KAFKA_STORAGE_ERROR (Apache Kafka halts when
         the last one is gone). A session that expired took the registration with it, so a new one registers again, under a
         new broker epoch. A task that fails ends the broker: what it would look after is looked after by nobody
stop     accept nothing more, close connections, leave the ensemble, close the logs, and say that they are whole
"""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import urandom
from typing import TYPE_CHECKING, Any

from ottla.base.clock import SystemClock
from ottla.base.compiled import is_compiled
from ottla.base.errors import ConfigError, CorruptionError
from ottla.base.pace import Pace
from ottla.base.recent import Recent
from ottla.base.scope import TaskScope
from ottla.broker import apis
from ottla.broker.cleaning import Cleaning
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.configadmin import ConfigAdmin
from ottla.broker.connection import KafkaConnection
from ottla.broker.dispatch import Dispatch
from ottla.broker.fetchsessions import FetchSessions
from ottla.broker.leaving import hand_over
from ottla.broker.membership import Membership
from ottla.broker.metrics import Idleness, Labels, Paces, Totals, render
from ottla.broker.moving import Moving
from ottla.broker.orders import Orders
from ottla.broker.ports import Ports
from ottla.broker.producerids import ProducerIds
from ottla.broker.registering import settle_id
from ottla.broker.services import Services
from ottla.broker.settings import Settings
from ottla.broker.topics import TopicAdmin
from ottla.broker.upkeep import Upkeep
from ottla.broker.vetting import Vetting
from ottla.controller.controller import Controller
from ottla.controller.streams import ANSWER_TIMEOUT_S, InProcess, Link, over_sockets
from ottla.coordinator.groups.coordinator import GroupCoordinator
from ottla.log import LogDirectory, MetaProperties, StorageError, check_distinct
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import Image, LiveBroker
from ottla.metadata.names import CONSUMER_OFFSETS
from ottla.metadata.znodes import paths
from ottla.net import FrameBudget, Vigil
from ottla.registry import DataChanged, KazooStore, Registry, SessionChanged, SessionState
from ottla.registry.store import ChildrenChanged
from ottla.replica.fetcher import Address, LeaderHere
from ottla.replica.fetchers import Fetchers
from ottla.replica.moves import settle
from ottla.replica.proposals import PATIENCE_S, IsrProposals
from ottla.replica.replicas import Replicas

if TYPE_CHECKING:
    from ottla.net.textport import TextPort

log = logging.getLogger(__name__)


class BrokerServer:
    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.clock = SystemClock()
        self.cluster = ClusterView(
            is_settled=False,
            followed=lambda: self.fetchers.leaders,
            cut_off=lambda: self.fetchers.cut_off,
            clock=self.clock,
        )
        self.dispatch = Dispatch(apis.ALL)
        self.frame_budget = FrameBudget(config.unfinished_bytes_max)
        self.vigil = Vigil(config.busy_poll_us)
        self.ports = Ports(config)
        self.connections = self.ports.connections
        self.settings = Settings(config, self.cluster, self.ports, self.clock)
        self.quotas, self.connection_rates = self.settings.quotas, self.settings.connection_rates
        self.metric_totals = Totals()
        self.idleness = Idleness()
        self.paces = Paces()
        self.sessions: Counter[SessionState] = Counter()
        """How often the session with the ensemble became what."""
        self.services: Services
        self.proposals: IsrProposals
        self.fetchers: Fetchers
        self.upkeep: Upkeep
        self.failed = asyncio.Event()
        self._metrics: TextPort | None = None
        self._scope = TaskScope("broker")
        self._directories: list[LogDirectory] = []
        self._store: KazooStore | None = None
        self._registry: Registry
        self._orders: Orders
        self._replicas: Replicas
        self._controller: Controller
        self._membership: Membership

    # Start and stop.

    async def start(self) -> None:
        await self._scope.__aenter__()
        self._directories = [LogDirectory(path) for path in self.config.log_dirs]
        check_distinct(self.config.log_dirs)
        configs = await self._join_cluster()
        self._open_logs()
        self._prepare_replicas(configs)
        self._prepare_services(configs)
        await self.ports.open(lambda port: KafkaConnection(self, port))
        self.settings.limit_connections()
        self.settings.listeners_changed = lambda: self._spawn(self._listen_anew(), "changing the listeners")
        await self._membership.register()
        assert self._store is not None
        self._store.watch_data(paths.broker(self.config.broker_id))
        await self._controller.start()
        self._begin_tasks()
        features = await self._registry.cluster.features()
        self.cluster.image = replace(self.cluster.image, features=features)  # as it is now: orders come all the time
        await self._membership.heard_of_cluster()
        self._serve_metrics()
        how = "compiled" if is_compiled() else "not compiled, so slower than it could be"
        log.info("broker %d serves clients on %s (%s)", self.config.broker_id, self.ports, how)

    async def _join_cluster(self) -> ConfigAdmin:
        """Connect to the ensemble, and learn which cluster this is, who we are in it, and what was set there."""
        config = self.config
        self._store = await KazooStore(
            config.zookeeper_connect,
            session_timeout_ms=config.session_timeout_ms,
            connection_timeout_ms=config.connection_timeout_ms,
            in_flight_max=config.requests_in_flight_max,
        ).__aenter__()
        self._registry = registry = Registry(self._store)
        await registry.cluster.make_paths()
        cluster_id = await registry.cluster.cluster_id(urlsafe_b64encode(urandom(16))[:22].decode())
        assert cluster_id is not None
        config.broker_id = await settle_id(
            registry, config.broker_id, self._directories, reserved_max=config.reserved_id_max
        )
        configs = ConfigAdmin(registry, self.clock, self.settings.changed)
        self.cluster.image = replace(Image(), cluster_id=cluster_id, configs=await configs.read_all())
        self.settings.begin()
        return configs

    def _open_logs(self) -> None:
        now_ms, cluster_id = self.clock.wall_ms(), self.cluster.image.cluster_id
        assert cluster_id is not None
        meta = MetaProperties(broker_id=self.config.broker_id, cluster_id=cluster_id)
        loop = asyncio.get_running_loop()
        for directory in self._directories:
            with suppress(StorageError):  # it is offline then, and has said why
                directory.claim(meta, now_ms=now_ms)
                directory.load(self.settings.log_config, now_ms=now_ms)
            # Not at once: whoever found out is in the middle of something, and perhaps in another thread.
            directory.health.on_failure = partial(loop.call_soon_threadsafe, self._directory_failed, directory)
        if all(directory.health.failure is not None for directory in self._directories):
            raise ConfigError("log.dirs: none of them can be used")
        settle(self._directories, now_ms=now_ms)

    def _prepare_replicas(self, configs: ConfigAdmin) -> None:
        config = self.config
        self.proposals = IsrProposals(
            config.broker_id,
            self._controller_address,
            self._broker_epoch,
            dial=config.setup().dial,
            patience_s=config.controller_timeout_s or PATIENCE_S,
        )
        leader = LeaderHere(self._address_of, self._broker_epoch, config.fetch_setup().dial)
        self.fetchers = Fetchers(config.fetch_settings(), leader, self.clock, self._spawn)
        self._replicas = Replicas(
            config.broker_id,
            self._directories,
            self.settings.log_config,
            min_insync_for=self.settings.min_insync_replicas,
            fetchers=self.fetchers,
            proposals=self.proposals,
            image=lambda: self.cluster.image,
        )
        self._replicas.on_damage = self._log_damaged
        self.settings.replicas, self.settings.fetchers = self._replicas, self.fetchers
        self._orders = Orders(
            self.cluster, self._replicas, self.clock, learn_topics=configs.learn_topics, forget_topic=self._topic_gone
        )
        self._membership = Membership(
            config,
            self._registry,
            self.cluster,
            self.ports,
            self._orders,
            self._replicas,
            self._directories,
            self.clock,
        )

    def _prepare_services(self, configs: ConfigAdmin) -> None:
        config, loop, scope = self.config, asyncio.get_running_loop(), self._scope
        self._controller = Controller(self._registry, config.controller(), self.clock, scope, connect=self._connect)
        groups = GroupCoordinator(
            config.groups(),
            config.group_runtime(),
            self._offsets_partitions,
            clock=self.clock,
            loop=loop,
            scope=scope,
        )
        moving = Moving(self.settings.throttling.moves, self.clock, self._replicas, scope)
        self._replicas.listen(groups.runtime.on_leadership)
        self._replicas.listen(self.settings.throttle)
        self._replicas.listen(lambda partition: moving.resume(partition.where))
        self.services = Services(
            config=config,
            clock=self.clock,
            loop=loop,
            scope=scope,
            dispatch=self.dispatch,
            cluster=self.cluster,
            replicas=self._replicas,
            orders=self._orders,
            controller=self._controller,
            topics=TopicAdmin(config, self.cluster, self._registry, self._controller, scope),
            moving=moving,
            groups=groups,
            configs=configs,
            quotas=self.quotas,
            producer_ids=ProducerIds(self._registry, config.broker_id, scope),
            fetch_sessions=FetchSessions(sessions_max=config.fetch_sessions_max),
            vetting=Vetting(),
        )

    def _begin_tasks(self) -> None:
        assert self._store is not None
        self.upkeep = upkeep = Upkeep(self.config, self.clock, self._directories, self._replicas)
        self._spawn(self._follow(self._store), "following the registry")
        if not self._membership.is_clean:
            self._spawn(self._membership.regain_trust(), "waiting to be trusted again")
        self._spawn(upkeep.run(), "looking after the logs")
        self._spawn(self.services.groups.expire_regularly(), "looking after groups")
        self._spawn(self.proposals.run(), "asking the controller for ISR changes")
        self._spawn(self._check_lag(), "looking for followers that lag")
        self._spawn(Cleaning(self.config, self.clock, self._directories).run(), "cleaning the logs")
        self._spawn(self.ports.close_idle(), "closing idle connections")

    def _serve_metrics(self) -> None:
        if self.config.metrics_at is not None:
            from ottla.net.textport import TextPort  # only where they are asked for

            self._metrics = TextPort(lambda: render(self), asyncio.get_running_loop(), *self.config.metrics_at)
            log.info("metrics on port %d", self._metrics.port)

    async def stop(self) -> None:
        if self._broker_epoch() >= 0 and not self.failed.is_set():
            await hand_over(
                self.config,
                broker_epoch=self._broker_epoch(),
                controller=self._controller_address,
                has_others=self._has_others,
            )
        if self._metrics is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._metrics.stop)
        self.ports.close()
        self._scope.cancel()
        await self._scope.wait()
        if self._store is not None:
            await self._store.__aexit__(None, None, None)
        if hasattr(self, "services"):
            self.services.vetting.stop()
            self.services.groups.stop()
            self._replicas.checkpoint()
        for directory in self._directories:
            directory.close(now_ms=self.clock.wall_ms(), broker_epoch=self._broker_epoch())

    def _has_others(self) -> bool:
        """Somebody could lead in this broker's place, and that could be written down."""
        return len(self.cluster.image.brokers) > 1 and self._store is not None and self._store.connected

    def _broker_epoch(self) -> int:
        return self._orders.broker_epoch if hasattr(self, "_orders") else -1

    def _address_of(self, broker_id: BrokerId) -> Address | None:
        """Where a live broker listens for others."""
        endpoint = self.cluster.image.endpoint(broker_id, self.config.inter_broker_listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def _controller_address(self) -> Address | None:
        controller = self.cluster.image.controller
        return None if controller is None else self._address_of(controller.broker_id)

    def latencies(self) -> dict[Labels, Recent]:
        """Of the ensemble, for the metrics."""
        return {} if self._store is None else {(): self._store.latencies}

    # What the controller orders.

    def _connect(self, live: LiveBroker) -> Link | None:
        """The controller's way to a broker. To this one it is short."""
        if live.registration.broker_id == self.config.broker_id:
            return InProcess(self._orders.obey)
        connect = over_sockets(
            self.config.broker_id,
            self.config.control_plane_listener,
            dial=self.config.setup().dial,
            timeout_s=self.config.controller_timeout_s or ANSWER_TIMEOUT_S,
        )
        return connect(live)

    def _topic_gone(self, topic: str) -> None:
        self.services.groups.topic_deleted(topic)

    def _offsets_partitions(self) -> int:
        topic = self.cluster.image.topics.get(CONSUMER_OFFSETS)
        return 0 if topic is None else len(topic.partitions)

    # Tasks.

    def _spawn(self, task: Coroutine[Any, Any, None], name: str) -> None:
        self._scope.spawn(self._guarded(task, name), name=name)

    async def _guarded(self, task: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await task
        except Exception:
            log.critical("%s failed, so this broker stops", name, exc_info=True)
            self.failed.set()

    async def _follow(self, store: KazooStore) -> None:
        session_id = store.session_id
        async for event in store.events():
            if isinstance(event, SessionChanged):
                self.sessions[event.state] += 1
                if event.state is SessionState.EXPIRED:
                    self._membership.expired(event.session_id)
                if event.state is SessionState.CONNECTED and event.session_id != session_id:
                    session_id = event.session_id
                    log.warning("the session had expired; registering again")
                    await self._membership.register()
                    await self._controller.session_renewed()
                continue
            if isinstance(event, DataChanged) and event.path == paths.broker(self.config.broker_id):
                await self._membership.look()
            if isinstance(event, ChildrenChanged) and event.path == paths.CONFIG_CHANGES:
                await self.services.configs.on_changes()  # before the controller elects by the settings of this broker
            await self._controller.on_event(event)

    async def _listen_anew(self) -> None:
        await self.ports.renew()
        self.settings.limit_connections()
        await self._membership.update()

    def _directory_failed(self, directory: LogDirectory) -> None:
        self._replicas.take_offline(directory)
        self._spawn(self._membership.replicas_offline(), "telling the controller of a failed log directory")
        if all(each.health.failure is not None for each in self._directories):
            log.critical("no log directory is left: until a restart, nothing here can be written or read")

    def _log_damaged(self, where: TopicPartition, damage: CorruptionError) -> None:
        """It is being read or written at this moment."""
        asyncio.get_running_loop().call_soon(self._give_up, where, damage)

    def _give_up(self, where: TopicPartition, damage: CorruptionError) -> None:
        if self._replicas.give_up(where, damage, now_ms=self.clock.wall_ms()):
            log.warning("%s is damaged, and left to those that have it in sync", where)
            self._spawn(self._membership.replicas_offline(), "telling the controller of a damaged log")

    async def _check_lag(self) -> None:
        lag_s = self.config.replica_lag_max_ms / 1000
        while True:
            await asyncio.sleep(lag_s / 2)
            pace = Pace()
            for partition in list(self._replicas):
                partition.check_lag(now_s=self.clock.monotonic(), lag_s=lag_s)
                await pace.keep()
