"""Apache Kafka 3.9.1 brokers under our controller: they take its orders, and Kafka's own tools find nothing amiss.

Our broker starts first, so that it is elected. It holds no replicas here: what happens is between its controller and the
brokers of Apache.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.registry import KazooStore
from tests.compat.test_registry_with_kafka import tree
from tests.peers import OttlaKeepers, maven
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import JAVA, LIBRARIES, KafkaBrokers
from tests.peers.processes import wait_until

CONTROLLER = 100
TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"

Partitions = dict[int, tuple[int, list[int], set[int]]]
"""Leader, replicas and ISR of each partition."""


class Mixed(NamedTuple):
    ours: OttlaBrokers
    kafka: KafkaBrokers
    admin: AdminClient
    folder: Path

    def partitions(self, topic: str) -> Partitions:
        """Nothing if there is no answer soon: the broker that was asked may be one that was killed meanwhile."""
        try:
            found = self.admin.list_topics(timeout=5).topics.get(topic)
        except KafkaException:
            found = None
        if found is None:
            return {}
        return {each.id: (each.leader, list(each.replicas), set(each.isrs)) for each in found.partitions.values()}

    def until(self, topic: str, ready: Callable[[Partitions], bool], what: str) -> Partitions:
        def look() -> Partitions | None:
            found = self.partitions(topic)
            return found if found and ready(found) else None

        return wait_until(look, timeout_s=60, what=what, interval_s=0.2)

    def create(self, topic: str, *replicas: list[int]) -> None:
        wanted = NewTopic(topic, num_partitions=len(replicas), replica_assignment=list(replicas))
        self.admin.create_topics([wanted])[topic].result(120)
        self.until(
            topic,
            lambda now: len(now) == len(replicas) and all(leader >= 0 for leader, _, _ in now.values()),
            f"{topic} is known",
        )

    def produce(self, topic: str, values: range) -> None:
        """Every record is acknowledged by all replicas in sync."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "acks": "all", "enable.idempotence": True})
        partitions = len(self.until(topic, bool, f"{topic} is known"))
        for value in values:
            producer.produce(topic, str(value), partition=value % partitions, on_delivery=delivered)
        assert producer.flush(60) == 0
        assert not failed

    def read(self, topic: str, count: int) -> list[int]:
        consumer = Consumer(
            {"bootstrap.servers": self.kafka.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in self.until(topic, bool, f"{topic} is known")])
        found: list[int] = []

        def enough() -> bool:
            for message in consumer.consume(1000, timeout=0.5):
                value = message.value()
                assert value is not None
                found.append(int(value))
            return len(found) >= count

        wait_until(enough, timeout_s=60, what=f"{count} records are read", interval_s=0)
        consumer.close()
        return sorted(found)

    def tool(self, name: str, *words: object) -> str:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        command = [*JAVA, quiet, "-cp", maven.class_path(LIBRARIES), name, "--bootstrap-server", self.kafka.bootstrap]
        done = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    with (
        OttlaKeepers(1, tmp_path) as keepers,
        OttlaBrokers(1, keepers.hosts, tmp_path, settings={"broker.id": str(CONTROLLER)}) as ours,
        KafkaBrokers(3, keepers.hosts, tmp_path, settings={"controlled.shutdown.enable": "true"}) as kafka,
    ):
        yield Mixed(ours, kafka, AdminClient({"bootstrap.servers": kafka.bootstrap}), tmp_path)


