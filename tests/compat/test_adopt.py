"""``ottla log adopt``: the data directory of an Apache Kafka 3.9.1 is taken over, served whole, and can be given back."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.chaos.records import create_topic
from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import KafkaBrokers

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-3.9.1-log-dir"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def ottla(*words: object, fails: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "ottla", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done


def adopt(*words: object) -> dict[str, dict[str, Any]]:
    told = json.loads(ottla("log", "adopt", *words, "--json").stdout)
    return {row["topic"]: row for row in told["topics"]}


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def read(
    bootstrap: str, topic: str, *, committed: bool = True, offset: int = 0
) -> list[tuple[int | None, bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    found = []
    while (message := consumer.poll(120)) is not None and message.error() is None:
        found.append((message.offset(), message.key(), message.value()))
    assert message is not None, f"{topic} has no end"
    consumer.close()
    return found


def broker_over(folder: Path, keepers: OttlaKeepers, data: Path, broker_id: int, path: str = "") -> OttlaBrokers:
    settings = {"broker.id": str(broker_id), "log.dirs": str(data), "log.retention.check.interval.ms": "100"}
    return OttlaBrokers(1, f"{keepers.hosts}{path}", folder, settings=settings)


def test_the_golden_directory_serves_every_record(tmp_path: Path) -> None:
    data = Path(shutil.copytree(GOLDEN, tmp_path / "data"))
    before = snapshot(data)
    with OttlaKeepers(1, tmp_path / "keeper") as keepers:
        rows = adopt(data, "--keeper", keepers.hosts, "--dry-run")
        assert not any(row["registered"] for row in rows.values())
        for _ in range(2):  # the second time it is there already
            rows = adopt(data, "--keeper", keepers.hosts)
        assert all(row["registered"] for row in rows.values())
        assert {"g-txn", "g-compact", "__consumer_offsets", "__transaction_state", *(f"g-{c}" for c in CODECS)} == set(
            rows
        )
        assert rows["g-compact"]["compacted"]
        assert rows["__consumer_offsets"]["partitions"] == 2
        assert snapshot(data) == before  # nothing in it was touched
        brokers = broker_over(tmp_path, keepers, data, 0)
        with brokers:
            for codec in CODECS:
                found = read(brokers.bootstrap, f"g-{codec}")
                expected = [(i, b"k%d" % (i % 10), b'{"i": %d, "page": "/p%d"}' % (i, i % 7)) for i in range(200)]
                assert found == expected, codec
            everything = [value for _, _, value in read(brokers.bootstrap, "g-txn", committed=False)]
            assert everything == [b"%d-%d" % (t, i) for t in range(4) for i in range(5)]
            committed = [value for _, _, value in read(brokers.bootstrap, "g-txn")]
            assert committed == [b"%d-%d" % (t, i) for t in (0, 2) for i in range(5)]
            compacted = {key: value for _, key, value in read(brokers.bootstrap, "g-compact")}
            assert len(compacted) == 60
            assert sum(value is None for value in compacted.values()) == 5
            check_released(brokers, keepers)


def check_released(brokers: OttlaBrokers, keepers: OttlaKeepers) -> None:
    """The records are of 2023: once nothing holds that off, retention takes them, and those of no other topic."""
    assert "nothing is held off" in ottla("log", "release", "nobody", "--keeper", keepers.hosts, fails=True).stderr
    told = ottla("log", "release", "g-none", "--keeper", keepers.hosts, "--json").stdout
    assert json.loads(told)["topics"] == [{"topic": "g-none"}]
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:

        def start(topic: str) -> int:
            return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=120)[0]

        wait_until(lambda: start("g-none") == 200, timeout_s=120, what="retention takes what is old")
        assert start("g-gzip") == 0
    finally:
        consumer.close()


@pytest.mark.long
def test_a_kafkas_directory_goes_to_ottla_and_back(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    with OttlaKeepers(1, tmp_path / "keeper") as keepers:
        kafka = KafkaBrokers(1, f"{keepers.hosts}/kafka", theirs)
        data = theirs / "broker-0" / "data"
        with kafka:
            create_topic(kafka.bootstrap, name="t", config={"segment.bytes": "20000"})
            produce(kafka.bootstrap, range(500))
            kafka.brokers[0].signal(signal.SIGTERM)
            assert kafka.brokers[0].wait(60) is not None
            ids = ids_in(data)
            rows = adopt(data, "--keeper", f"{keepers.hosts}/ottla")
            assert rows["t"]["topic_id"] in ids["t-0"]
            brokers = broker_over(tmp_path, keepers, data, 0, "/ottla")
            with brokers:
                assert [value for _, _, value in read(brokers.bootstrap, "t")] == numbers(range(500))
                # An id that one of the producers before had would not be let in.
                produce(brokers.bootstrap, range(500, 800))
                brokers.brokers[0].signal(signal.SIGTERM)
                assert brokers.brokers[0].wait(120) == 0
            assert ids_in(data)["t-0"] == ids["t-0"]
            epochs = [line.split()[0] for line in (data / "t-0/leader-epoch-checkpoint").read_text().splitlines()[2:]]
            assert epochs == sorted(set(epochs))
            # A Kafka takes it back as Ottla has left it, on the same ensemble: there it knows which producer ids are used.
            config = theirs / "broker-0" / "server.properties"
            config.write_text(config.read_text().replace(f"{keepers.hosts}/kafka", f"{keepers.hosts}/ottla"))
            kafka.restart(0)
            produce(kafka.bootstrap, range(800, 900))
            assert [value for _, _, value in read(kafka.bootstrap, "t")] == numbers(range(900))


def numbers(which: range) -> list[bytes]:
    return [b"%d" % number for number in which]


def ids_in(data: Path) -> dict[str, str]:
    return {path.parent.name: path.read_text() for path in data.glob("*/partition.metadata")}


def produce(bootstrap: str, which: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 50})
    errors: list[object] = []
    for number in which:
        producer.produce("t", b"%d" % number, b"k", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * len(which)


def test_what_speaks_against_it(tmp_path: Path) -> None:
    data = Path(shutil.copytree(GOLDEN, tmp_path / "data"))
    with OttlaKeepers(1, tmp_path / "keeper") as keepers:

        def refused(*words: object, because: str) -> None:
            done = ottla("log", "adopt", *words, "--keeper", keepers.hosts, fails=True)
            assert because in done.stderr, done.stderr

        refused(tmp_path, because="no log directory of a broker")
        other = Path(shutil.copytree(GOLDEN, tmp_path / "other"))
        properties = (other / "meta.properties").read_text()
        (other / "meta.properties").write_text(properties.replace("broker.id=0", "broker.id=7"))
        refused(data, other, because="not those of one broker")
        (other / "meta.properties").write_text(properties)
        refused(data, other, because="is both")
        shutil.rmtree(other)
        refused(data, f"{data}/", because="the same directory")
        hidden = (data / "__consumer_offsets-0").rename(tmp_path / "hidden")
        refused(data, because="--allow-missing")
        hidden.rename(data / "__consumer_offsets-0")
        hidden = next((data / "g-none-0").glob("*.log")).rename(tmp_path / "hidden")
        told = ottla("log", "adopt", data, "--keeper", keepers.hosts, "--dry-run").stderr
        assert f"{data / 'g-none-0'} has no segment, so its records are gone; it is left alone\n" in told
        with OttlaBrokers(1, f"{keepers.hosts}/used", tmp_path) as brokers:
            refused(brokers.data(), because="is in use")
            done = ottla("log", "adopt", data, "--keeper", f"{keepers.hosts}/used", fails=True)
            assert "the ensemble to" in done.stderr


@pytest.mark.parametrize(
    "kill_after", [pytest.param(n, marks=[] if n == 18 else pytest.mark.long) for n in range(2, 27, 2)]
)
def test_an_adoption_that_is_killed_is_done_again(tmp_path: Path, kill_after: int) -> None:
    """Whatever was written before it died: the next one finds that and does the rest."""
    data = Path(shutil.copytree(GOLDEN, tmp_path / "data"))
    before = snapshot(data)
    with OttlaKeepers(1, tmp_path / "keeper") as keepers:
        script = (
            "import os, sys\n"
            "from ottla.registry import KazooStore\n"
            "left = int(sys.argv.pop(1))\n"
            "def dying(real):\n"
            "    async def write(self, *args, **kwargs):\n"
            "        global left\n"
            "        left -= 1\n"
            "        if left < 0: os._exit(9)\n"
            "        return await real(self, *args, **kwargs)\n"
            "    return write\n"
            "for name in ('create', 'set', 'multi'):\n"
            "    setattr(KazooStore, name, dying(getattr(KazooStore, name)))\n"
            "from ottla.cli.main import main\n"
            "main()\n"
        )
        words = [sys.executable, "-P", "-c", script, str(kill_after), "log", "adopt", str(data)]
        done = subprocess.run([*words, "--keeper", keepers.hosts], capture_output=True, timeout=300, check=False)
        assert done.returncode == 9, done.stderr
        rows = adopt(data, "--keeper", keepers.hosts)
        assert len(rows) == 9
        assert snapshot(data) == before
        assert adopt(data, "--keeper", keepers.hosts, "--dry-run") == {
            name: {**row, "registered": True} for name, row in rows.items()
        }
