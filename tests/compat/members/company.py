"""A group of members of all kinds, and what can be said of it afterwards: guarantees G1 to G4 of a group."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from ottla.coordinator.groups.formats import GroupCodec, GroupRecord, OffsetRecord, Stored
from ottla.wire import decode
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tests.peers.builds import go_program, java_classes, node_program
from tests.peers.maven import CHECKOUT
from tests.peers.processes import Process, wait_until

HERE = Path(__file__).parent
QUIET: dict[str, Any] = {"log_level": 0}


def _python(module: str) -> Callable[[], Sequence[str | Path]]:
    return lambda: [sys.executable, "-m", f"tests.compat.members.{module}"]


def _java() -> Sequence[str | Path]:
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx200m")
    return ["java", *quick, "-cp", java_classes(HERE / "Member.java", "kafka-3.9.1"), "Member"]


KINDS: dict[str, Callable[[], Sequence[str | Path]]] = {
    "librdkafka": _python("librdkafka"),
    "kafka-python": _python("kafkapython"),
    "aiokafka": _python("aio"),
    "java": _java,
    "franz-go": lambda: [go_program(HERE.parent / "clients" / "go", "member")],
    "kafkajs": lambda: node_program(HERE / "js", "member.js"),
}
"""By the client id that a member goes by."""


@dataclass
class Member:
    kind: str
    process: Process

    def said(self) -> list[dict[str, Any]]:
        """All that it has said so far; a line that is not whole yet is left for later, and noise is passed over."""
        lines = self.process.log.read_text(errors="replace").split("\n")[:-1]
        found = []
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict):
                found.append(told)
        return found

    def read(self) -> set[int]:
        return {each["read"][2] for each in self.said() if "read" in each}

    def committed(self) -> list[tuple[int, int]]:
        """Partition and offset of every commit that was acknowledged, in order."""
        pairs = (each["committed"].items() for each in self.said() if "committed" in each)
        return [(int(partition), offset) for pair in pairs for partition, offset in pair]


class Company:
    """The members of one group over one topic, and a producer that numbers its records."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, group: str, folder: Path, assignor: str = "range"
    ) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.group = group
        self.assignor = assignor
        self.members: list[Member] = []
        self.produced = 0
        self._folder = folder
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, **QUIET})

    def start(self, kind: str) -> Member:
        log = self._folder / f"{kind}-{len(self.members)}.log"
        process = Process(
            [*KINDS[kind](), self.bootstrap, self.topic, self.group, self.assignor], log=log, cwd=CHECKOUT
        )
        process.start()
        member = Member(kind, process)
        self.members.append(member)
        return member

    def produce(self, count: int) -> None:
        for number in range(self.produced, self.produced + count):
            self._producer.produce(self.topic, b"%d" % number, partition=number % self.partitions)
        left = self._producer.flush(60)
        assert not left, f"{left} records were not delivered"
        self.produced += count

    def describe(self) -> ConsumerGroupDescription | None:
        # A new client each time: librdkafka's goes on believing what it was told while a coordinator loaded.
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        try:
            described = admin.describe_consumer_groups([self.group], request_timeout=30)
            found: ConsumerGroupDescription = described[self.group].result(timeout=120)
        except (KafkaException, TimeoutError):
            return None
        return found

    def wait_settled(self, kinds: Sequence[str]) -> None:
        """Until exactly these are in it, all partitions are shared out, and everybody has some."""

        def settled() -> bool:
            found = self.describe()
            if found is None or found.state is not ConsumerGroupState.STABLE:
                return False
            shares = [[each.partition for each in member.assignment.topic_partitions] for member in found.members]
            taken = sorted(each for share in shares for each in share)
            there = sorted(str(member.client_id) for member in found.members)
            return there == sorted(kinds) and taken == list(range(self.partitions)) and all(shares)

        self._wait(settled, f"{sorted(kinds)} share {self.partitions} partitions")

    def wait_all_read(self) -> None:
        wanted = set(range(self.produced))
        self._wait(lambda: wanted <= set().union(*(member.read() for member in self.members)), "all is read")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        try:
            wait_until(condition, timeout_s=300, what=what, interval_s=0.2)
        except TimeoutError as error:
            ends = "\n".join(f"-- {member.kind}: {member.process.tail(8)}" for member in self.members)
            raise TimeoutError(f"{error}\n{self.describe()}\n{ends}") from None

    def committed(self) -> dict[int, int]:
        """What the group is told that it has committed."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, **QUIET})
        try:
            places = [TopicPartition(self.topic, number) for number in range(self.partitions)]
            return {each.partition: each.offset for each in consumer.committed(places, timeout=60)}
        finally:
            consumer.close()

    def stop(self) -> None:
        for member in self.members:
            member.process.stop(120)

    # What is in the log.

    def stored(self) -> Iterator[Stored]:
        """Everything that was written about the group, in order."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "auditor", "enable.partition.eof": True, **QUIET}
        )
        try:
            count = len(consumer.list_topics("__consumer_offsets", timeout=120).topics["__consumer_offsets"].partitions)
            consumer.assign([TopicPartition("__consumer_offsets", number, 0) for number in range(count)])
            left = set(range(count))
            while left:
                for message in consumer.consume(500, 5):
                    if (error := message.error()) is not None:
                        if error.code() == KafkaError._PARTITION_EOF:
                            left.discard(message.partition() or 0)
                        continue
                    record = GroupCodec().decode(message.key() or b"", message.value())
                    if record is not None and record.group_id == self.group:
                        yield record
        finally:
            consumer.close()

    def check_log(self) -> None:
        """G1: what is committed never goes back, as no client here rewinds. G2: no partition has two owners."""
        committed: dict[tuple[str, int], int] = {}
        generations = 0
        for record in self.stored():
            if isinstance(record, OffsetRecord) and record.value is not None:
                where = (record.topic, record.partition)
                assert record.value.offset >= committed.get(where, 0), f"{record} after {committed[where]}"
                committed[where] = record.value.offset
            elif isinstance(record, GroupRecord) and record.value is not None and record.value.members:
                owned = [number for member in record.value.members for number in _assigned(member.assignment)]
                assert len(owned) == len(set(owned)), f"a partition has two owners: {record}"
                generations += 1
        assert generations > 0
        assert {where[1] for where in committed} == set(range(self.partitions))

    def check_acknowledged(self) -> None:
        """G1 and G4: no commit that was acknowledged is lost."""
        acknowledged = [(member.kind, *each) for member in self.members for each in member.committed()]
        committed = self.committed()  # afterwards, since members go on
        for kind, partition, offset in acknowledged:
            assert committed[partition] >= offset, f"{kind} had {partition} committed at {offset}: {committed}"


def _assigned(assignment: bytes) -> list[int]:
    if len(assignment) < 2:
        return []
    version = int.from_bytes(assignment[:2], "big")
    found = decode(ConsumerProtocolAssignment, min(version, 3), assignment, 2)
    return [number for topic in found.assigned_partitions for number in topic.partitions]
