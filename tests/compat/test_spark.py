"""The data source on real clusters, in one Spark session."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Assigned
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from tests.compat.clients.cluster import KINDS, Cluster

OURS, APACHES = KINDS
BOTH = [pytest.param(OURS, id="ottla"), pytest.param(APACHES, marks=pytest.mark.long, id="apache")]
KEPT = {"retention.ms": "-1"}  # the records of these tests are old
APACHE_ONLY = [pytest.param(APACHES, marks=pytest.mark.long, id="apache")]
START_MS = 1_700_000_000_000
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
BUSY_ATTEMPTS = 60

pytestmark = [
    pytest.mark.timeout(1200),
    # Of py4j and pyspark, which close their sockets when they are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], Cluster]) -> Cluster:
    return clusters(request.param)


def produce(cluster: Cluster, topic: str, numbers: range, *, partitions: int = 3) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in numbers:
        value: dict[str, Any] = {"number": number, "page": f"/{number % 7}"}
        producer.produce(
            topic,
            json.dumps(value),
            key=f"user {number % 5}",
            partition=number % partitions,
            timestamp=START_MS + number * 1000,
            headers=[("source", b"test")] if number % 2 else None,
        )
    assert producer.flush(120) == 0


@pytest.fixture
def clicks(cluster: Cluster, topic: str) -> str:
    cluster.create(topic, partitions=3, config=KEPT)
    produce(cluster, topic, range(300))
    return topic


def read(spark: SparkSession, cluster: Cluster, schema: str | None = None, **options: object) -> DataFrame:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(json.loads(row["value"])["number"] for row in frame.select("value").collect())


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_rows_are_those_of_the_topic_in_the_columns_of_sparks_connector(
    spark: SparkSession, cluster: Cluster, clicks: str
) -> None:
    frame = read(spark, cluster, subscribe=clicks, includeHeaders=True)
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    rows = sorted(frame.collect(), key=lambda row: (row["offset"], row["partition"]))
    assert len(rows) == 300
    for number, row in enumerate(rows):
        assert row["key"] == f"user {number % 5}".encode()
        assert json.loads(row["value"])["number"] == number
        assert (row["topic"], row["partition"], row["offset"]) == (clicks, number % 3, number // 3)
        assert row["timestamp"].replace(tzinfo=UTC) == datetime.fromtimestamp(START_MS / 1000 + number, UTC)
        assert row["timestampType"] == 0
        assert row["headers"] == ([("source", b"test")] if number % 2 else None)


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_every_way_to_start_and_to_end(spark: SparkSession, cluster: Cluster, clicks: str) -> None:
    def found(**options: object) -> list[int]:
        given = {"subscribe": clicks, **options}
        return numbers(read(spark, cluster, "value BINARY", **{k: v for k, v in given.items() if v is not None}))

    from_5 = json.dumps({clicks: {"0": 5, "1": -2, "2": 99}})
    until_7 = json.dumps({clicks: {"0": 7, "1": 1, "2": -1}})
    assert found(startingOffsets=from_5, endingOffsets=until_7) == [1, 15, 18, 299]
    late = START_MS + 290_000
    assert found(startingTimestamp=late, endingTimestamp=late + 3000) == [290, 291, 292]
    by_time = json.dumps({clicks: {"0": late, "1": late, "2": late + 8000}})
    assert found(startingOffsetsByTimestamp=by_time) == [291, 292, 294, 295, 297, 298, 299]
    until_then = json.dumps({clicks: {"0": late + 3000, "1": late + 3000, "2": late}})
    assert found(startingTimestamp=late, endingOffsetsByTimestamp=until_then) == [291, 292]
    consumers = {"groupIdPrefix": "ours", "kafkaConsumer.pollTimeoutMs": 1000, "kafka.max.poll.records": 7}
    assert found(startingOffsets="-1", **consumers) == [297, 298, 299]
    assert found(startingOffsets="-2") == [294, 295, 296, 297, 298, 299]
    assert found(startingOffsets="-1m", startingOffsetsByTimestampStrategy="latest") == []
    assigned = json.dumps({clicks: [1]})
    assert found(subscribe=None, assign=assigned, startingOffsets="-1") == [298]
    assert found(subscribe=None, subscribePattern=f"{clicks[:-2]}.*", startingOffsets="-1")[-3:] == [297, 298, 299]


@pytest.mark.long
@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_partitions_are_cut_into_tasks(spark: SparkSession, cluster: Cluster, clicks: str) -> None:
    def tasks(**options: object) -> list[int]:
        frame = read(spark, cluster, "offset LONG", subscribe=clicks, **options)
        counted = frame.groupBy(F.spark_partition_id()).count().collect()
        return sorted(row["count"] for row in counted)

    assert tasks() == [100, 100, 100]
    assert tasks(minPartitions=6) == [50] * 6
    assert tasks(maxRecordsPerPartition=40) == [33] * 6 + [34] * 3
    by_bytes = tasks(maxBytesPerPartition=3000)
    assert len(by_bytes) > 3
    assert sum(by_bytes) == 300


@pytest.mark.long
@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_conditions_are_pushed_down_and_the_rows_stay_the_same(
    spark: SparkSession, cluster: Cluster, clicks: str
) -> None:
    conditions = (
        "partition = 1 and offset between 10 and 12",
        "partition in (0, 2) and offset > 97 and value is not null",
        f"timestamp >= timestamp_millis({START_MS + 295_000}) and timestamp < timestamp_millis({START_MS + 297_000})",
        "key = cast('user 3' as binary) and offset < 5",
        f"topic = 'another' or topic = '{clicks}' and offset < 1",
    )
    expected = [[31, 34, 37], [294, 296, 297, 299], [295, 296], [3, 8, 13], [0, 1, 2]]
    frame = read(spark, cluster, subscribe=clicks)
    assert [numbers(frame.where(condition)) for condition in conditions] == expected
    with pytest.raises(PySparkException, match=PUSH_DOWN):
        read(spark, cluster, subscribe=clicks, pushFilters=True).collect()
    spark.conf.set(PUSH_DOWN, "true")
    try:
        # A frame for every query: Spark 4.2 would push the conditions of one into the next.
        frames = [read(spark, cluster, subscribe=clicks, pushFilters=True).where(one) for one in conditions]
        assert [numbers(one) for one in frames] == expected
        assert [one.select("offset").rdd.getNumPartitions() for one in frames] == [1, 2, 3, 3, 3]
        # And with the same setting, nothing is pushed for those who did not ask.
        frame = read(spark, cluster, subscribe=clicks)
        assert (frame.where("offset < 1").count(), frame.count()) == (3, 300)
    finally:
        spark.conf.set(PUSH_DOWN, "false")


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_values_become_typed_columns_and_malformed_ones_are_kept(
    spark: SparkSession, cluster: Cluster, clicks: str
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in ("broken", None, '{"number": "text"}'):
        producer.produce(clicks, value, partition=0)
    assert producer.flush(120) == 0
    frame = read(spark, cluster, subscribe=clicks, valueFormat="json")
    assert dict(frame.dtypes)["number"] == "bigint"
    [counted] = frame.agg(
        F.count("*").alias("rows"), F.sum("number").alias("sum"), F.collect_list("_corrupt").alias("bad")
    ).collect()
    assert (counted["rows"], counted["sum"]) == (303, sum(range(300)))
    assert sorted(counted["bad"]) == ["broken", '{"number": "text"}']
    few = read(spark, cluster, "page STRING, _offset LONG", subscribe=clicks, valueFormat="json")
    assert few.where("page = '/1'").count() == 43


@pytest.mark.long
@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_malformed_values_go_to_a_topic_of_their_own(spark: SparkSession, cluster: Cluster, clicks: str) -> None:
    letters = f"{clicks}.letters"
    cluster.create(letters, config=KEPT)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(clicks, b"\xffbroken", key="k", partition=2, timestamp=START_MS, headers=[("source", b"x")])
    producer.produce(clicks, b'{"number": "seven"}', partition=2, timestamp=START_MS)
    assert producer.flush(120) == 0
    frame = read(spark, cluster, "number LONG", subscribe=clicks, valueFormat="json", deadLetterTopic=letters)
    assert frame.count() == 300
    rows = read(spark, cluster, subscribe=letters, includeHeaders=True).collect()
    first, second = sorted(rows, key=lambda row: dict(row["headers"])["offset"])
    assert (first["key"], first["value"]) == (b"k", b"\xffbroken")
    assert dict(first["headers"]) == {
        "source": b"x",
        "topic": clicks.encode(),
        "partition": b"2",
        "offset": b"100",
        "timestamp": str(START_MS).encode(),
        "reason": b"no JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    }
    assert (second["key"], second["value"]) == (None, b'{"number": "seven"}')
    assert dict(second["headers"])["reason"] == b"the field number is no int64"


@pytest.mark.long
@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_what_no_broker_takes_goes_to_a_topic_of_its_own_and_the_rest_where_it_should(
    spark: SparkSession, cluster: Cluster, topic: str
) -> None:
    letters, compacted = f"{topic}.letters", f"{topic}.compacted"
    cluster.create(topic, partitions=2, config=KEPT | {"max.message.bytes": "2000"})
    cluster.create(compacted, config={"cleanup.policy": "compact"})
    cluster.create(letters, config=KEPT)
    fine = [("k", f"value {number}", topic, None) for number in range(20)]
    compact = [(f"k{number}", "kept", compacted, None) for number in range(20)]
    refused = [
        ("large", "x" * 10_000, topic, None),
        ("no such partition", "v", topic, 7),
        ("no topic", "v", None, None),
        (None, "no key", compacted, None),
    ]
    schema = "key STRING, value STRING, topic STRING, partition INT"
    options = {"kafka.bootstrap.servers": cluster.bootstrap}
    with pytest.raises(PySparkException, match="1 records were not taken"):
        spark.createDataFrame(refused[:1], schema).write.format("ottla").options(**options).mode("append").save()
    # One task, so that what is refused shares batches with what is not.
    frame = spark.createDataFrame([*fine, *compact, *refused], schema).coalesce(1)
    frame.write.format("ottla").options(**options, deadLetterTopic=letters).mode("append").save()
    taken = read(spark, cluster, subscribe=f"{topic},{compacted}").collect()
    assert sorted((row["key"].decode(), row["value"].decode(), row["topic"]) for row in taken) == sorted(
        (key, value, name) for key, value, name, _ in (*fine, *compact)
    )
    found = read(spark, cluster, subscribe=letters, includeHeaders=True).collect()
    told = {(row["key"], row["value"][:6]): dict(row["headers"]) for row in found}
    assert set(told) == {(None if key is None else key.encode(), value.encode()[:6]) for key, value, _, _ in refused}
    assert all(one["reason"] for one in told.values())
    assert "large" in told[b"large", b"xxxxxx"]["reason"].decode()
    assert told[b"large", b"xxxxxx"]["topic"] == topic.encode()
    assert "topic" not in told[b"no topic", b"v"]


@pytest.mark.long
@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_what_cannot_be_is_told_with_the_option_that_is_wrong(
    spark: SparkSession, cluster: Cluster, clicks: str
) -> None:
    with pytest.raises(PySparkException, match="exactly one of subscribe"):
        read(spark, cluster)
    with pytest.raises(PySparkException, match="there is no topic nowhere"):
        read(spark, cluster, subscribe="nowhere").collect()
    with pytest.raises(PySparkException, match="there is no column nowhere"):
        read(spark, cluster, "nowhere STRING", subscribe=clicks).collect()
    gone = json.dumps({clicks: {"0": 500, "1": 0, "2": 0}})
    with pytest.raises(PySparkException, match="behind its end"):
        read(spark, cluster, subscribe=clicks, startingOffsets=gone).collect()


def ended(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that has done its work. Spark gives a Python worker ten seconds to start, which a busy machine may need."""
    for attempt in range(BUSY_ATTEMPTS):
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if attempt == BUSY_ATTEMPTS - 1 or "failed to connect back" not in str(error):
                raise
        else:
            return query
    raise AssertionError


