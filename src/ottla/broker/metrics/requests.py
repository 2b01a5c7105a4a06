"""Requests: how many, what became of them, how long they took, where they wait; and the connections they come by.

A request is handled when it is taken off its connection, so it has no queue to wait in but that of its connection, and its
answer leaves at the end of the turn of the loop: times are those from its being taken to its being answered, and then those in
which an answer waits for the ones before it on its connection. Nobody knows how long a request lay in a buffer before it was
taken, nor when the kernel had sent the last byte of an answer, so Kafka's requestqueuetimems and responsesendtimems are left out.
"Idle" is the share of time in which the event loop, which is all the threads that Kafka would have, did not use its processor.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.base.recent import Recent
from ottla.broker.metrics.families import Family, Labels, labelled, one
from ottla.broker.tallies import Tallies
from ottla.wire import APIS, ApiKey, ErrorCode

if TYPE_CHECKING:
    from ottla.broker.server import BrokerServer

Samples = list[tuple[Labels, float]]

_PREFIX = "kafka_network_requestmetrics_"
_TOPICS = "kafka_server_brokertopicmetrics_"
_PURGATORIES = {
    "Produce": ApiKey.PRODUCE,
    "Fetch": ApiKey.FETCH,
    "DeleteRecords": ApiKey.DELETE_RECORDS,
    "Rebalance": ApiKey.JOIN_GROUP,
    "ElectLeader": ApiKey.ELECT_LEADERS,
}


class Idleness:
    """Of the event loop, between one scrape and the next. Asked on the loop."""

    def __init__(self) -> None:
        self._wall_s, self._busy_s = time.perf_counter(), time.thread_time()

    def share(self) -> float:
        wall_s, busy_s = time.perf_counter(), time.thread_time()
        idle = 1 - (busy_s - self._busy_s) / max(wall_s - self._wall_s, 1e-6)
        self._wall_s, self._busy_s = wall_s, busy_s
        return min(max(idle, 0.0), 1.0)


class Paces:
    """How fast counters grow, a second: between one scrape and the next, and at first since the broker began."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()
        self._seen: dict[tuple[str, Labels], tuple[float, float]] = {}

    def per_second(self, name: str, labels: Labels, count: float) -> float:
        now_s = time.perf_counter()
        before_s, before = self._seen.get((name, labels), (self._began_s, 0.0))
        self._seen[name, labels] = now_s, count
        return (count - before) / max(now_s - before_s, 1e-6)


def families(server: BrokerServer) -> Iterator[Family]:
    yield from _counts(server)
    yield from _outcomes(server.dispatch.tallies)
    yield from _conversions()
    yield from _waiting(server)
    yield from _connections(server)


def quantiles(name: str, doc: str, measured: Mapping[Labels, Recent]) -> Family:
    samples: Samples = [
        ((*labels, ("quantile", quantile)), value)
        for labels, recent in measured.items()
        for quantile, value in recent.quantiles()
    ]
    return Family(name, doc, samples)


def _counts(server: BrokerServer) -> Iterator[Family]:
    routes = [route for route in server.dispatch.routes() if route.count]
    samples: Samples = [(labelled(request=_name(route.key), version=route.version), route.count) for route in routes]
    yield Family(_PREFIX + "requests_total", "Requests, by API and version.", samples)
    for name, key in (("totalproducerequests", ApiKey.PRODUCE), ("totalfetchrequests", ApiKey.FETCH)):
        count = sum(route.count for route in routes if route.key == key)
        yield one(f"{_TOPICS}{name}_total", f"{APIS[key].name} requests.", count)


def _outcomes(tallies: Tallies) -> Iterator[Family]:
    errors: Samples = [
        (labelled(request=_name(key), error=ErrorCode(code).name), count)
        for key, codes in tallies.errors.items()
        for code, count in codes.items()
    ]
    yield Family(
        _PREFIX + "errors_total", "Errors that were answered; of Produce, Fetch, OffsetCommit no NONE.", errors
    )
    for name, doc, by_topic in (
        ("failedproducerequests", "Partitions of produces that failed unexpectedly.", tallies.failed_produces),
        ("failedfetchrequests", "Partitions of fetches that failed unexpectedly.", tallies.failed_fetches),
        ("bytesrejected", "Bytes of batches that were too large.", tallies.rejected_bytes),
    ):
        samples: Samples = [((), sum(by_topic.values()))]
        samples += [(labelled(topic=topic), count) for topic, count in by_topic.items()]
        yield Family(f"{_TOPICS}{name}_total", doc, samples)
    for name, doc in (
        ("total", "Milliseconds until a request was answered, of one in 64."),
        ("local", "Of these, those in which it was worked on."),
        ("remote", "Those in which it waited for others."),
        ("responsequeue", "Milliseconds that its answer then waited for those before it."),
    ):
        measured = {
            labelled(request=_name(key)): getattr(times, name)
            for key, times in tallies.times.items()
            if times.total.count
        }
        yield quantiles(f"{_PREFIX}{name}timems", doc, measured)


def _conversions() -> Iterator[Family]:
    """Records are kept as they come, and sent as they are, whatever the version of a request."""
    for name in ("producemessageconversions", "fetchmessageconversions"):
        yield one(f"{_TOPICS}{name}_total", "Batches converted to another format of messages: never any.", 0)


def _waiting(server: BrokerServer) -> Iterator[Family]:
    parked = Counter(key for connection in server.connections for key in connection.waiting_for())
    yield Family(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Requests that wait to be answered.",
        [(labelled(delayedOperation=name), parked[key]) for name, key in _PURGATORIES.items()],
    )
    arrived = sum(connection.backlog for connection in server.connections)
    yield one("kafka_network_requestchannel_requestqueuesize", "Requests that have arrived and are not begun.", arrived)
    held = sum(connection.held_back() for connection in server.connections)
    yield one("kafka_network_requestchannel_responsequeuesize", "Answers that wait for those before them.", held)
    idle = server.idleness.share()
    for name in (
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "kafka_network_socketserver_networkprocessoravgidle_percent",
    ):
        yield one(name, "Share of time since the last scrape in which the event loop was idle.", idle)
    sessions = server.services.fetch_sessions
    prefix = "kafka_server_fetchsessioncache_"
    yield one(prefix + "numincrementalfetchsessions", "Fetch sessions.", len(sessions))
    yield one(prefix + "numincrementalfetchpartitionscached", "Partitions of them.", sessions.partitions)
    evicted = prefix + "incrementalfetchsessionevictions_total"
    yield one(evicted, "Those that had to make room for others.", sessions.evictions)


def _connections(server: BrokerServer) -> Iterator[Family]:
    prefix = "kafka_server_socket_server_metrics_connection_"
    ports = [(labelled(listener=port.name), port.listener) for port in server.ports]
    yield Family(prefix + "count", "Connections.", [(labels, len(listener)) for labels, listener in ports])
    came: Samples = [(labels, listener.admitted) for labels, listener in ports]
    went: Samples = [(labels, listener.admitted - len(listener)) for labels, listener in ports]
    for name, doc, counts in (("creation", "that came", came), ("close", "that went", went)):
        yield Family(f"{prefix}{name}_total", f"Connections {doc}.", counts)
        pace = [(labels, server.paces.per_second(name, labels, count)) for labels, count in counts]
        yield Family(f"{prefix}{name}_rate", f"Connections {doc}, a second, since the last scrape.", pace)
    refused: Samples = [(labels, listener.rejected) for labels, listener in ports]
    yield Family("kafka_network_acceptor_connectionsrejected_total", "Connections too many.", refused)


def _name(key: int) -> str:
    return APIS[ApiKey(key)].name
