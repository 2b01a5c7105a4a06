"""Producers whose every acknowledgement is remembered, and the check that nothing acknowledged is lost, moved or doubled.

The clients are librdkafka's: idempotent producers that send numbers, each to partitions of its own, and a fresh consumer
afterwards. A number's fate is known, *acknowledged* at an offset, or not known: its producer was ended before. What a
partition holds must then be, for every producer, its numbers from 0 on in their order, each once, up to the last that was
acknowledged at least; and what was acknowledged lies at the offset that was told.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from itertools import count

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.chaos.anomalies import NOWHERE
from tests.peers.brokers import OttlaBrokers
from tests.peers.maven import CHECKOUT

TOPIC = "kept"
READ_S = 120


def create_topic(
    bootstrap: str,
    *,
    partitions: int = 1,
    replicas: int = 1,
    name: str = TOPIC,
    config: dict[str, str] | None = None,
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    made = admin.create_topics([NewTopic(name, partitions, replicas, config=config or {})], request_timeout=60)
    made[name].result(timeout=120)


def sabotaged(brokers: OttlaBrokers, mistake: str | None) -> OttlaBrokers:
    """The same brokers with one mistake in each (see ``sabotage``), or none."""
    for process in brokers.brokers if mistake is not None else []:
        process.command = [sys.executable, "-m", "tests.chaos.sabotage", str(mistake), *process.command[-2:]]
        process.env["PYTHONPATH"] = str(CHECKOUT)
    return brokers


class Writer:
    """One producer in a thread of its own, which writes numbers to one partition until it is told to stop."""

    def __init__(
        self,
        bootstrap: str,
        partition: int,
        *,
        name: str,
        pause_s: float = 0.0,
        topic: str = TOPIC,
        timeout_s: int = 120,
    ) -> None:
        self.partition = partition
        self.name = name
        self.acked: dict[int, int] = {}
        """Number to offset, or ``NOWHERE``."""
        self.errors: list[str] = []
        self._topic = topic
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.size": 16384,
                "message.timeout.ms": timeout_s * 1000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, wait_s: float = 60) -> None:
        """Sends nothing more, and waits until the fate of everything is known."""
        self._stopping.set()
        self._thread.join(120)
        try:
            assert self._producer.flush(wait_s) == 0, f"{self.name}: not everything was acknowledged"
        except (KafkaException, SystemError) as error:  # the latter is how it tells of a fatal one
            self.errors.append(str(error))

    def wait_acked(self, more: int) -> None:
        """Until so many more are acknowledged than are now."""
        target = len(self.acked) + more
        deadline = time.monotonic() + 120
        while len(self.acked) < target:
            if self.errors:
                return  # the check tells
            assert time.monotonic() < deadline, f"{self.name}: nothing is acknowledged any more"
            time.sleep(0.01)

    def _run(self) -> None:
        try:
            for number in count():
                if self._stopping.is_set():
                    return
                self._send(number)
        except KafkaException as error:
            self.errors.append(str(error))

    def _send(self, number: int) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=f"{self.name} {number}".encode() + b"." * (number % 97),
                    partition=self.partition,
                    on_delivery=self._delivered(number),
                )
                break
            except BufferError:
                self._producer.poll(0.05)
        self._producer.poll(0)
        if self._pause_s:
            time.sleep(self._pause_s)

    def _delivered(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.errors.append(str(error))
                return
            self.acked[number] = place_of(message)

        return told


def place_of(message: Message) -> int:
    """Where an acknowledged record is.

    librdkafka may know that it is there, and once, but not where: when it was sent again, the broker remembered of it only that it
    came before the last ones.
    """
    offset = message.offset()
    return NOWHERE if offset is None else offset


def read_all(bootstrap: str, partition: int, *, topic: str = TOPIC) -> list[tuple[int, str]]:
    """Offset and text of every record, by a client that knows nothing."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "fresh",
            "enable.auto.commit": False,
            "check.crcs": True,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: list[tuple[int, str]] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + READ_S
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return found
                    raise AssertionError(f"partition {partition}: {error}")
                value, offset = message.value(), message.offset()
                assert value is not None
                assert offset is not None
                found.append((offset, value.decode().rstrip(".")))
    finally:
        consumer.close()
    raise AssertionError(f"partition {partition} could not be read to its end")


def check_partition(found: list[tuple[int, str]], writers: list[Writer]) -> None:
    """See the module."""
    assert [offset for offset, _ in found] == list(range(len(found))), "offsets do not follow each other"
    by_offset = dict(found)
    texts = set(by_offset.values())
    for writer in writers:
        for number, offset in writer.acked.items():
            text = f"{writer.name} {number}"
            there = text in texts if offset == NOWHERE else by_offset.get(offset) == text
            assert there, f"{writer.name}: {number} was acknowledged"
        numbers = [int(text.split()[1]) for _, text in found if text.split()[0] == writer.name]
        assert not writer.errors, f"{writer.name}: {len(writer.errors)} were refused: {writer.errors[0]}"
        assert numbers == list(range(len(numbers))), f"{writer.name}: lost, doubled or out of order"