class Streamed:
    """A stream into memory, one run after the other with the same checkpoint."""

    def __init__(self, spark: SparkSession, cluster: Cluster, folder: Path, name: str) -> None:
        self._spark, self._cluster, self._folder, self._name = spark, cluster, folder, name
        self._by_id: dict[int, list[int]] = {}

    @property
    def batches(self) -> list[list[int]]:
        return list(self._by_id.values())

    def run(self, **options: object) -> StreamingQuery:
        reader = self._spark.readStream.format("ottla").option("kafka.bootstrap.servers", self._cluster.bootstrap)
        frame = reader.options(**{name: str(value) for name, value in options.items()}).load()

        def keep(batch: DataFrame, batch_id: int) -> None:
            self._by_id[batch_id] = numbers(batch)  # one that was broken off comes again

        writer = frame.writeStream.foreachBatch(keep).trigger(availableNow=True)
        return ended(writer.option("checkpointLocation", str(self._folder / self._name)).start)


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_a_stream_goes_on_where_its_checkpoint_says_within_its_limits(
    spark: SparkSession, cluster: Cluster, clicks: str, tmp_path: Path
) -> None:
    streamed = Streamed(spark, cluster, tmp_path, "limited")
    query = streamed.run(subscribe=clicks, startingOffsets="earliest", maxOffsetsPerTrigger=120)
    assert [len(batch) for batch in streamed.batches] == [120, 120, 60]
    progress = query.lastProgress
    assert progress is not None
    assert json.loads(progress.sources[0].endOffset) == {clicks: {"0": 100, "1": 100, "2": 100}}
    produce(cluster, clicks, range(300, 330))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_partitions([NewPartitions(clicks, 4)])[clicks].result(120)
    produce(cluster, clicks, range(330, 340), partitions=4)
    streamed.run(subscribe=clicks, startingOffsets="earliest", maxBytesPerTrigger="1g")
    read_at_last = sorted(number for batch in streamed.batches for number in batch)
    assert read_at_last == list(range(340))


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_rows_are_written_with_all_that_a_record_has(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    cluster.create(topic, partitions=4, config=KEPT)
    rows = [
        (f"key {number}", f"value {number}", number % 4, [("h", b"1")] if number % 2 else None) for number in range(40)
    ]
    frame = spark.createDataFrame(
        rows, "key STRING, value STRING, partition INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    )
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic, "compression": "lz4"}
    frame.write.format("ottla").options(**options).mode("append").save()
    written = read(spark, cluster, subscribe=topic, includeHeaders=True).collect()
    found = {(row["key"].decode(), row["value"].decode(), row["partition"], str(row["headers"])) for row in written}
    assert len(written) == 40
    assert found == {
        (key, value, partition, "None" if headers is None else "[Row(key='h', value=b'1')]")
        for key, value, partition, headers in rows
    }
    with pytest.raises(PySparkException, match="no topic to write to"):
        frame.write.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap).mode("append").save()
    # As it was read, with columns that are no part of a record and settings of Java's producers.
    again = f"{topic}.again"
    cluster.create(again, partitions=4, config=KEPT)
    java = {
        "kafka.acks": "1",
        "kafka.max.block.ms": "1000",
        "kafka.max.request.size": "2000000",
        "kafka.batch.size": "0",
    }
    raw = read(spark, cluster, subscribe=topic, includeHeaders=True)
    raw.write.format("ottla").options(**(options | java | {"topic": again})).mode("append").save()
    columns = ("key", "value", "partition", "headers")
    copy = read(spark, cluster, subscribe=again, includeHeaders=True).select(*columns)
    assert sorted(map(str, copy.collect())) == sorted(map(str, raw.select(*columns).collect()))
    # And from one topic into another, as a stream.
    copied = f"{topic}.copy"
    cluster.create(copied, partitions=2, config=KEPT)
    source = spark.readStream.format("ottla").options(**options, subscribe=topic, startingOffsets="earliest").load()
    writer = (
        source.select("key", F.upper(F.col("value").cast("string")).alias("value"))
        .writeStream.format("ottla")
        .options(**(options | {"topic": copied, "partitioner": "roundRobin", "checkpointLocation": str(tmp_path)}))
        .trigger(availableNow=True)
    )
    ended(writer.start)
    values = [row["value"].decode() for row in read(spark, cluster, subscribe=copied).collect()]
    assert sorted(values) == sorted(f"VALUE {number}" for number in range(40))


@pytest.mark.long
@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_what_a_stream_has_read_is_committed_to_a_group(
    spark: SparkSession, cluster: Cluster, clicks: str, tmp_path: Path
) -> None:
    group = f"{clicks}.group"
    Streamed(spark, cluster, tmp_path, "grouped").run(
        subscribe=clicks, startingOffsets="earliest", maxOffsetsPerTrigger=150, commitGroup=group
    )
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    committed = consumer.committed([Assigned(clicks, partition) for partition in range(3)], timeout=120)
    consumer.close()
    assert sum(one.offset for one in committed) >= 150


@pytest.mark.parametrize("cluster", APACHE_ONLY, indirect=True)
def test_only_committed_records_are_read(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, config=KEPT)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(topic, json.dumps({"number": number}))
        producer.flush(120)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    assert numbers(read(spark, cluster, **options)) == [0, 2]
    assert numbers(read(spark, cluster, subscribe=topic)) == [0, 1, 2, 3]
