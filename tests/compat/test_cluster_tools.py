"""``ottla cluster`` on three brokers of ours: what it plans happens, and what it says is so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.compat.page import run_page
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import JAVA
from tests.peers.processes import Process, wait_until

RECORDS = 600


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[OttlaBrokers]:
    with OttlaKeepers(1, tmp_path) as keepers, OttlaBrokers(3, keepers.hosts, tmp_path) as running:
        yield running


class Ottla:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *words: str, code: int = 0, given: str | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *words, "-b", self.bootstrap],
            input=given,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def wait_for(self, topic: str, *replicas: list[int]) -> None:
        """What the controller has decided, every broker hears in its own time, and the next command may ask any of them."""
        for address in self.bootstrap.split(","):
            admin = AdminClient({"bootstrap.servers": address})

            def told(admin: AdminClient = admin) -> bool:
                found = admin.list_topics(topic, timeout=120).topics[topic].partitions
                return [list(found[number].replicas) for number in sorted(found)] == list(replicas)

            wait_until(told, timeout_s=120, what=f"{address} says that {topic} is on {replicas}")

    def wait_agreed(self, topic: str) -> None:
        """Until every broker tells the same of a topic."""
        admins = [AdminClient({"bootstrap.servers": address}) for address in self.bootstrap.split(",")]

        def agreed() -> bool:
            told = [admin.list_topics(timeout=120) for admin in admins]
            known = [each.topics[topic].partitions if topic in each.topics else {} for each in told]
            return len({tuple((one.id, one.leader, *one.replicas) for one in each.values()) for each in known}) == 1

        wait_until(agreed, timeout_s=120, what=f"all brokers tell the same of {topic}")

    def wait_gone(self, broker: int) -> None:
        def gone() -> bool:
            # By a client of its own: one that asks a broker that is just being killed waits for it in vain.
            admin = AdminClient({"bootstrap.servers": self.bootstrap})
            try:
                return broker not in admin.list_topics(timeout=20).brokers
            except KafkaException:
                return False

        wait_until(gone, timeout_s=120, what=f"broker {broker} is gone")


def test_partitions_grow_shrink_and_leave_a_broker(brokers: OttlaBrokers) -> None:
    ottla = Ottla(brokers.bootstrap)
    ottla("topic", "create", "t", "--replica-assignment", "1:2,2:3,3:1")
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("t", str(number) * 20, partition=number % 3)
    assert producer.flush(120) == 0
    ottla("cluster", "health")

    plan = ottla("cluster", "reassign", "generate", "t", "-r", "3")
    back = ottla("cluster", "reassign", "execute", "-", "--throttle", "50000000", "--wait", given=plan)
    ottla.wait_for("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    assert ottla("cluster", "reassign", "verify", "-", given=plan).count("done") == 3
    assert ottla("cluster", "verify-replicas", "t", "--format", "jsonl").count('"the same"') == 3

    ottla("cluster", "reassign", "execute", "-", "--wait", given=back)
    ottla.wait_for("t", [1, 2], [2, 3], [3, 1])
    ottla("cluster", "drain", "3", "--wait")
    ottla.wait_for("t", [1, 2], [2, 1], [2, 1])
    assert "holds" not in ottla("cluster", "drain", "3", "--dry-run")

    # Broker 3 can go for good, and nobody misses it; without broker 2 something is wrong.
    brokers.kill(2)
    ottla.wait_gone(3)
    ottla("cluster", "health")
    brokers.kill(1)
    ottla.wait_gone(2)
    assert "is away, with replicas of 3 partitions" in ottla("cluster", "health", code=1)


def test_the_page_shows_what_the_commands_print(brokers: OttlaBrokers, tmp_path: Path) -> None:
    ottla = Ottla(brokers.bootstrap)

    def here(text: str) -> str:
        ottla.wait_agreed("orders")
        return text

    assert (
        run_page("cli.md", {"OTTLA_BOOTSTRAP": brokers.bootstrap}, tmp_path, kind="console brokers=3", here=here) == 1
    )


def test_kafkas_own_tool_finds_the_replicas_to_be_the_same(
    brokers: OttlaBrokers, kafka_libs: Path, tmp_path: Path
) -> None:
    Ottla(brokers.bootstrap)("topic", "create", "t", "-p", "1", "-r", "3")
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("t", str(number) * 20)
    assert producer.flush(120) == 0
    tool = [*JAVA, "-cp", f"{kafka_libs}/*", "org.apache.kafka.tools.ReplicaVerificationTool"]
    on = ["--broker-list", brokers.bootstrap, "--topics-include", "t", "--report-interval-ms", "500"]
    verification = Process([*tool, *on], log=tmp_path / "verification", cwd=tmp_path)
    verification.start()
    try:
        wait_until(
            lambda: f"max lag is 0 for partition t-0 at offset {RECORDS} " in verification.tail(5),
            timeout_s=120,
            what="the replicas are found to be the same up to the end",
        )
    finally:
        verification.kill()


def test_what_there_is_not_is_named(brokers: OttlaBrokers) -> None:
    ottla = Ottla(brokers.bootstrap)
    ottla("cluster", "reassign", "generate", "t", "-r", "3", code=3)
    ottla("cluster", "elect", "preferred", "t:0", code=3)
    ottla("cluster", "drain", "7", code=3)
    ottla("topic", "create", "there", "-p", "1")
    ottla("cluster", "reassign", "generate", "there", "--brokers", "9", code=3)
    plan = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}'
    ottla("cluster", "reassign", "execute", "-", given=plan, code=3)
    ottla("cluster", "reassign", "execute", "-", given="{}", code=1)
    assert ottla("cluster", "reassign", "ls", "--format", "jsonl") == ""
