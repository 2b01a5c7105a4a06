"""Segment files read without their broker hold what its consumers were given."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from ottla.log.checkpoints import TopicPartition as Checkpointed
from ottla.log.checkpoints import read_offsets
from ottla.log.directory import HIGH_WATERMARKS
from ottla.scan.cluster import Cluster, TopicPartition
from ottla.scan.columns import EVERYTHING, RAW, Filter
from ottla.scan.errors import DataLossError, ScanError
from ottla.scan.fetching import Fetching, Range
from ottla.scan.files import LogFiles
from ottla.scan.localreading import read_both, read_files
from ottla.scan.reading import batches, ranges
from ottla.scan.settings import parse_settings
from ottla.sql.engine import Engine
from ottla.sql.filesource import FilesSource
from pyspark_ottla.batch import OttlaBatchReader
from pyspark_ottla.options import parse_read_options
from pyspark_ottla.rows import default_schema
from tests.peers import OttlaKeepers, RealZooKeeper
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import KafkaBrokers
from tests.peers.processes import Process, wait_until

TOPIC = "events"
SETTINGS = {
    "log.retention.ms": "-1",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.segment.bytes": "20000",
}
UNTIL_1500 = json.dumps({TOPIC: {"0": 1500, "1": 1500}})
PLACED = StructType().add("partition", IntegerType()).add("offset", LongType()).add("value", BinaryType())
KINDS = ["ottla", pytest.param("apache", marks=pytest.mark.long)]


@contextmanager
def running(kind: str, folder: Path) -> Iterator[tuple[str, Path, Process]]:
    """A broker: where it is, where its files are, and its process."""
    if kind == "ottla":
        with OttlaKeepers(1, folder) as keepers, OttlaBrokers(1, keepers.hosts, folder, settings=SETTINGS) as ours:
            yield ours.bootstrap, ours.data(), ours.brokers[0]
    else:
        with RealZooKeeper(1, folder) as servers, KafkaBrokers(1, servers.hosts, folder, settings=SETTINGS) as theirs:
            yield theirs.bootstrap, folder / "broker-0" / "data", theirs.brokers[0]


def produce(bootstrap: str, numbers: range) -> None:
    producers = [
        Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "batch.num.messages": 20})
        for codec in ("none", "lz4", "zstd")
    ]
    for number in numbers:
        producers[number % 3].produce(
            TOPIC,
            json.dumps({"number": number}),
            key=f"key {number % 5}",
            partition=number % 2,
            timestamp=1_700_000_000_000 + number,
        )
    for producer in producers:
        assert producer.flush(120) == 0


def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def from_files(directory: Path, passing: Filter = EVERYTHING) -> list[dict[str, Any]]:
    files = LogFiles([directory])
    wanted = FilesSource(files).ranges(TOPIC, passing)
    names = list(RAW.names)
    rows = []
    for found in read_files(files, wanted, frozenset(names), passing):
        columns = [found.arrays[name].to_pylist() for name in names]
        rows += [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return in_order(rows)


def between(rows: list[dict[str, Any]], first: int, behind: int) -> list[tuple[int]]:
    """From the first record of one number on, up to the first of another, in each partition: producers took turns."""
    numbers = [[json.loads(row["value"])["number"] for row in rows if row["partition"] == one] for one in (0, 1)]
    starts, ends = (
        [next(at for at, n in enumerate(one) if n >= bound) for one in numbers] for bound in (first, behind)
    )
    return sorted((n,) for one, start, end in zip(numbers, starts, ends, strict=True) for n in one[start:end])


def by_spark(directory: Path, schema: StructType, **options: str) -> list[tuple[Any, ...]]:
    """What Spark's workers would read, without Spark and without a broker."""
    given = {"subscribe": TOPIC, "readMode": "files", "logDirs": str(directory), **options}
    reader = OttlaBatchReader(parse_read_options(given, streaming=False), schema)
    return [
        tuple(row.values()) for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_files_hold_what_a_client_reads_while_the_broker_runs_and_after_it_was_killed(
    kind: str, tmp_path: Path
) -> None:
    with running(kind, tmp_path) as (bootstrap, directory, process):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(120)
        produce(bootstrap, range(3000))
        places = [TopicPartition(TOPIC, partition) for partition in (0, 1)]
        checkpoint = directory / HIGH_WATERMARKS
        wait_until(
            lambda: (
                checkpoint.exists()
                and all(read_offsets(checkpoint).get(Checkpointed(*place)) == 1500 for place in places)
            ),
            timeout_s=120,
            what="the high watermarks are written down",
        )
        with Cluster(parse_settings({"bootstrap.servers": bootstrap})) as cluster:
            read = batches(cluster, ranges(cluster, places), RAW)
            expected = in_order([row for batch in read for row in batch.to_pylist()])
            assert len(list(directory.glob(f"{TOPIC}-0/*.log"))) > 1
            assert from_files(directory) == expected
            # What the checkpoint does not cover yet comes from the leader.
            files = LogFiles([directory])
            produce(bootstrap, range(3000, 3010))
            both = list(read_both(files, cluster, Range(places[0], 1400, 1505), frozenset(("offset",)), how=Fetching()))
            assert [offset for one in both for offset in one.arrays["offset"].to_pylist()] == list(range(1400, 1505))
        process.kill()
        found = from_files(directory)
        assert found[:1500] == expected[:1500]
        late = Filter(timestamp_from=1_700_000_000_000 + 2500, timestamp_until=1_700_000_000_000 + 2510)
        found = from_files(directory, late)
        assert sorted(json.loads(row["value"])["number"] for row in found) == list(range(2500, 2510))
        with Engine(FilesSource(LogFiles([directory]))) as engine:
            text = f"select count(*) c, max(number) m from {TOPIC} where _partition = 0 and _offset < 1500"
            assert engine.query(text).read_all().to_pylist() == [{"c": 1500, "m": 2998}]
        rows = by_spark(directory, PLACED, endingOffsets=UNTIL_1500)
        assert sorted(rows) == [(row["partition"], row["offset"], row["value"]) for row in expected]
        numbers = by_spark(
            directory,
            StructType().add("number", LongType()),
            valueFormat="json",
            startingTimestamp="1700000002501",
            endingTimestamp="1700000002507",
            maxBytesPerPartition="100",
        )
        assert sorted(numbers) == between(expected, 2501, 2507)
        pattern = {"subscribePattern": "ev.*", "where": "partition = 1 and offset < 3"}
        options = parse_read_options(
            {**pattern, "readMode": "files", "logDirs": str(directory), "valueFormat": "json"}, streaming=False
        )
        assert default_schema(options).names[:1] == ["number"]
        found_by_pattern = OttlaBatchReader(options, StructType().add("number", LongType()))
        [part] = found_by_pattern.partitions()
        firsts = [json.loads(row["value"])["number"] for row in expected[1500:1503]]
        assert [row["number"] for batch in found_by_pattern.read(part) for row in batch.to_pylist()] == firsts


@pytest.mark.parametrize("kind", [pytest.param("apache", marks=pytest.mark.long)])
def test_aborted_transactions_are_left_out_of_files(kind: str, tmp_path: Path) -> None:
    with running(kind, tmp_path) as (bootstrap, directory, _):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(120)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "one"})
        producer.init_transactions(30)
        for number in range(6):
            producer.begin_transaction()
            producer.produce(TOPIC, json.dumps({"number": number}))
            producer.flush(120)
            (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
        producer.begin_transaction()
        producer.produce(TOPIC, json.dumps({"number": 99}))
        producer.flush(120)
        place = TopicPartition(TOPIC, 0)
        wait_until(
            lambda: read_offsets(directory / HIGH_WATERMARKS).get(Checkpointed(*place)) == 13,
            timeout_s=120,
            what="all is written down",
        )
        with Engine(FilesSource(LogFiles([directory]), read_committed=True)) as engine:
            found = engine.query(f"select number from {TOPIC} order by 1").read_all()
        assert found.to_pylist() == [{"number": 0}, {"number": 2}, {"number": 4}]
        producer.abort_transaction(30)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ScanError, match="no log directory"):
        LogFiles([tmp_path / "nowhere"])
    files = LogFiles([tmp_path])
    with pytest.raises(ScanError, match="no files of events-0"):
        list(files.runs(Range(TopicPartition(TOPIC, 0), 0, 1)))
    folder = tmp_path / "events-0"
    folder.mkdir()
    (folder / "00000000000000000010.log").touch()
    with pytest.raises(DataLossError, match="offsets 5 to 9"):
        list(LogFiles([tmp_path]).runs(Range(TopicPartition(TOPIC, 0), 5, 20)))


def test_files_that_go_while_they_are_read_are_made_up_for_by_the_leader(tmp_path: Path) -> None:
    with running("ottla", tmp_path) as (bootstrap, directory, _):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(120)
        produce(bootstrap, range(3000))
        place = TopicPartition(TOPIC, 0)
        wait_until(
            lambda: read_offsets(directory / HIGH_WATERMARKS).get(Checkpointed(*place)) == 1500,
            timeout_s=120,
            what="all is written down",
        )
        # In a copy, so that the broker keeps its own.
        copied = tmp_path / "copied"
        shutil.copytree(directory / str(place), copied / str(place))
        shutil.copy(directory / HIGH_WATERMARKS, copied)
        files = LogFiles([copied])
        segments = sorted((copied / str(place)).glob("*.log"))
        with Cluster(parse_settings({"bootstrap.servers": bootstrap})) as cluster:
            found = read_both(files, cluster, Range(place, 0, 1500), frozenset(("offset",)))
            offsets = next(found).arrays["offset"].to_pylist()
            for segment in segments[2:]:
                segment.unlink()
            offsets += [offset for one in found for offset in one.arrays["offset"].to_pylist()]
        assert offsets == list(range(1500))
