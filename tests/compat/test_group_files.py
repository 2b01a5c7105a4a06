"""What our coordinator wrote, taken over by Apache Kafka 3.9.1 on the same files; and what Kafka wrote, by ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription
from confluent_kafka.cimpl import NewTopic

from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import KafkaBrokers
from tests.peers.processes import wait_until

TOPIC = "t"
PARTITIONS = 3


class Reader:
    """One consumer, static or not, that stays a member until it is dropped."""

    def __init__(self, bootstrap: str, group: str, **more: object) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **more,
            }
        )
        self.consumer.subscribe([TOPIC])

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []

        def enough() -> bool:
            found.extend(message.value() or b"" for message in self.consumer.consume(100, 0.5) if not message.error())
            return len(found) >= count

        wait_until(enough, timeout_s=60, what=f"{count} records")
        return sorted(found)


def produce(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(first, first + count):
        producer.produce(TOPIC, b"%04d" % number, partition=number % PARTITIONS)
    assert not producer.flush(60)


def describe(bootstrap: str, group: str) -> ConsumerGroupDescription:
    """As soon as the broker coordinates the group, which takes a moment after its start."""

    def told() -> ConsumerGroupDescription | None:
        # A client that asked too early may go on asking in vain, so each attempt has its own.
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        try:
            described = admin.describe_consumer_groups([group], request_timeout=3)
            found: ConsumerGroupDescription = described[group].result(timeout=120)
        except (KafkaException, TimeoutError):
            return None
        return found

    return wait_until(told, timeout_s=60, what=f"{group} has a coordinator")


def committed(bootstrap: str, group: str) -> list[tuple[int, str]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    try:
        return [(each.offset, each.metadata or "") for each in consumer.committed(places, timeout=60)]
    finally:
        consumer.close()


def leave_groups(bootstrap: str, name: str, first: int) -> None:
    """A group that was left, one with a static member that stays in it, one that only stores, and one that is gone."""
    produce(bootstrap, first, 30)
    reader = Reader(bootstrap, f"{name}-left")
    reader.read(first + 30)
    reader.consumer.commit(asynchronous=False)
    reader.consumer.close()
    static = Reader(bootstrap, f"{name}-static", **{"group.instance.id": f"{name}-instance"})
    static.read(first + 30)
    static.consumer.commit(asynchronous=False)
    store = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{name}-store", "log_level": 0})
    store.commit(offsets=[TopicPartition(TOPIC, 1, 7, metadata="héllo")], asynchronous=False)
    gone = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{name}-gone", "log_level": 0})
    gone.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_consumer_groups([f"{name}-gone"])[f"{name}-gone"].result(timeout=60)


def check_groups(bootstrap: str, name: str, offset: int) -> None:
    left = describe(bootstrap, f"{name}-left")
    assert (left.state, left.members) == (ConsumerGroupState.EMPTY, [])
    assert committed(bootstrap, f"{name}-left") == [(offset, "")] * PARTITIONS
    static = describe(bootstrap, f"{name}-static")
    assert static.state is ConsumerGroupState.STABLE
    (member,) = static.members
    assert member.group_instance_id == f"{name}-instance"
    assert {each.partition for each in member.assignment.topic_partitions} == set(range(PARTITIONS))
    assert committed(bootstrap, f"{name}-static") == [(offset, "")] * PARTITIONS
    assert committed(bootstrap, f"{name}-store")[1] == (7, "héllo")
    assert describe(bootstrap, f"{name}-gone").state is ConsumerGroupState.DEAD
    assert committed(bootstrap, f"{name}-gone")[0][0] < 0


@pytest.mark.long
def test_kafka_goes_on_with_our_groups_and_we_with_kafkas(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path) as keepers:
        kafka = KafkaBrokers(1, keepers.hosts, tmp_path)
        data = tmp_path / "broker-0" / "data"
        same = {"broker.id": "0", "log.dirs": str(data)}
        ours = OttlaBrokers(1, keepers.hosts, tmp_path, settings=same)
        try:
            with ours:
                admin = AdminClient({"bootstrap.servers": ours.bootstrap, "log_level": 0})
                admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(timeout=120)
                leave_groups(ours.bootstrap, "ours", 0)
                check_groups(ours.bootstrap, "ours", 10)
                ours.brokers[0].stop(120)
            kafka.start()
            check_groups(kafka.bootstrap, "ours", 10)
            leave_groups(kafka.bootstrap, "kafkas", 30)
            assert Reader(kafka.bootstrap, "ours-left").read(30) == [b"%04d" % number for number in range(30, 60)]
            check_groups(kafka.bootstrap, "kafkas", 20)
            kafka.brokers[0].stop(60)
            ours.start(0)
            check_groups(ours.bootstrap, "kafkas", 20)
            check_groups_that_stay(ours.bootstrap)
        finally:
            kafka.stop()
            ours.kill(0)


def check_groups_that_stay(bootstrap: str) -> None:
    """What was ours at first is known to us again, after Kafka had it."""
    assert committed(bootstrap, "ours-left") == [(10, "")] * PARTITIONS
    assert committed(bootstrap, "ours-store")[1] == (7, "héllo")