@pytest.mark.long
def test_kafka_brokers_take_the_orders_of_our_controller(mixed: Mixed) -> None:
    assert mixed.admin.list_topics(timeout=120).controller_id == CONTROLLER
    mixed.create("t", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    expected = {
        0: (0, [0, 1, 2], {0, 1, 2}),
        1: (1, [1, 2, 0], {0, 1, 2}),
        2: (2, [2, 0, 1], {0, 1, 2}),
    }
    # Whichever broker is asked: some hear of it later than others.
    mixed.until("t", lambda now: now == expected, "it is made as it was asked for")
    mixed.produce("t", range(300))

    # One dies: the next in sync leads, and it leaves the ISRs.
    mixed.kafka.kill(1)
    found = mixed.until(
        "t", lambda now: all(1 not in isr and leader >= 0 for leader, _, isr in now.values()), "broker 1 is left out"
    )
    assert found[1][0] == 2
    mixed.produce("t", range(300, 600))

    # It comes back, catches up, and leads again when asked to. ISRs grow by AlterPartition.
    mixed.kafka.restart(1)
    mixed.until("t", lambda now: all(len(isr) == 3 for _, _, isr in now.values()), "broker 1 is in sync")
    mixed.tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    assert [leader for leader, _, _ in mixed.partitions("t").values()] == [0, 1, 2]

    # One is stopped with care: others lead before it goes, not when its session ends.
    mixed.kafka.brokers[2].stop(timeout_s=60)
    found = mixed.until("t", lambda now: all(2 not in isr for _, _, isr in now.values()), "broker 2 has left")
    assert found[2][0] == 0
    mixed.produce("t", range(600, 900))
    mixed.kafka.restart(2)
    mixed.until("t", lambda now: all(len(isr) == 3 for _, _, isr in now.values()), "broker 2 is in sync")

    assert mixed.read("t", 900) == list(range(900))


@pytest.mark.long
def test_partitions_move_between_kafka_brokers_and_topics_go(mixed: Mixed) -> None:
    mixed.create("m", [0, 1], [1, 2])
    mixed.produce("m", range(200))
    plan = mixed.folder / "plan.json"
    moves = [{"topic": "m", "partition": 0, "replicas": [2, 1]}, {"topic": "m", "partition": 1, "replicas": [0, 1, 2]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    mixed.tool(REASSIGN, "--reassignment-json-file", plan, "--execute")
    found = mixed.until(
        "m",
        lambda now: now[0][1:] == ([2, 1], {1, 2}) and now[1][1:] == ([0, 1, 2], {0, 1, 2}),
        "the partitions have moved",
    )
    assert found[0][0] in (1, 2)
    said = mixed.tool(REASSIGN, "--reassignment-json-file", plan, "--verify", "--preserve-throttles")
    assert "Reassignment of partition m-0 is completed." in said
    assert "Reassignment of partition m-1 is completed." in said
    wait_until(lambda: not list(_folders(mixed, 0, "m-0")), timeout_s=120, what="the replica that moved away is gone")
    assert mixed.read("m", 200) == list(range(200))

    mixed.tool(TOPICS, "--alter", "--topic", "m", "--partitions", "3")
    mixed.until("m", lambda now: len(now) == 3 and all(leader >= 0 for leader, _, _ in now.values()), "it has grown")
    mixed.tool(TOPICS, "--delete", "--topic", "m")
    wait_until(lambda: not mixed.partitions("m"), timeout_s=120, what="the topic is gone")
    wait_until(
        lambda: not [folder for number in range(3) for folder in _folders(mixed, number, "m-")],
        timeout_s=120,
        what="its replicas are gone",
    )


@pytest.mark.long
def test_brokers_of_both_kinds_replicate_each_other_whoever_dies(tmp_path: Path) -> None:
    """Two of ours and one of Apache's hold every partition; each kind dies, and so does the controller."""
    with (
        OttlaKeepers(1, tmp_path) as keepers,
        OttlaBrokers(2, keepers.hosts, tmp_path) as ours,
        KafkaBrokers(1, keepers.hosts, tmp_path, settings={"controlled.shutdown.enable": "true"}) as kafka,
    ):
        admin = AdminClient({"bootstrap.servers": f"{kafka.bootstrap},{ours.bootstrap}"})
        mixed = Mixed(ours, kafka, admin, tmp_path)
        mixed.create("t", [0, 1, 2], [1, 2, 0], [2, 0, 1])
        mixed.produce("t", range(300))

        def left_out(broker: int) -> None:
            mixed.until(
                "t",
                lambda now: all(leader >= 0 and broker not in isr for leader, _, isr in now.values()),
                f"broker {broker} is left out",
            )

        def all_in_sync() -> None:
            mixed.until("t", lambda now: all(len(isr) == 3 for _, _, isr in now.values()), "all are in sync")

        ours.kill(1)
        left_out(2)
        mixed.produce("t", range(300, 600))
        ours.start(1)
        all_in_sync()
        kafka.brokers[0].stop(timeout_s=60)
        left_out(0)
        kafka.restart(0)
        all_in_sync()
        ours.kill(0)
        left_out(1)
        assert mixed.admin.list_topics(timeout=120).controller_id != 1
        mixed.produce("t", range(600, 900))
        ours.start(0)
        all_in_sync()
        assert mixed.read("t", 900) == list(range(900))
        words = ["cluster", "verify-replicas", "t", "-b", f"{kafka.bootstrap},{ours.bootstrap}", "--format", "jsonl"]
        said = subprocess.run(
            [sys.executable, "-m", "ottla", *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert said.stdout.count('"the same"') == 3, said.stdout + said.stderr


@pytest.mark.long
def test_the_znodes_of_our_controller_are_those_of_an_apache_controller(tmp_path: Path) -> None:
    settings = {"auto.leader.rebalance.enable": "false"}
    with (
        OttlaKeepers(1, tmp_path / "k1") as keepers,
        OttlaBrokers(1, keepers.hosts, tmp_path / "ours", settings={"broker.id": str(CONTROLLER), **settings}) as ours,
        KafkaBrokers(3, keepers.hosts, tmp_path / "under-ours", settings=settings) as kafka,
    ):
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        by_ours = _after_everything(Mixed(ours, kafka, admin, tmp_path / "under-ours"), keepers)
    with (
        OttlaKeepers(1, tmp_path / "k2") as keepers,
        KafkaBrokers(3, keepers.hosts, tmp_path / "alone", settings=settings) as kafka,
    ):
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        by_theirs = _after_everything(Mixed(ours, kafka, admin, tmp_path / "alone"), keepers)
    assert by_ours == by_theirs


def _after_everything(mixed: Mixed, keepers: OttlaKeepers) -> dict[str, bytes]:
    """What operators do and what fails, and then the znodes, without what differs from one cluster to the next."""
    mixed.create("t", [0, 1, 2], [1, 2, 0])
    mixed.create("gone", [0, 1])
    mixed.produce("t", range(50))
    mixed.tool(TOPICS, "--alter", "--topic", "t", "--partitions", "3", "--replica-assignment", "0:1:2,1:2:0,2:0:1")
    mixed.tool(TOPICS, "--delete", "--topic", "gone")
    plan = mixed.folder / "plan.json"
    moves = [{"topic": "t", "partition": 0, "replicas": [1, 2]}, {"topic": "t", "partition": 1, "replicas": [2, 0, 1]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    mixed.tool(REASSIGN, "--reassignment-json-file", plan, "--execute")
    mixed.until("t", lambda now: now[0][1] == [1, 2] and now[1][1] == [2, 0, 1], "the partitions have moved")
    mixed.kafka.kill(0)
    mixed.until("t", lambda now: all(0 not in isr for _, _, isr in now.values()), "broker 0 is left out")
    mixed.kafka.restart(0)
    mixed.until("t", lambda now: all(len(isr) == len(replicas) for _, replicas, isr in now.values()), "all in sync")
    mixed.tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    mixed.until("t", lambda now: all(leader == replicas[0] for leader, replicas, _ in now.values()), "leaders are back")

    async def read() -> dict[str, bytes]:
        async with KazooStore(keepers.hosts) as store:
            found: dict[str, bytes] = {}
            for root in ("/brokers/topics", "/admin", "/config/topics", "/isr_change_notification", "/feature"):
                found |= await tree(store, root)
            return found

    return {path: _comparable(data) for path, data in asyncio.run(read()).items()}


def _comparable(data: bytes) -> bytes:
    """Ids are drawn, and how often a controller began a new epoch on the way is its own affair."""
    without_ids = re.sub(rb'"topic_id":"[^"]*"', b'"topic_id":"..."', data)
    return re.sub(rb'"(leader_epoch|controller_epoch)":\d+', rb'"\1":0', without_ids)


def _folders(mixed: Mixed, number: int, prefix: str) -> Iterator[Path]:
    """What a broker holds of a topic, apart from what waits to be removed from its disk."""
    data = mixed.folder / f"broker-{number}" / "data"
    return (each for each in data.iterdir() if each.name.startswith(prefix) and not each.name.endswith("-delete"))
