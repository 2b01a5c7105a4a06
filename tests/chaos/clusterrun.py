"""One run of a cluster under faults: producers, readers, a nemesis, and the verdict at the end.

    run(folder, seed=7, seconds=90)

Everybody stops once the time is over; whatever is broken is mended; a client that knows nothing reads everything. What was
seen must be a history without an anomaly (``anomalies``), all replicas must have the same bytes, and all brokers must agree.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.chaos.anomalies import Anomaly, Records, anomalies
from tests.chaos.cluster import BROKERS, ClusterOnIslands
from tests.chaos.nemesis import Nemesis
from tests.chaos.records import TOPIC, Writer, create_topic, place_of, read_all
from tests.peers import wait_until

PARTITIONS = 3
WRITERS = 4
READERS = 2
PACE_S = 0.01
DISK_BYTES = 64 << 20
DISK_BYTES_PER_S = 300_000
SHOWN = 20


class Outcome(NamedTuple):
    faults: list[str]
    acked: int
    polled: int
    anomalies: list[Anomaly]

    @property
    def kinds(self) -> Counter[str]:
        return Counter(kind for kind, _ in self.anomalies)

    def __str__(self) -> str:
        found = "\n".join(f"{kind}: {what}" for kind, what in self.anomalies[:SHOWN])
        kinds = f" ({_counted(self.kinds)})" if self.anomalies else ""
        head = f"{self.acked} acknowledged, {self.polled} read, {len(self.anomalies)} anomalies{kinds}; "
        head += _counted(Counter(self.faults))
        return f"{head}\n{found}" if found else head


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(names.items()))


class RecordingWriter(Writer):
    """A producer whose history is kept, with what was known to be there when a record was sent."""

    def __init__(self, records: Records, bootstrap: str, partition: int, *, name: str) -> None:
        self._records = records
        super().__init__(bootstrap, partition, name=name, pause_s=PACE_S, timeout_s=900)

    def _delivered(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        floor, remember = self._records.floor(self.partition), super()._delivered(number)
        text = f"{self.name} {number}"

        def told(error: KafkaError | None, message: Message) -> None:
            remember(error, message)
            if error is None:
                self._records.acked(self.name, self.partition, place_of(message), text, floor)
            else:
                self._records.happened("refused", self.name, partition=self.partition, text=str(error))

        return told


class Reader(threading.Thread):
    """Reads every partition from its beginning, for as long as the run lasts."""

    def __init__(self, records: Records, bootstrap: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._records = records
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        self._consumer.close()

    def run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, 0.2):
                self._take(message)

    def _take(self, message: Message) -> None:
        error, partition = message.error(), message.partition()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:  # the others are mended by asking again, which it does
                self._records.happened("refused", self.name, text=str(error))
            return
        offset, value = message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        text = value.decode().rstrip(".")
        self._records.happened("polled", self.name, partition=partition, offset=offset, text=text)


def run(
    folder: Path,
    *,
    seed: int,
    seconds: float,
    is_kafka: bool = False,
    on_zookeeper: bool = False,
    mistake: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    records, faults = Records(), list[str]()
    size = DISK_BYTES + int(seconds * DISK_BYTES_PER_S)
    cluster = ClusterOnIslands(folder, disk_bytes=size, is_kafka=is_kafka, on_zookeeper=on_zookeeper, mistake=mistake)

    def struck(fault: str) -> None:
        faults.append(fault)
        records.happened("note", "nemesis", text=fault)
        say(fault)

    with cluster.running():
        with cluster.on_the_hub():
            create_topic(cluster.bootstrap, partitions=PARTITIONS, replicas=BROKERS)
            writers = [
                RecordingWriter(records, cluster.bootstrap, number % PARTITIONS, name=f"w{number}")
                for number in range(WRITERS)
            ]
            readers = [Reader(records, cluster.bootstrap, f"r{number}") for number in range(READERS)]
        for writer in writers:
            writer.start()
        for reader in readers:
            reader.start()
        try:
            found = _torment(cluster, seed, seconds, struck)
            found += _settled(cluster, writers, patience_s=10 if found else 300)
            found += _verdict(cluster, records)
        finally:
            for reader in readers:
                reader.stop()
            records.write(folder / "history.jsonl")
    acked, polled = (sum(event.f == f for event in records.events) for f in ("acked", "polled"))
    return Outcome(faults, acked, polled, found)


def _torment(cluster: ClusterOnIslands, seed: int, seconds: float, say: Callable[[str], object]) -> list[Anomaly]:
    """One fault after the other until the time is over, or the cluster does not recover any more."""
    nemesis, deadline = Nemesis(cluster, Random(seed)), time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            say(nemesis.strike())
    except TimeoutError as error:
        return [Anomaly("unhealed", str(error))]
    return []


def _settled(cluster: ClusterOnIslands, writers: list[RecordingWriter], *, patience_s: float) -> list[Anomaly]:
    """All is well again, everything that was sent has its answer, and all is well still."""
    found = []
    try:
        cluster.wait_in_sync(timeout_s=patience_s)
        for writer in writers:
            writer.stop(wait_s=patience_s)
        cluster.wait_in_sync(timeout_s=patience_s)
    except TimeoutError as error:
        found.append(Anomaly("unhealed", str(error)))
    except AssertionError as error:
        found.append(Anomaly("refused", str(error)))
    return found + [Anomaly("refused", f"{each.name}: {error}") for each in writers for error in each.errors[:1]]


def _verdict(cluster: ClusterOnIslands, records: Records) -> list[Anomaly]:
    try:
        with cluster.on_the_hub():
            final = {number: read_all(cluster.bootstrap, number) for number in range(PARTITIONS)}
    except AssertionError as error:
        return [Anomaly("unseen", str(error))]
    ends = {number: len(found) for number, found in final.items()}

    def readers_are_done() -> bool:
        polled = [event for event in records.events if event.f == "polled"]
        return len(polled) >= READERS * sum(ends.values())

    found = []
    try:
        wait_until(readers_are_done, timeout_s=300, what="readers are at the end", interval_s=0.5)
    except TimeoutError as error:
        found.append(Anomaly("unseen", str(error)))
    found += anomalies(records.events, final)
    for number in range(PARTITIONS):
        try:
            wait_until(lambda n=number: len(set(cluster.logs(n))) == 1, timeout_s=120, what="alike")  # type: ignore[misc]
        except TimeoutError:
            sizes = [len(log) for log in cluster.logs(number)]
            found.append(Anomaly("divergent-replicas", f"partition {number}: {sizes} bytes"))
    return found
