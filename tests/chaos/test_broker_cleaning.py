"""Brokers that clean all the time: killed while they do, under load, out of luck with a file, or with the topic gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.log.checkpoints import read_offsets
from tests.chaos.records import create_topic
from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers

TOPIC = "states"
KEYS = 50
SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.05",
    "log.cleaner.dedupe.buffer.size": str(2 << 20),
    "log.segment.bytes": "60000",
    "log.index.interval.bytes": "2000",
    "log.segment.delete.delay.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "zookeeper.session.timeout.ms": "4000",
}
COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "0"}


class States:
    """Writes states of things, one after the other, and remembers the last of each that was acknowledged, and the newest."""

    def __init__(self, bootstrap: str) -> None:
        self.acked: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.size": 16384,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        draw = Random(5)
        number = 0
        while not self._stopping.is_set():
            number += 1
            key = f"key-{draw.randrange(KEYS)}"
            self.sent[key] = number
            self._send(key, number)
            self._producer.poll(0)
            time.sleep(0.0002)

    def _send(self, key: str, number: int) -> None:
        while True:
            try:
                self._producer.produce(TOPIC, f"{number} ".encode() * 20, key, on_delivery=self._delivered(key, number))
            except BufferError:  # the broker is away for longer than there is room for
                self._producer.poll(0.05)
            else:
                return

    def _delivered(self, key: str, number: int) -> Callable[[object, Message], None]:
        def told(error: object, _: Message) -> None:
            assert error is None
            self.acked[key] = number

        return told

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(120)
        assert self._producer.flush(60) == 0


def last_states(bootstrap: str) -> dict[str, int]:
    """What whoever reads the topic from its start knows in the end."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "check.crcs": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = {}
    while (message := consumer.poll(120)) is not None and message.error() is None:
        key, value = message.key(), message.value()
        assert key is not None
        assert value is not None
        found[key.decode()] = int(value.split()[0])
    assert message is not None, "no end of the partition"
    consumer.close()
    return found


def cleaned_to(brokers: OttlaBrokers) -> int:
    offsets = read_offsets(brokers.data() / "cleaner-offset-checkpoint")
    return {str(where): offset for where, offset in offsets.items()}.get(f"{TOPIC}-0", 0)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_broker_is_killed_while_it_cleans(tmp_path: Path) -> None:
    kill_while_cleaning(tmp_path, rounds=2)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_broker_is_killed_while_it_cleans_again_and_again(tmp_path: Path) -> None:
    kill_while_cleaning(tmp_path, rounds=50)


def kill_while_cleaning(folder: Path, *, rounds: int) -> None:
    draw = Random(rounds)
    with (
        OttlaKeepers(1, folder / "keeper") as keepers,
        OttlaBrokers(1, keepers.hosts, folder, settings=SETTINGS) as brokers,
    ):
        create_topic(brokers.bootstrap, name=TOPIC, config=COMPACTED)
        states = States(brokers.bootstrap)
        for _ in range(rounds):
            before = cleaned_to(brokers)
            wait_until(lambda before=before: cleaned_to(brokers) > before, timeout_s=60, what="it cleans")  # type: ignore[misc]
            time.sleep(draw.random() * 0.2)  # at any moment of what it does
            broker = brokers.brokers[0].pid
            workers = children(broker)
            brokers.kill(0)
            wait_until(lambda workers=workers: all(map(is_gone, workers)), timeout_s=120, what="its cleaners end")  # type: ignore[misc]
            brokers.start(0)
        states.stop()
        assert last_states(brokers.bootstrap) == states.acked == states.sent
        log = (brokers.folders[0] / "log").read_text()
        assert "is not cleaned any more" not in log
        assert "Traceback" not in log
        names = sorted(path.name for path in (brokers.data() / f"{TOPIC}-0").glob("*.log"))
        assert sum((brokers.data() / f"{TOPIC}-0" / name).stat().st_size for name in names) < 40 * 60_000


def test_a_log_that_cannot_be_cleaned_is_told_of_and_served(tmp_path: Path) -> None:
    with (
        OttlaKeepers(1, tmp_path / "keeper") as keepers,
        OttlaBrokers(1, keepers.hosts, tmp_path, settings={**SETTINGS, "log.cleaner.enable": "false"}) as brokers,
    ):
        create_topic(brokers.bootstrap, name=TOPIC, config=COMPACTED)
        states = States(brokers.bootstrap)
        first = brokers.data() / f"{TOPIC}-0" / f"{0:020d}.log"
        wait_until(lambda: len(list(first.parent.glob("*.log"))) > 3, timeout_s=120, what="there are segments")
        states.stop()
        assert cleaned_to(brokers) == 0  # it is off
        brokers.brokers[0].stop()
        data = bytearray(first.read_bytes())
        data[2000] ^= 1
        first.write_bytes(data)
        config = brokers.folders[0] / "server.properties"
        config.write_text(config.read_text().replace("log.cleaner.enable=false", "log.cleaner.enable=true"))
        brokers.start(0)
        log = brokers.folders[0] / "log"
        wait_until(lambda: "is not cleaned any more" in log.read_text(), timeout_s=120, what="it says so")
        assert first.read_bytes() == data
        assert not list(first.parent.glob("*.swap"))
        producer = Producer({"bootstrap.servers": brokers.bootstrap})
        producer.produce(TOPIC, b"1", b"after")
        assert producer.flush(120) == 0
        assert log.read_text().count("is not cleaned any more") == 1


def test_a_topic_may_go_while_it_is_cleaned(tmp_path: Path) -> None:
    slow = {**SETTINGS, "log.cleaner.io.max.bytes.per.second": "100000"}
    with (
        OttlaKeepers(1, tmp_path / "keeper") as keepers,
        OttlaBrokers(1, keepers.hosts, tmp_path, settings=slow) as brokers,
    ):
        create_topic(brokers.bootstrap, name=TOPIC, config=COMPACTED)
        states = States(brokers.bootstrap)
        broker = brokers.brokers[0].pid
        wait_until(lambda: children(broker) or None, timeout_s=120, what="it cleans")
        folder = brokers.data() / f"{TOPIC}-0"
        wait_until(lambda: list(folder.glob("*.cleaned")) or None, timeout_s=120, what="it writes")
        states.stop()
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        admin.delete_topics([TOPIC])[TOPIC].result(120)
        wait_until(lambda: not list(brokers.data().glob(f"{TOPIC}-0*")), timeout_s=120, what="it is gone")
        wait_until(lambda: not children(broker), timeout_s=120, what="nothing is cleaned any more")
        create_topic(brokers.bootstrap, name=TOPIC, config=COMPACTED)
        assert last_states(brokers.bootstrap) == {}
        log = (brokers.folders[0] / "log").read_text()
        assert "offline" not in log
        assert "Traceback" not in log
