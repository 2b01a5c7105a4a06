"""Replication that is throttled: what a move copies waits for the rate, and those in sync do not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from ottla.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tests.compat.brokerpair import Side
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import JAVA
from tests.peers.processes import wait_until

VALUE = b"v" * 10_000
RECORDS = 400
PIECE = 100_000
SETTINGS = {"replica.fetch.max.bytes": str(PIECE), "replica.fetch.response.max.bytes": str(PIECE)}
WATCHED_S = 4
"""A move without a throttle is over by then. One of 1,000 bytes a second would take an hour, however slow the machine."""
RATE = 1_000
PLAN = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2]}]}
LEADER = ("leader.replication.throttled.replicas", "leader.replication.throttled.rate")
FOLLOWER = ("follower.replication.throttled.replicas", "follower.replication.throttled.rate")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[OttlaBrokers]:
    with OttlaKeepers(1, tmp_path) as keepers, OttlaBrokers(2, keepers.hosts, tmp_path, settings=SETTINGS) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("t", 1, replica_assignment=[[1]])])["t"].result(120)
        produce(running, "t", RECORDS)
        yield running


def produce(brokers: OttlaBrokers, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all", "batch.size": PIECE // 2})
    for _ in range(records):
        producer.produce(topic, VALUE, partition=0)
    assert producer.flush(60) == 0


def change(brokers: OttlaBrokers, kind: ResourceType, name: str, settings: Mapping[str, str | None]) -> None:
    entries = [
        ConfigEntry(
            key,
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in settings.items()
    ]
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    for done in admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values():
        done.result(120)


def throttle(brokers: OttlaBrokers, names: tuple[str, str], replica: str | None, rate: str | None, broker: str) -> None:
    change(brokers, ResourceType.TOPIC, "t", {names[0]: replica})
    change(brokers, ResourceType.BROKER, broker, {names[1]: rate})
    for port in brokers.ports:  # one of them took the change for the topic, and the other hears of it
        wait_until(lambda at=port: told(at, names[0]) == (replica or ""), timeout_s=120, what=f"{port} has heard")  # type: ignore[misc]


def told(port: int, name: str) -> str | None:
    """What one broker says of a setting of the topic."""
    asked = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=[name])
    side = Side("ours", port)
    answer = side.ask(DescribeConfigsRequest(resources=[asked]), 4)
    side.close()
    assert isinstance(answer, DescribeConfigsResponse)
    return answer.results[0].configs[0].value


def reassign(brokers: OttlaBrokers, kafka_libs: Path, folder: Path, *words: str) -> str:
    plan = folder / "plan.json"
    plan.write_text(json.dumps(PLAN))
    command = [*JAVA, "-cp", f"{kafka_libs}/*", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"]
    command += ["--bootstrap-server", brokers.bootstrap, "--reassignment-json-file", str(plan), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def has_moved(brokers: OttlaBrokers) -> bool:
    """As every broker says: the next tool may ask any of them."""
    admins = [AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}) for port in brokers.ports]
    found = [admin.list_topics("t", timeout=120).topics["t"].partitions[0] for admin in admins]
    return all(list(each.replicas) == [2] for each in found)


def copied(brokers: OttlaBrokers) -> int:
    return sum(path.stat().st_size for path in brokers.data(1).glob("t-0/*.log"))


def check_held_back(brokers: OttlaBrokers) -> None:
    """It began, and goes no further than the rate allows; who writes does not notice."""
    wait_until(lambda: copied(brokers) > 0, timeout_s=60, what="the move begins")
    with pytest.raises(TimeoutError):
        wait_until(lambda: copied(brokers) > RECORDS * len(VALUE) // 2, timeout_s=WATCHED_S, what="half is copied")
    produce(brokers, "t", 10)
    assert not has_moved(brokers)


@pytest.mark.parametrize(("names", "broker"), [(LEADER, "1"), (FOLLOWER, "2")], ids=["leader", "follower"])
def test_either_side_alone_holds_a_move_back(brokers: OttlaBrokers, names: tuple[str, str], broker: str) -> None:
    throttle(brokers, names, f"0:{broker}", str(RATE), broker)
    command = [sys.executable, "-m", "ottla", "cluster", "reassign", "execute", "-", "-b", brokers.bootstrap]
    subprocess.run(command, input=json.dumps(PLAN), check=True, capture_output=True, text=True, timeout=300)
    check_held_back(brokers)
    throttle(brokers, names, None, None, broker)
    wait_until(lambda: has_moved(brokers), timeout_s=60, what="the move ends without a throttle")


def test_kafkas_own_tool_throttles_a_move_changes_its_mind_and_cleans_up(
    brokers: OttlaBrokers, kafka_libs: Path, tmp_path: Path
) -> None:
    said = reassign(brokers, kafka_libs, tmp_path, "--execute", "--throttle", str(RATE))
    assert "The inter-broker throttle limit was set to 1000 B/s" in said
    check_held_back(brokers)
    reassign(brokers, kafka_libs, tmp_path, "--execute", "--additional", "--throttle", "1000000000")
    wait_until(lambda: has_moved(brokers), timeout_s=60, what="the move ends with another throttle")
    said = reassign(brokers, kafka_libs, tmp_path, "--verify")
    assert "Clearing topic-level throttles on topic t" in said
    assert "is completed" in said


def test_replicas_in_sync_are_not_held_back(brokers: OttlaBrokers) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    admin.create_topics([NewTopic("both", 1, replica_assignment=[[1, 2]])])["both"].result(120)
    change(brokers, ResourceType.TOPIC, "both", {LEADER[0]: "*", FOLLOWER[0]: "*", "min.insync.replicas": "2"})
    for broker in ("1", "2"):
        change(brokers, ResourceType.BROKER, broker, {LEADER[1]: "1", FOLLOWER[1]: "1"})
    produce(brokers, "both", 50)
