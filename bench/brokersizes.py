"""What grows: idle connections, partitions, and the time to open many logs."""

from __future__ import annotations

import resource
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import Contestant, Kafka39, Ottla
from ottla.records import Record, build_batch
from ottla.wire import decode, request_framer
from ottla.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

CONNECTIONS = 10_000
MANY_PARTITIONS = 10_000
OPENED_PARTITIONS = 1_000
REQUESTS = 10_000
PRODUCE_VERSION = 7
API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
"""Size, key, version, correlation id, no client id."""

Running = Callable[[type[Contestant]], AbstractContextManager[Contestant]]


def bench(running: Running) -> None:
    print("\n| sizes | figure | goal |\n|---|---|---|", flush=True)
    with running(Ottla) as broker:
        print(
            f"| resident with {CONNECTIONS:,} idle connections | {_connected_mb(broker):.0f} MB | 150 MB |", flush=True
        )
    with running(Ottla) as broker:
        few = _request_us(broker, "few", 1)
        many = _request_us(broker, "many", MANY_PARTITIONS)
        print(
            f"| one record at a time, to 1 partition of 1 and of {MANY_PARTITIONS:,} | {few:.0f} and {many:.0f} µs | the same |",
            flush=True,
        )
    theirs, ours = (_reopened_s(running, kind) for kind in (Kafka39, Ottla))
    print(
        f"| {OPENED_PARTITIONS:,} partitions with data opened | {ours:.2f} s, Kafka 3.9.1 {theirs:.2f} s | twice Kafka's |",
        flush=True,
    )


def _connected_mb(broker: Contestant) -> float:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(CONNECTIONS)]
    try:
        # The kernel takes a connection before the broker does: the last one's answer says that it has all of them.
        held[-1].sendall(API_VERSIONS)
        if not held[-1].recv(4):
            raise RuntimeError("the broker does not hold as many")
        return broker.resident_mb()
    finally:
        for connection in held:
            connection.close()


def _request_us(broker: Contestant, topic: str, partitions: int) -> float:
    """How long one record at a time to one partition of a topic takes; by the wire, as librdkafka looks at all of them."""
    _make(broker, topic, partitions)
    records = build_batch([Record(None, b"value", int(time.time() * 1000))])
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])]
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)
    frame = b"".join(request_framer(ProduceRequest, PRODUCE_VERSION, "sizes")(request, 1))
    took_s, answer = [], b""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as peer, peer.makefile("rb") as answers:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(REQUESTS):
            begin_s = time.perf_counter()
            peer.sendall(frame)
            answer = answers.read(int.from_bytes(answers.read(4), "big"))
            took_s.append(time.perf_counter() - begin_s)
    told = decode(ProduceResponse, PRODUCE_VERSION, answer, 4).responses[0].partition_responses[0]
    if told.error_code or told.base_offset != REQUESTS - 1:
        raise RuntimeError(f"the last answer was {told}")
    return statistics.median(took_s) * 1e6


def _reopened_s(running: Running, kind: type[Contestant]) -> float:
    """From start to the first answer, with a record in every partition, after a clean stop."""
    with running(kind) as broker:
        _make(broker, "opened", OPENED_PARTITIONS)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "1"})
        for number in range(OPENED_PARTITIONS):
            producer.produce("opened", b"value", partition=number)
        if producer.flush(120):
            raise RuntimeError("not all records were delivered")
        broker.broker.stop(60)
        broker.start()
        return broker.ready_s


def _make(broker: Contestant, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (made,) = admin.create_topics([NewTopic(topic, partitions)], operation_timeout=120, request_timeout=180).values()
    made.result(180)
