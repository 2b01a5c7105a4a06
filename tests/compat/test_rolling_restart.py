"""Kafka's own producer and consumer go on through a restart of every broker, and their application is told of no error.

The tools are those of Kafka's system tests. They say of every record what became of it, and of every commit whether it was
done. Each broker is told to stop, hands over what it leads, ends by itself and comes back, one after the other.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.chaos.records import create_topic
from tests.peers import Ensemble, OttlaKeepers, RealZooKeeper, maven, wait_until
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import JAVA, LIBRARIES

TOPIC = "rolling"
BROKERS, PARTITIONS = 3, 6
PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
SETTINGS = {"min.insync.replicas": "2", "auto.leader.rebalance.enable": "false"}
RETRIES = "retries=2147483647\nenable.idempotence=true\nmax.in.flight.requests.per.connection=5\n"
"""The tool has none unless it is told to; applications have as many as it takes."""

Line = dict[str, Any]


class Tool:
    """One of Kafka's tools; what it says is a line of JSON each."""

    def __init__(self, name: str, folder: Path, *words: str) -> None:
        self._log = folder / f"{name.rpartition('.')[2]}.log"
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
        command = [*JAVA, quiet, "-cp", maven.class_path(LIBRARIES), name, *words]
        with self._log.open("wb") as output:
            self._child = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, cwd=folder)

    def lines(self, name: str) -> list[Line]:
        found = []
        for line in self._log.read_text().splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                told = json.loads(line)
                if told.get("name") == name:
                    found.append(told)
        return found

    def end(self) -> None:
        self._child.send_signal(signal.SIGTERM)
        self._child.wait(60)

    def kill(self) -> None:
        self._child.kill()
        self._child.wait(120)


@contextmanager
def running(*tools: Tool) -> Iterator[None]:
    try:
        yield
    finally:
        for tool in tools:
            tool.kill()


@pytest.mark.timeout(600)
def test_a_rolling_restart_goes_unnoticed(tmp_path: Path) -> None:
    roll(OttlaKeepers(1, tmp_path), tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_rolling_restart_on_zookeeper_goes_unnoticed(tmp_path: Path) -> None:
    roll(RealZooKeeper(3, tmp_path), tmp_path)


def roll(ensemble: Ensemble, folder: Path) -> None:
    (folder / "producer.properties").write_text(RETRIES)
    with ensemble, OttlaBrokers(BROKERS, ensemble.hosts, folder, settings=SETTINGS) as brokers:
        create_topic(brokers.bootstrap, name=TOPIC, partitions=PARTITIONS, replicas=BROKERS)
        at = ["--bootstrap-server", brokers.bootstrap, "--topic", TOPIC]
        config = ["--producer.config", str(folder / "producer.properties")]
        producer = Tool(PRODUCER, folder, *at, "--throughput", "100", "--acks", "-1", *config)
        consumer = Tool(CONSUMER, folder, *at, "--group-id", "rolling", "--reset-policy", "earliest")
        with running(producer, consumer):
            progress(producer, consumer)
            for index, process in enumerate(brokers.brokers):
                process.signal(signal.SIGTERM)
                assert process.wait(60) == 0, process.tail()
                progress(producer, consumer)
                brokers.start(index)
                wait_in_sync(brokers.bootstrap)
                progress(producer, consumer)
            producer.end()
            (summary,) = producer.lines("tool_data")
            waits(lambda: consumed(consumer) >= summary["acked"], "everything is consumed")
            consumer.end()
        assert producer.lines("producer_send_error") == []
        assert summary["sent"] == summary["acked"] > 0
        assert consumed(consumer) == summary["acked"], "records were lost, or came twice"
        assert [each for each in consumer.lines("offsets_committed") if not each["success"]] == []


def progress(producer: Tool, consumer: Tool) -> None:
    """Until both have gone on."""
    acked, read = len(producer.lines("producer_send_success")), consumed(consumer)
    waits(lambda: len(producer.lines("producer_send_success")) > acked + 50, "records are acknowledged")
    waits(lambda: consumed(consumer) > read + 50, "records are consumed")


def consumed(consumer: Tool) -> int:
    return sum(each["count"] for each in consumer.lines("records_consumed"))


def waits(probe: Callable[[], bool], what: str) -> None:
    wait_until(probe, timeout_s=120, what=what, interval_s=0.2)


def wait_in_sync(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def in_sync() -> bool:
        partitions = admin.list_topics(TOPIC, timeout=120).topics[TOPIC].partitions.values()
        return all(len(partition.isrs) == BROKERS for partition in partitions)

    waits(in_sync, "all replicas are in sync")
