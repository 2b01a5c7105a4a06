"""A leader that was elected uncleanly, and the replica that comes back to it: librdkafka on two of our brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers

TOPIC = "unclean"
CONFIG = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[OttlaBrokers]:
    with OttlaKeepers(1, tmp_path) as keepers, OttlaBrokers(2, keepers.hosts, tmp_path) as running:
        yield running


def test_who_comes_back_to_a_leader_that_was_elected_uncleanly_is_in_sync_again(brokers: OttlaBrokers) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2]], config=CONFIG)])[TOPIC].result(timeout=60)

    def state() -> tuple[int, list[int]]:
        found = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0]
        return found.leader, sorted(found.isrs)

    def becomes(leader: int, *isr: int) -> None:
        wait_until(lambda: state() == (leader, list(isr)), timeout_s=60, what=f"{leader} leads, and in sync are {isr}")

    produce(brokers.bootstrap, "both", acks="all")
    brokers.kill(1)
    becomes(1, 1)
    produce(brokers.bootstrap, "only the first")
    brokers.kill(0)
    brokers.start(1)
    becomes(2, 2)
    produce(brokers.bootstrap, "only the second")
    brokers.start(0)
    becomes(2, 1, 2)
    produce(brokers.bootstrap, "both again", acks="all")
    assert read(brokers.bootstrap) == ["both", "only the second", "both again"]


def produce(bootstrap: str, value: str, acks: str = "1") -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks})
    producer.produce(TOPIC, value)
    assert producer.flush(60) == 0


def read(bootstrap: str) -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[str] = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        values.append((message.value() or b"").decode())
    consumer.close()
    return values
