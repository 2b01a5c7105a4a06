"""Several log directories: told of to Kafka's own tool, replicas moved between them by other people's clients, under load."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its way to its own files is an old one
    from kafka import errors
    from kafka.admin import KafkaAdminClient

from tests.chaos.records import TOPIC, Writer, check_partition, create_topic, read_all
from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import JAVA

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")

PARTITIONS = 4
SETTINGS = {
    "log.segment.bytes": "100000",
    "log.index.interval.bytes": "2000",
    "log.segment.delete.delay.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "300",
}


@contextmanager
def running(folder: Path, **more: str) -> Iterator[tuple[OttlaBrokers, list[Path]]]:
    places = [folder / "disk-1", folder / "disk-2"]
    settings = {**SETTINGS, "log.dirs": ",".join(map(str, places)), **more}
    with (
        OttlaKeepers(1, folder / "keeper") as keepers,
        OttlaBrokers(1, keepers.hosts, folder, settings=settings) as brokers,
    ):
        create_topic(brokers.bootstrap, partitions=PARTITIONS)
        yield brokers, places


@contextmanager
def admin_of(brokers: OttlaBrokers) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(
        bootstrap_servers=brokers.bootstrap, bootstrap_timeout_ms=120_000, request_timeout_ms=120_000
    )
    try:
        yield admin
    finally:
        admin.close()


def described(admin: KafkaAdminClient) -> dict[str, dict[int, dict[str, Any]]]:
    """By directory and number, what the broker says of the partitions of the topic."""
    (told,) = admin.describe_log_dirs()
    return {
        place["log_dir"]: {
            partition["partition_index"]: partition
            for topic in place["topics"]
            if topic["name"] == TOPIC
            for partition in topic["partitions"]
        }
        for place in told["log_dirs"]
    }


def place_of(admin: KafkaAdminClient, number: int) -> str:
    """Where a partition is, once it is in one place only."""

    def place() -> str | None:
        places = [path for path, partitions in described(admin).items() if number in partitions]
        return places[0] if len(places) == 1 else None

    return wait_until(place, timeout_s=60, what=f"{number} is in one place")


def move(admin: KafkaAdminClient, number: int, target: Path | str) -> type[Exception]:
    (answer,) = admin.alter_replica_log_dirs({(TOPIC, number, 1): str(target)}).values()
    return answer  # type: ignore[no-any-return]


def test_kafkas_tool_sees_what_lies_where(tmp_path: Path, kafka_libs: Path) -> None:
    with running(tmp_path) as (brokers, places):
        writer = Writer(brokers.bootstrap, 1, name="w")
        writer.start()
        writer.wait_acked(200)
        writer.stop()
        command = [*JAVA, "-cp", f"{kafka_libs}/*", "org.apache.kafka.tools.LogDirsCommand"]
        words = ["--bootstrap-server", brokers.bootstrap, "--describe", "--topic-list", TOPIC]
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, check=True)
        (broker,) = json.loads(done.stdout.splitlines()[-1])["brokers"]
        assert broker["broker"] == 1
        found = {each["logDir"]: each["partitions"] for each in broker["logDirs"]}
        assert found.keys() == {str(place) for place in places}
        assert [len(partitions) for partitions in found.values()] == [PARTITIONS // 2] * 2
        assert not any(each["error"] for each in broker["logDirs"])
        sizes = {each["partition"]: each["size"] for partitions in found.values() for each in partitions}
        on_disk = sum(path.stat().st_size for place in places for path in (place / f"{TOPIC}-1").glob("*.log"))
        assert sizes[f"{TOPIC}-1"] == on_disk > 0
        assert all(each["offsetLag"] == 0 and not each["isFuture"] for p in found.values() for each in p)


def test_what_cannot_be_moved_is_refused_as_kafka_does(tmp_path: Path) -> None:
    with running(tmp_path) as (brokers, places), admin_of(brokers) as admin:
        assert move(admin, 0, tmp_path / "nowhere") is errors.LogDirNotFoundError
        assert move(admin, 99, places[0]) is errors.UnknownTopicOrPartitionError
        assert move(admin, 0, place_of(admin, 0)) is errors.NoError


def test_a_replica_moves_while_it_is_written_and_read(tmp_path: Path) -> None:
    with running(tmp_path) as (brokers, places), admin_of(brokers) as admin:
        writers = [Writer(brokers.bootstrap, 0, name=f"w{n}", pause_s=0.0003) for n in range(3)]
        for writer in writers:
            writer.start()
        writers[0].wait_acked(1000)
        target = ""
        for _ in range(4):
            before = place_of(admin, 0)
            (target,) = [str(place) for place in places if str(place) != before]
            assert move(admin, 0, target) is errors.NoError
            wait_until(lambda target=target: place_of(admin, 0) == target, timeout_s=60, what="it has moved")  # type: ignore[misc]
            writers[0].wait_acked(100)
        for writer in writers:
            writer.stop()
        check_partition(read_all(brokers.bootstrap, 0), writers)
        (gone,) = [place for place in places if str(place) != target]
        assert list((Path(target) / f"{TOPIC}-0").glob("*.log"))
        wait_until(lambda: not list(gone.glob(f"{TOPIC}-0*")), timeout_s=120, what="nothing is left behind")


@pytest.mark.parametrize("kills", [2])
def test_a_broker_is_killed_while_a_replica_moves(tmp_path: Path, kills: int) -> None:
    slow = {"replica.alter.log.dirs.io.max.bytes.per.second": "150000"}
    with running(tmp_path, **slow) as (brokers, places):
        writers = [Writer(brokers.bootstrap, 0, name=f"w{n}", pause_s=0.001) for n in range(2)]
        for writer in writers:
            writer.start()
        writers[0].wait_acked(1500)
        with admin_of(brokers) as admin:
            (target,) = [str(place) for place in places if str(place) != place_of(admin, 0)]
            assert move(admin, 0, target) is errors.NoError
        for _ in range(kills):
            # Or it has moved already, where starting took long.
            wait_until(lambda: list(Path(target).glob(f"{TOPIC}-0*")), timeout_s=120, what="it moves")
            writers[0].wait_acked(100)
            brokers.kill(0)
            brokers.start(0)
        for writer in writers:
            writer.stop()
        with admin_of(brokers) as admin:
            wait_until(lambda: place_of(admin, 0) == target, timeout_s=60, what="it has moved")
        check_partition(read_all(brokers.bootstrap, 0), writers)


def test_a_broken_disk_takes_only_its_own_partitions_along(tmp_path: Path) -> None:
    with running(tmp_path) as (brokers, places), admin_of(brokers) as admin:
        numbers = {str(place): sorted(described(admin)[str(place)]) for place in places}
        writers = [Writer(brokers.bootstrap, number, name=f"w{number}") for number in numbers[str(places[1])]]
        for writer in writers:
            writer.start()
        for number in numbers[str(places[0])]:
            folder = places[0] / f"{TOPIC}-{number}"
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
        (places[0] / "replication-offset-checkpoint.tmp").mkdir()  # nothing can be written over it
        # A high watermark that has moved is to be written down: an unchanged one might have been already.
        lost = Producer({"bootstrap.servers": brokers.bootstrap, "message.timeout.ms": 5000})
        lost.produce(TOPIC, b"lost", partition=numbers[str(places[0])][0])
        lost.flush(60)
        told = {"broken": False}

        def offline() -> bool:
            (answer,) = admin.describe_log_dirs()
            codes = {place["log_dir"]: place["error_code"] for place in answer["log_dirs"]}
            assert codes[str(places[1])] == 0
            told["broken"] = codes[str(places[0])] == errors.KafkaStorageError.errno
            return told["broken"]

        wait_until(offline, timeout_s=120, what="the directory is offline")
        for writer in writers:
            writer.wait_acked(100)
            writer.stop()
            check_partition(read_all(brokers.bootstrap, writer.partition), [writer])
        assert move(admin, numbers[str(places[1])][0], places[0]) is errors.KafkaStorageError


def test_a_directory_that_is_named_twice_is_refused_and_nothing_in_it_is_touched(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path / "keeper") as keepers:
        folder = tmp_path / "broker"
        with OttlaBrokers(1, keepers.hosts, folder) as brokers:
            create_topic(brokers.bootstrap, partitions=1)
            (log,) = brokers.data().glob(f"{TOPIC}-0/*.log")
            config = brokers.folders[0] / "server.properties"
            brokers.brokers[0].stop(30)
            config.write_text(config.read_text().replace(f"{brokers.data()}", f"{brokers.data()},{brokers.data()}/"))
            with pytest.raises(RuntimeError, match="the same directory"):
                brokers.start(0)
            assert log.exists()
