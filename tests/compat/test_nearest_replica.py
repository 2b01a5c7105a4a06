"""A consumer reads from the replica in its own rack (KIP-392): librdkafka with ``client.rack``, on three of our brokers."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.compat.brokerpair import Side
from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers

TOPIC = "near"
NEVER_MS = "600000"
"""A session that nobody waits for: while its broker stands still, nobody else leads."""
SETTINGS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "zookeeper.session.timeout.ms": NEVER_MS,
}


def test_a_consumer_reads_from_its_own_rack_even_while_the_leader_stands_still(tmp_path: Path) -> None:
    with (
        OttlaKeepers(1, tmp_path, settings={"maxSessionTimeout": NEVER_MS}) as keepers,
        OttlaBrokers(3, keepers.hosts, tmp_path, settings=SETTINGS, racks=("a", "b", "c")) as brokers,
    ):
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2, 3]])])[TOPIC].result(timeout=120)
        consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "none", "client.rack": "b"})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        try:
            produce(brokers.bootstrap, "first")
            assert read(consumer, 1) == ["first"]
            produce(brokers.bootstrap, "second")
            wait_until(
                lambda: watermark(brokers.ports[1]) == 2, timeout_s=1200, what="the follower knows of the second"
            )
            brokers.brokers[0].pause()
            assert read(consumer, 1) == ["second"]
        finally:
            brokers.brokers[0].resume()
            consumer.close()


def watermark(port: int) -> int:
    """How far a replica knows that records are there to stay."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    side = Side("ours", port)
    answer = side.ask(
        FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]), 11
    )
    side.close()
    assert isinstance(answer, FetchResponse)
    return answer.responses[0].partitions[0].high_watermark


def produce(bootstrap: str, value: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(TOPIC, value)
    assert producer.flush(120) == 0


def read(consumer: Consumer, count: int) -> list[str]:
    values: list[str] = []

    def all_there() -> bool:
        came = (message for message in consumer.consume(count, timeout=0.2) if message.error() is None)
        values.extend((message.value() or b"").decode() for message in came)
        return len(values) >= count

    wait_until(all_there, timeout_s=120, what=f"{count} records")
    return values
