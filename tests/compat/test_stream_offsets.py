"""Which offsets a stream reads next, on real clusters and without Spark: what the suites of Spark's own connector name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import BinaryType, StructType

from ottla.scan.errors import DataLossError, OptionError
from pyspark_ottla import stream
from pyspark_ottla.options import parse_read_options
from pyspark_ottla.stream import OttlaStreamReader
from tests.compat.clients.cluster import KINDS, Cluster
from tests.peers import wait_until

OURS, APACHES = KINDS
BOTH = [pytest.param(OURS, id="ottla"), pytest.param(APACHES, marks=pytest.mark.long, id="apache")]
VALUE = StructType().add("value", BinaryType())
Offsets = dict[str, int]

pytestmark = pytest.mark.parametrize("cluster", BOTH, indirect=True)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], Cluster]) -> Cluster:
    return clusters(request.param)


class Stream:
    """A reader, asked as Spark asks it."""

    def __init__(self, cluster: Cluster, topic: str, **options: object) -> None:
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "startingOffsets": "earliest", "subscribe": topic}
        given |= {name: str(value) for name, value in options.items()}
        if "subscribePattern" in given:
            del given["subscribe"]
        self.reader = OttlaStreamReader(parse_read_options(given, streaming=True), VALUE)
        self.topic = topic
        self.at: dict[str, dict[str, int]] = {}

    def start(self) -> Stream:
        self.at = self.reader.initialOffset()
        return self

    def next(self, limit: ReadLimit | None = None) -> tuple[Offsets, list[str]]:
        """Where one micro-batch ends, and what is in it."""
        end = self.reader.latestOffset(self.at, limit or self.reader.getDefaultReadLimit())
        parts = self.reader.partitions(self.at, end) if end != self.at else []
        rows = [
            row["value"].decode() for part in parts for batch in self.reader.read(part) for row in batch.to_pylist()
        ]
        self.at = end
        return end.get(self.topic, {}), sorted(rows)


@pytest.fixture
def streams(cluster: Cluster, topic: str) -> Iterator[Callable[..., Stream]]:
    made: list[Stream] = []

    def make(**options: object) -> Stream:
        made.append(Stream(cluster, topic, **options))
        return made[-1].start()

    yield make
    for one in made:
        one.reader.stop()


def produce(cluster: Cluster, topic: str, values: range, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in values:
        producer.produce(topic, f"{value:04}", partition=partition)
    assert producer.flush(60) == 0


def texts(values: range) -> list[str]:
    return [f"{value:04}" for value in values]


def test_limits_share_a_backlog_out(cluster: Cluster, topic: str, streams: Callable[..., Stream]) -> None:
    cluster.create(topic, partitions=2)
    produce(cluster, topic, range(90))
    produce(cluster, topic, range(90, 100), partition=1)
    by_records = streams(maxOffsetsPerTrigger=50)
    assert by_records.next()[0] == {"0": 45, "1": 5}
    assert by_records.next()[0] == {"0": 90, "1": 10}
    assert by_records.next() == ({"0": 90, "1": 10}, [])
    # Trigger.Once knows no limit, and neither does a stream that has none.
    assert streams(maxOffsetsPerTrigger=1).next(ReadAllAvailable()) == ({"0": 90, "1": 10}, texts(range(100)))
    by_bytes = streams(maxBytesPerTrigger="1k")
    first, rows = by_bytes.next()
    assert 0 < len(rows) < 100
    assert sum(first.values()) == len(rows)


def test_a_minimum_is_waited_for_until_the_delay_is_over(
    cluster: Cluster, topic: str, streams: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("pyspark_ottla.stream.monotonic", lambda: now)
    cluster.create(topic)
    produce(cluster, topic, range(10))
    waiting = streams(minOffsetsPerTrigger=10, maxOffsetsPerTrigger=12, maxTriggerDelay="5m")
    assert waiting.next() == ({"0": 10}, texts(range(10)))
    produce(cluster, topic, range(10, 15))
    assert waiting.next() == ({"0": 10}, [])
    now += 301
    assert waiting.next() == ({"0": 15}, texts(range(10, 15)))
    produce(cluster, topic, range(15, 40))
    assert waiting.next() == ({"0": 27}, texts(range(15, 27)))


def test_what_is_available_now_is_read_and_no_more(
    cluster: Cluster, topic: str, streams: Callable[..., Stream]
) -> None:
    cluster.create(topic)
    produce(cluster, topic, range(10))
    ending = streams(maxOffsetsPerTrigger=8, minOffsetsPerTrigger=8)
    ending.reader.prepareForTriggerAvailableNow()
    produce(cluster, topic, range(10, 20))
    assert ending.next() == ({"0": 8}, texts(range(8)))
    assert ending.next() == ({"0": 10}, texts(range(8, 10)))
    assert ending.next() == ({"0": 10}, [])
    assert ending.reader.reportLatestOffset() == {topic: {"0": 20}}


def test_partitions_and_topics_that_appear_are_read_from_their_beginning(
    cluster: Cluster, topic: str, streams: Callable[..., Stream]
) -> None:
    cluster.create(topic)
    growing = streams(subscribePattern=f"{topic}.*", startingOffsets="latest", where="partition = 0")
    produce(cluster, topic, range(3))
    assert growing.next() == ({"0": 3}, texts(range(3)))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(120)
    other = f"{topic}.other"
    cluster.create(other)
    produce(cluster, topic, range(3, 5), partition=1)
    produce(cluster, other, range(5, 8))
    wait_until(lambda: growing.reader.reportLatestOffset().get(other) == {"0": 3} or None, timeout_s=60, what=other)
    # What a condition leaves out counts as read.
    assert growing.next() == ({"0": 3, "1": 2}, texts(range(5, 8)))


def test_records_that_retention_took_are_told_of_or_passed_over(
    cluster: Cluster, topic: str, streams: Callable[..., Stream]
) -> None:
    cluster.create(topic)
    produce(cluster, topic, range(10))
    strict, lenient = streams(readMode="network"), streams(readMode="network", failOnDataLoss=False)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    [deleted] = admin.delete_records([Place(topic, 0, 6)]).values()
    deleted.result(60)
    with pytest.raises(DataLossError, match=f"offsets 0 to 5 of {topic}-0 are gone, the log starts at 6"):
        strict.next()
    assert lenient.next() == ({"0": 10}, texts(range(6, 10)))


def test_a_topic_that_was_made_anew_is_told_of_or_read_from_its_beginning(
    cluster: Cluster, topic: str, streams: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SETTLING_S", 0)
    cluster.create(topic)
    produce(cluster, topic, range(10))
    strict, lenient = streams(), streams(failOnDataLoss=False)
    assert strict.next() == lenient.next() == ({"0": 10}, texts(range(10)))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([topic])[topic].result(60)
    gone = strict.reader
    wait_until(lambda: gone.reportLatestOffset() == {} or None, timeout_s=60, what=f"{topic} is gone")
    with pytest.raises(DataLossError, match=f"partition {topic}-0 is not there any more"):
        strict.next()
    cluster.create(topic, anew=True)
    produce(cluster, topic, range(100, 104))
    with pytest.raises(DataLossError, match=f"{topic}-0 ends at offset 4, though all before 10 was read"):
        strict.next()
    assert lenient.next() == ({"0": 4}, texts(range(100, 104)))
    produce(cluster, topic, range(104, 106))
    assert lenient.next() == ({"0": 6}, texts(range(104, 106)))


def test_a_stream_starts_where_it_is_told(cluster: Cluster, topic: str, streams: Callable[..., Stream]) -> None:
    cluster.create(topic)
    produce(cluster, topic, range(10))
    assert streams(startingOffsets="-3").next()[1] == texts(range(7, 10))
    assert streams(startingOffsets="-1h").next()[1] == texts(range(10))
    assert streams(startingOffsets="latest").next()[1] == []
    assert streams(startingOffsets=json.dumps({topic: {"0": 8}})).next()[1] == texts(range(8, 10))
    with pytest.raises(OptionError, match="has to name every partition"):
        streams(startingOffsets=json.dumps({topic: {"0": 8, "1": 0}}))
    with pytest.raises(OptionError, match="a stream has no end"):
        streams(endingOffsets="latest")
