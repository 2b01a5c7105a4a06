"""The whole page: the cluster as its controller sees it, this broker, its connections and requests, and its process."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.base import process
from ottla.broker.metrics import groups, partitions, requests
from ottla.broker.metrics.families import Family, Labels, exposition, labelled, one
from ottla.metadata.image import Image
from ottla.registry import SessionState

if TYPE_CHECKING:
    from ottla.broker.server import BrokerServer

_RUNNING = 3
"""What Kafka calls the state of a broker that serves."""


def render(server: BrokerServer) -> str:
    """All metrics, in Prometheus's text format."""
    return exposition(_families(server))


def _families(server: BrokerServer) -> Iterator[Family]:
    services = server.services
    here = list(services.replicas)
    yield from _controller(server, services.cluster.image)
    yield one("kafka_server_kafkaserver_brokerstate", "3: it serves.", _RUNNING)
    failed = sum(directory.health.failure is not None for directory in services.replicas.directories)
    yield one("kafka_log_logmanager_offlinelogdirectorycount", "Log directories that have failed.", failed)
    yield from partitions.families(here, server.metric_totals)
    yield from _replication(server)
    yield from partitions.exporter(here, services.cluster.image)
    yield from groups.families(services.groups, services.replicas)
    yield from _registry(server)
    yield from _flushes(server)
    yield from requests.families(server)
    yield from _quotas(server)
    yield from _process()


def _controller(server: BrokerServer, image: Image) -> Iterator[Family]:
    active = server.services.topics.is_controller
    prefix = "kafka_controller_kafkacontroller_"
    yield one(prefix + "activecontrollercount", "1 on the broker that is the controller.", active)
    unclean = "kafka_controller_controllerstats_uncleanleaderelections_total"
    yield one(unclean, "Leaders elected here that were not in sync.", server.services.controller.unclean_elections)
    if not active:
        return  # the others would say the same again
    states = [(assignment, state) for topic in image.topics.values() for _where, assignment, state in topic.leaders()]
    offline = sum(state is None or state.leader not in image.brokers for _, state in states)
    yield one(prefix + "offlinepartitionscount", "Partitions without a leader.", offline)
    moved = sum(state is not None and state.leader != assignment.replicas[0] for assignment, state in states)
    yield one(prefix + "preferredreplicaimbalancecount", "Partitions led by another than their first replica.", moved)
    yield one(prefix + "globaltopiccount", "Topics.", len(image.topics))
    yield one(prefix + "globalpartitioncount", "Partitions.", len(states))
    yield one(prefix + "activebrokercount", "Brokers that are registered.", len(image.brokers))
    yield one("kafka_brokers", "Brokers that are registered.", len(image.brokers))
    listener = server.config.inter_broker_listener
    told: list[tuple[Labels, float]] = []
    for broker_id in image.brokers:
        endpoint = image.endpoint(broker_id, listener)
        if endpoint is not None:
            told.append((labelled(id=broker_id, address=f"{endpoint.host}:{endpoint.port}"), 1))
    yield Family("kafka_broker_info", "Where each of them is.", told)


def _replication(server: BrokerServer) -> Iterator[Family]:
    prefix = "kafka_server_replicamanager_isr"
    yield one(prefix + "shrinks_total", "ISRs of partitions led here that became smaller.", server.proposals.shrinks)
    yield one(prefix + "expands_total", "ISRs of partitions led here that became larger.", server.proposals.expands)
    lag: list[tuple[Labels, float]] = [(labelled(clientId="Replica"), server.fetchers.lag_max)]
    yield Family("kafka_server_replicafetchermanager_maxlag", "Records that a replica here is behind at most.", lag)


def _registry(server: BrokerServer) -> Iterator[Family]:
    """The session with the ensemble."""
    prefix, sessions = "kafka_server_sessionexpirelistener_zookeeper", server.sessions
    yield one(prefix + "disconnects_total", "Connections lost.", sessions[SessionState.SUSPENDED])
    yield one(prefix + "expires_total", "Sessions lost.", sessions[SessionState.EXPIRED])
    yield one(prefix + "syncconnects_total", "Connections made.", sessions[SessionState.CONNECTED])
    name = "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms"
    yield requests.quantiles(name, "Milliseconds until a request to the ensemble was answered.", server.latencies())


def _flushes(server: BrokerServer) -> Iterator[Family]:
    name, flushes = "kafka_log_logflushstats_logflushrateandtimems", server.upkeep.flushes
    yield requests.quantiles(name, "Milliseconds that a log took to be synced.", {(): flushes})
    yield one(name + "_count", "How often that was.", flushes.count)


def _quotas(server: BrokerServer) -> Iterator[Family]:
    now_ms = time.perf_counter() * 1000
    quotas = server.quotas
    for api, what, doc, use in (
        ("produce", "byte_rate", "Bytes a second of those who have a quota.", quotas.produce),
        ("fetch", "byte_rate", "Bytes a second of those who have a quota.", quotas.fetch),
        ("request", "request_time", "Time of those who have a quota, in percent.", quotas.request),
    ):
        told = [
            (labelled(user=e.user or "", clientId=e.client or ""), rate, wait) for e, rate, wait in use.told(now_ms)
        ]
        prefix = f"kafka_server_{api}_"
        yield Family(prefix + what, doc, [(labels, rate) for labels, rate, _ in told])
        waits: list[tuple[Labels, float]] = [(labels, wait) for labels, _, wait in told]
        yield Family(
            prefix + "throttle_time", "Milliseconds that those who were over lately had to wait, on average.", waits
        )


def _process() -> Iterator[Family]:
    yield one("process_cpu_seconds_total", "Seconds of processor time used.", process.cpu_seconds())
    yield one("process_open_fds", "Files and connections that are open.", process.open_files())
    if (disk := process.disk_bytes()) is not None:
        yield one("kafka_server_kafkaserver_linux_disk_read_bytes", "Bytes read from disks.", disk[0])
        yield one("kafka_server_kafkaserver_linux_disk_write_bytes", "Bytes written to disks.", disk[1])
    yield one("process_max_fds", "How many may be open.", process.max_files())
    yield one("process_resident_memory_bytes", "Memory in use.", process.resident_bytes())
    yield one("process_virtual_memory_bytes", "Memory reserved.", process.virtual_bytes())
    yield one("process_start_time_seconds", "When the process began.", process.start_seconds())
    collected: list[tuple[Labels, float]] = [
        (labelled(generation=number), stats["collections"]) for number, stats in enumerate(gc.get_stats())
    ]
    yield Family("python_gc_collections_total", "Garbage collections.", collected)
