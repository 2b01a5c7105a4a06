"""Our brokers in a cluster that an Apache Kafka 3.9.1 broker controls: they do as they are told, lead, follow and replicate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import KafkaBrokers

KAFKA, OTTLA, SECOND = 0, 1, 2


class Mixed(NamedTuple):
    kafka: KafkaBrokers
    ottla: OttlaBrokers
    folder: Path

    @property
    def bootstrap(self) -> str:
        return f"{self.kafka.bootstrap},{self.ottla.bootstrap}"

    def topic(self, *replicas: list[int], **config: str) -> str:
        """A topic with one partition for each list of replicas."""
        name = f"t-{uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap})
        # A broker that was just started knows of the others before the others know of it.
        wait_until(
            lambda: admin.list_topics(timeout=120).brokers.keys() == {KAFKA, OTTLA, SECOND},
            timeout_s=120,
            what="Kafka knows of all brokers",
        )
        new = NewTopic(name, len(replicas), replica_assignment=list(replicas), config=config)
        admin.create_topics([new])[name].result(timeout=120)
        return name

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap})
        return set(admin.list_topics(topic, timeout=120).topics[topic].partitions[partition].isrs)

    def admin_of(self, index: int) -> AdminClient:
        return AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ottla.ports[index]}"})


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    """The Kafka broker is there first, so it is the controller."""
    folder = tmp_path_factory.mktemp("mixed")
    with ExitStack() as stack:
        keepers = stack.enter_context(OttlaKeepers(1, folder))
        kafka = stack.enter_context(KafkaBrokers(1, keepers.hosts, folder))
        ottla = stack.enter_context(
            OttlaBrokers(2, keepers.hosts, folder, settings={"replica.lag.time.max.ms": "2000"})
        )
        yield Mixed(kafka, ottla, folder)


def produce(bootstrap: str, topic: str, values: list[str], *, partition: int = 0, acks: str = "all") -> None:
    outcomes: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "message.timeout.ms": 120_000})
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(150) == 0
    assert outcomes == [None] * len(values)


def consume(bootstrap: str, topic: str, count: int, *, partition: int = 0) -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[str] = []

    def all_there() -> bool:
        came = (message for message in consumer.consume(count, timeout=1.0) if message.error() is None)
        values.extend((message.value() or b"").decode() for message in came)
        return len(values) >= count

    try:
        wait_until(all_there, timeout_s=60, what=f"{count} records of {topic}")
    finally:
        consumer.close()
    return values


def numbers(count: int, prefix: str = "r") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_a_broker_leads_as_a_kafka_controller_orders(mixed: Mixed) -> None:
    topic = mixed.topic([OTTLA], [SECOND], **{"retention.ms": "123456789"})
    for partition in (0, 1):
        produce(mixed.bootstrap, topic, numbers(100), partition=partition)
        assert consume(mixed.bootstrap, topic, 100, partition=partition) == numbers(100)


def test_every_broker_tells_clients_the_same(mixed: Mixed) -> None:
    topic = mixed.topic([KAFKA], [OTTLA], [SECOND])

    def told(admin: AdminClient) -> object:
        listed = admin.list_topics(timeout=120)
        if topic not in listed.topics:
            return None
        partitions = listed.topics[topic].partitions
        return (
            listed.controller_id,
            sorted((broker.id, broker.host, broker.port) for broker in listed.brokers.values()),
            sorted((each.id, each.leader, each.replicas, each.isrs) for each in partitions.values()),
        )

    kafka = AdminClient({"bootstrap.servers": mixed.kafka.bootstrap})
    assert told(kafka) is not None
    for index in (0, 1):
        agrees = partial(lambda admin: told(admin) == told(kafka) is not None, mixed.admin_of(index))
        wait_until(agrees, timeout_s=120, what=f"broker {index + 1} says the same")


def test_a_topic_that_a_kafka_controller_deletes_is_gone(mixed: Mixed) -> None:
    topic = mixed.topic([OTTLA])
    produce(mixed.bootstrap, topic, numbers(10))
    folder = mixed.ottla.data(0) / f"{topic}-0"
    assert folder.exists()
    controlling = AdminClient({"bootstrap.servers": mixed.kafka.bootstrap})
    controlling.delete_topics([topic])[topic].result(timeout=120)
    wait_until(lambda: not folder.exists(), timeout_s=120, what="the log is deleted")
    admin = mixed.admin_of(0)
    wait_until(lambda: topic not in admin.list_topics(timeout=120).topics, timeout_s=120, what="nobody is told of it")


def test_settings_that_change_hold_on_every_broker(mixed: Mixed) -> None:
    topic = mixed.topic([OTTLA], **{"max.message.bytes": "2000"})
    producer = Producer({"bootstrap.servers": mixed.bootstrap, "message.timeout.ms": 120_000})
    outcome: list[object] = []

    def sent(size: int) -> object:
        producer.produce(topic, b"x" * size, on_delivery=lambda error, _: outcome.append(error))
        assert producer.flush(150) == 0
        return outcome.pop()

    assert sent(1000) is None
    assert "MSG_SIZE_TOO_LARGE" in str(sent(5000))
    entry = ConfigEntry("max.message.bytes", "10000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": mixed.kafka.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(timeout=120)
    wait_until(lambda: sent(5000) is None, timeout_s=120, what="the new limit holds")


def records_of(folder: Path, topic: str, partition: int = 0) -> bytes:
    """Everything that a replica has on disk of a partition."""
    return b"".join(path.read_bytes() for path in sorted((folder / f"{topic}-{partition}").glob("*.log")))


def wait_alike(folders: list[Path], topic: str, partition: int = 0) -> bytes:
    """Until all replicas have the same bytes, and not nothing."""

    def alike() -> bytes | None:
        first, *others = (records_of(folder, topic, partition) for folder in folders)
        return first if first and all(other == first for other in others) else None

    return wait_until(alike, timeout_s=120, what=f"the replicas of {topic}-{partition} are alike")


def kafka_data(mixed: Mixed) -> Path:
    return mixed.folder / "broker-0" / "data"


@pytest.mark.parametrize("compression", ["producer", "zstd"])
def test_a_follower_has_byte_for_byte_what_its_kafka_leader_has(mixed: Mixed, compression: str) -> None:
    topic = mixed.topic([KAFKA, OTTLA, SECOND], **{"min.insync.replicas": "3", "compression.type": compression})
    produce(mixed.bootstrap, topic, numbers(2000))
    assert wait_alike([kafka_data(mixed), mixed.ottla.data(0), mixed.ottla.data(1)], topic)


def test_a_kafka_follower_has_byte_for_byte_what_its_leader_has(mixed: Mixed) -> None:
    topic = mixed.topic([OTTLA, KAFKA, SECOND], **{"min.insync.replicas": "3"})
    produce(mixed.bootstrap, topic, numbers(2000))
    assert wait_alike([kafka_data(mixed), mixed.ottla.data(0), mixed.ottla.data(1)], topic)
    assert consume(mixed.bootstrap, topic, 2000) == numbers(2000)


def test_a_leader_lets_a_late_follower_go_and_takes_it_back(mixed: Mixed) -> None:
    topic = mixed.topic([OTTLA, KAFKA, SECOND], **{"min.insync.replicas": "2"})
    produce(mixed.bootstrap, topic, numbers(10))
    second = mixed.ottla.brokers[1]
    second.pause()
    try:
        # Nothing is acknowledged before the late one is out, for it might be elected until then.
        produce(mixed.bootstrap, topic, numbers(10, "s"))
        wait_until(lambda: mixed.isr(topic) == {OTTLA, KAFKA}, timeout_s=120, what="Kafka says so, too")
    finally:
        second.resume()
    wait_until(lambda: mixed.isr(topic) == {OTTLA, KAFKA, SECOND}, timeout_s=120, what="the late one is back")
    produce(mixed.bootstrap, topic, numbers(10, "t"))
    assert wait_alike([kafka_data(mixed), mixed.ottla.data(0), mixed.ottla.data(1)], topic)


def test_a_killed_leader_comes_back_to_follow_whoever_leads(mixed: Mixed) -> None:
    """Its registration is a new one at once, so the controller hears of a broker that died and lives."""
    topic = mixed.topic([SECOND, KAFKA, OTTLA], **{"min.insync.replicas": "2"})
    produce(mixed.bootstrap, topic, numbers(500))
    mixed.ottla.kill(1)
    mixed.ottla.start(1)
    produce(mixed.bootstrap, topic, numbers(500, "s"))
    wait_until(lambda: mixed.isr(topic) == {OTTLA, KAFKA, SECOND}, timeout_s=120, what="it is in sync again")
    produce(mixed.bootstrap, topic, numbers(500, "t"))
    assert wait_alike([kafka_data(mixed), mixed.ottla.data(0), mixed.ottla.data(1)], topic)
    assert consume(mixed.bootstrap, topic, 1500) == [*numbers(500), *numbers(500, "s"), *numbers(500, "t")]


def test_too_few_in_sync_are_told_behind_the_append_and_before_the_next(mixed: Mixed) -> None:
    topic = mixed.topic([OTTLA, SECOND], **{"min.insync.replicas": "2"})
    produce(mixed.bootstrap, topic, numbers(1))
    # Not by way of the one that is to stand still: whoever asks that waits for a minute, and it is out by then.
    leader = f"127.0.0.1:{mixed.ottla.ports[0]}"
    producer = Producer({"bootstrap.servers": leader, "acks": "all", "retries": 0, "linger.ms": 0})

    def outcome() -> str:
        told: list[str] = []
        producer.produce(topic, "r1", on_delivery=lambda error, _: told.append("" if error is None else error.name()))
        assert producer.flush(120) == 0
        return told[0]

    second = mixed.ottla.brokers[1]
    second.pause()
    try:
        assert outcome() == "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
        assert outcome() == "NOT_ENOUGH_REPLICAS"
    finally:
        second.resume()
    wait_until(lambda: mixed.isr(topic) == {OTTLA, SECOND}, timeout_s=120, what="both are in sync again")
    # What was appended and not acknowledged is there nevertheless, now that both have it.
    assert consume(mixed.bootstrap, topic, 2) == ["r0", "r1"]
