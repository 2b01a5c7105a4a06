"""librdkafka on brokers of ours beyond what test_clients.py asks of every client: large topics, refusals in words, a kill."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers

RECORDS = 200
FIRST_MS = 1_700_000_000_000
KEEP = {"log.retention.ms": "-1"}  # records of then are old


@pytest.fixture(scope="module")
def keepers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaKeepers]:
    with OttlaKeepers(1, tmp_path_factory.mktemp("keeper")) as running:
        yield running


@pytest.fixture(scope="module")
def brokers(keepers: OttlaKeepers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaBrokers]:
    with OttlaBrokers(1, f"{keepers.hosts}/shared", tmp_path_factory.mktemp("brokers"), settings=KEEP) as running:
        yield running


def create(bootstrap: str, topic: str, config: dict[str, str] | None = None, *, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})])[topic].result(timeout=120)


def produce(bootstrap: str, topic: str, **config: object) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **config})
    for number in range(RECORDS):
        producer.produce(
            topic,
            key=None if number % 10 == 0 else f"k{number}".encode(),
            value=None if number % 7 == 0 else b"v" * (number % 300) + str(number).encode(),
            headers=[("h", b"x"), ("null", None)],
            timestamp=FIRST_MS + number,
            partition=0,
            on_delivery=lambda error, _message: failed.append(error) if error else None,
        )
    assert producer.flush(120) == 0
    assert failed == []


def read(bootstrap: str, topic: str, count: int, *, offset: int = 0) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "assigned", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, offset)])
    got: list[Message] = []
    deadline = time.monotonic() + 120
    while len(got) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None
            got.append(message)
    consumer.close()
    return got


def check(messages: list[Message], count: int = RECORDS) -> None:
    assert [message.offset() for message in messages] == list(range(count))
    for number, message in enumerate(messages):
        number %= RECORDS  # noqa: PLW2901
        assert message.key() == (None if number % 10 == 0 else f"k{number}".encode())
        assert message.value() == (None if number % 7 == 0 else b"v" * (number % 300) + str(number).encode())
        assert message.headers() == [("h", b"x"), ("null", None)]
        assert message.timestamp()[1] == FIRST_MS + number


def test_a_large_record_and_an_offset_by_time(brokers: OttlaBrokers) -> None:
    create(brokers.bootstrap, "large", {"max.message.bytes": "4000000"})
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "message.max.bytes": 4_000_000})
    producer.produce("large", b"x" * 3_000_000, partition=0, timestamp=FIRST_MS)
    producer.produce("large", b"later", partition=0, timestamp=FIRST_MS + 1000)
    assert producer.flush(120) == 0
    first, second = read(brokers.bootstrap, "large", 2)
    assert (len(first.value() or b""), second.value()) == (3_000_000, b"later")
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "by time"})
    [found] = consumer.offsets_for_times([TopicPartition("large", 0, FIRST_MS + 500)], timeout=120)
    assert found.offset == 1
    assert consumer.get_watermark_offsets(TopicPartition("large", 0), timeout=120) == (0, 2)
    consumer.close()


def test_topics_are_made_listed_and_taken_away(brokers: OttlaBrokers) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    create(brokers.bootstrap, "passing", partitions=5)
    assert sorted(admin.list_topics("passing", timeout=120).topics["passing"].partitions) == [0, 1, 2, 3, 4]
    with pytest.raises(Exception, match="already exists"):
        create(brokers.bootstrap, "passing")
    with pytest.raises(Exception, match="Replication factor: 2 larger than available brokers: 1"):
        admin.create_topics([NewTopic("wide", 1, 2)])["wide"].result(timeout=120)
    admin.delete_topics(["passing"])["passing"].result(timeout=120)
    assert "passing" not in admin.list_topics(timeout=120).topics


def test_a_broker_that_was_killed_has_everything_it_acknowledged(keepers: OttlaKeepers, tmp_path: Path) -> None:
    with OttlaBrokers(1, f"{keepers.hosts}/killed", tmp_path, settings={"zookeeper.session.timeout.ms": "4000"}) as own:
        create(own.bootstrap, "kept", {"segment.bytes": "60000"})
        produce(own.bootstrap, "kept", acks="all")
        own.kill(0)
        own.start(0)
        produce(own.bootstrap, "kept", acks="all")
        check(read(own.bootstrap, "kept", 2 * RECORDS), 2 * RECORDS)
