"""Logs read in bulk are what a consumer that nobody here wrote reads, from Ottla's brokers and from Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Assigned

from ottla.scan.cluster import EARLIEST, LATEST, NO_OFFSET, TopicPartition
from ottla.scan.cluster import Cluster as Scanned
from ottla.scan.columns import RAW, Filter, select
from ottla.scan.errors import DataLossError, UnknownTopicError, UnreachableError
from ottla.scan.fetching import Fetching, Range
from ottla.scan.reading import batches, ranges, read
from ottla.scan.settings import parse_settings
from tests.compat.clients.cluster import KINDS, Cluster

OURS, APACHES = KINDS
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
APACHE_ONLY = [pytest.param(APACHES, marks=pytest.mark.long, id="apache")]
BOTH = [pytest.param(OURS, id="ottla"), *APACHE_ONLY]
KEPT = {"retention.ms": "-1"}  # the records of these tests are old


@pytest.fixture
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], Cluster]) -> Cluster:
    return clusters(request.param)


@pytest.fixture
def scanned(cluster: Cluster) -> Iterator[Scanned]:
    with Scanned(parse_settings({"bootstrap.servers": cluster.bootstrap, "default.api.timeout.ms": "120000"})) as made:
        yield made


def produce(cluster: Cluster, topic: str, count: int, *, partitions: int = 1, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    for number in range(count):
        producer.produce(
            topic,
            key=None if number % 5 == 0 else f"key {number % 7}",
            value=None if number % 11 == 0 else f'{{"number": {number}, "pad": "{"x" * (number % 100)}"}}',
            partition=number % partitions,
            timestamp=1_700_000_000_000 + number * 10,
            headers=[("h", b"1"), ("none", None)] if number % 3 == 0 else None,
        )
    assert producer.flush(120) == 0


def consumed(cluster: Cluster, topic: str, partitions: int, count: int) -> list[dict[str, Any]]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([Assigned(topic, partition, 0) for partition in range(partitions)])
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        for message in consumer.consume(count - len(rows), timeout=120):
            assert not message.error(), message.error()
            kind, timestamp = message.timestamp()
            headers = [{"key": one[0], "value": one[1]} for one in message.headers() or ()]
            rows.append(
                {
                    "key": message.key(),
                    "value": message.value(),
                    "topic": message.topic(),
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "timestamp": EPOCH + timedelta(milliseconds=timestamp),
                    "timestampType": kind - 1,
                    "headers": headers or None,
                }
            )
    consumer.close()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def scan(scanned: Scanned, topic: str, schema: pa.Schema = RAW, **more: Any) -> list[dict[str, Any]]:
    places = [TopicPartition(topic, partition) for partition in scanned.partitions([topic])[topic]]
    passing, how = more.get("passing", Filter()), more.get("how", Fetching())
    found = ranges(scanned, places, passing, read_committed=how.read_committed)
    rows = [row for batch in batches(scanned, found, schema, passing, how) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row.get("partition", 0), row.get("offset", 0)))


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_every_codec_of_librdkafka_reads_as_its_consumer_reads_it(
    cluster: Cluster, scanned: Scanned, topic: str
) -> None:
    cluster.create(topic, partitions=3, config=KEPT)
    for codec in CODECS:
        produce(cluster, topic, 300, partitions=3, **{"compression.type": codec, "linger.ms": 5})
    expected = consumed(cluster, topic, 3, 300 * len(CODECS))
    assert scan(scanned, topic) == expected
    # So small that every batch is a response of its own.
    assert scan(scanned, topic, how=Fetching(fetch_bytes=1)) == expected


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_filters_pass_what_they_say_and_start_where_they_can(cluster: Cluster, scanned: Scanned, topic: str) -> None:
    cluster.create(topic, partitions=2, config=KEPT)
    produce(cluster, topic, 400, partitions=2, **{"batch.num.messages": 10})
    schema = select(["partition", "offset", "timestamp", "key"])
    every = scan(scanned, topic, schema)
    early, late = 1_700_000_000_000 + 1500, 1_700_000_000_000 + 2500
    passing = Filter(timestamp_from=early, timestamp_until=late)
    between = [row for row in every if early <= (row["timestamp"] - EPOCH) / timedelta(milliseconds=1) < late]
    assert scan(scanned, topic, schema, passing=passing) == between != []
    places = [TopicPartition(topic, partition) for partition in (0, 1)]
    assert [one.start for one in ranges(scanned, places, passing)] == [75, 75]
    assert ranges(scanned, places, Filter(timestamp_from=1 << 45)) == []
    picked = Filter(partitions=frozenset((1,)), first_offset=20, end_offset=30, keys=(b"key 1", b"key 2"))
    assert scan(scanned, topic, schema, passing=picked) == [
        row
        for row in every
        if row["partition"] == 1 and 20 <= row["offset"] < 30 and row["key"] in (b"key 1", b"key 2")
    ]
    counted = read(scanned, ranges(scanned, places), frozenset())
    assert sum(found.rows for found in counted) == 400


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_offsets_by_time_and_by_name(cluster: Cluster, scanned: Scanned, topic: str) -> None:
    cluster.create(topic, config=KEPT)
    place = TopicPartition(topic, 0)
    assert scanned.offsets({place: LATEST}) == {place: 0}
    produce(cluster, topic, 50)
    assert scanned.offsets({place: EARLIEST}) == {place: 0}
    assert scanned.offsets({place: LATEST}) == {place: 50}
    assert scanned.offsets({place: 1_700_000_000_000 + 95}) == {place: 10}
    assert scanned.offsets({place: 1_800_000_000_000}) == {place: NO_OFFSET}
    assert scanned.topics()[topic] == [0]


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_what_is_not_there_is_told(cluster: Cluster, scanned: Scanned, topic: str) -> None:
    assert scanned.partitions([topic]) == {}
    missing = TopicPartition(topic, 0)
    with pytest.raises(UnknownTopicError, match=str(missing)):
        scanned.offsets({missing: LATEST})
    cluster.create(topic, config=KEPT)
    produce(cluster, topic, 10)
    beyond = Range(missing, 20, 30)
    with pytest.raises(DataLossError, match="offset 20"):
        list(read(scanned, [beyond], frozenset(("offset",))))
    assert list(read(scanned, [beyond], frozenset(("offset",)), how=Fetching(fail_on_data_loss=False))) == []


def test_nobody_there_is_an_error_once_the_time_is_up() -> None:
    settings = parse_settings({"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "200"})
    with Scanned(settings) as nobody, pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        nobody.topics()


@pytest.mark.parametrize("cluster", APACHE_ONLY, indirect=True)
def test_only_what_was_committed_is_read(cluster: Cluster, scanned: Scanned, topic: str) -> None:
    cluster.create(topic, config=KEPT)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for part in range(4):
            producer.produce(topic, f"{number}/{part}")
        producer.flush(120)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    values = select(["value"])
    committed = [row["value"].decode() for row in scan(scanned, topic, values, how=Fetching(read_committed=True))]
    assert sorted(committed) == [f"{number}/{part}" for number in (0, 2, 4) for part in range(4)]
    assert len(scan(scanned, topic, values)) == 24
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(120)
    assert len(scan(scanned, topic, values, how=Fetching(read_committed=True))) == 12
    assert len(scan(scanned, topic, values)) == 25
    producer.abort_transaction(30)


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_a_range_that_is_not_yet_there_is_waited_for(cluster: Cluster, scanned: Scanned, topic: str) -> None:
    cluster.create(topic, config=KEPT)
    produce(cluster, topic, 5)
    found = read(scanned, [Range(TopicPartition(topic, 0), 0, 10)], frozenset(("offset",)))
    assert next(found).rows == 5
    produce(cluster, topic, 5)
    assert sum(one.rows for one in found) == 5
