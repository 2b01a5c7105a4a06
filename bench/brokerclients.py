"""Records through clients that people use: librdkafka, and Kafka's own producer performance tool."""

from __future__ import annotations

import re
import subprocess
import time
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import Contestant
from tests.peers import maven

RECORDS = 2_000_000
VALUE = b"x" * 100
PARTITIONS = 4
READS = 5
"""One takes less than a second, nearly all of it the client's."""
FIGURES = (
    ("librdkafka", "in", "records/s in"),
    ("librdkafka", "out", "records/s out"),
    ("Kafka's perf tool", "in", "records/s in"),
)
_TOOL = "org.apache.kafka.tools.ProducerPerformance"


def run(broker: Contestant, scale: float) -> dict[str, dict[str, float]]:
    records = int(RECORDS * scale)
    topic, earlier = (f"{name}-{time.time_ns()}" for name in ("clients", "earlier"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})  # has to be there until it is answered
    for made in admin.create_topics([NewTopic(name, PARTITIONS) for name in (topic, earlier)]).values():
        made.result(30)
    _produce(broker, earlier, records)  # brokers are measured warm, with the topic of groups there
    _consume(broker, earlier, records)
    return {
        "librdkafka": {
            "in": _produce(broker, topic, records),
            "out": median(_consume(broker, topic, records) for _ in range(READS)),
        },
        "Kafka's perf tool": {"in": _perf_tool(broker, topic, records)},
    }


def _produce(broker: Contestant, topic: str, records: int) -> float:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "acks": "1", "linger.ms": 5, "queue.buffering.max.messages": 500_000}
    )
    begin = time.perf_counter()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, VALUE, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(120):
        raise RuntimeError("not all records were delivered")
    return records / (time.perf_counter() - begin)


def _consume(broker: Contestant, topic: str, records: int) -> float:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "bench", "enable.auto.commit": False}
    # By default it asks for nothing for a second whenever it has 100,000 records in hand, and how often is chance.
    consumer = Consumer({**settings, "fetch.queue.backoff.ms": 5})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    begin, found = time.perf_counter(), 0
    while found < records:
        messages = consumer.consume(10_000, timeout=30)
        if not messages:
            raise RuntimeError(f"only {found} of {records} records came")
        found += len(messages)
    took = time.perf_counter() - begin
    consumer.close()
    return found / took


def _perf_tool(broker: Contestant, topic: str, records: int) -> float:
    command = ["java", "-Xmx512m", "-cp", maven.class_path("kafka-3.9.1"), _TOOL, "--topic", topic]
    command += ["--num-records", str(records), "--record-size", str(len(VALUE)), "--throughput", "-1"]
    command += ["--producer-props", f"bootstrap.servers={broker.bootstrap}", "acks=1", "linger.ms=5"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(re.findall(r"([0-9.]+) records/sec", done.stdout)[-1])
