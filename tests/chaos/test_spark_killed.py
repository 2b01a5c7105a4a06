"""A streaming query while brokers, Spark's workers and its driver are killed: every record once at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.testing import Cluster
from tests.chaos.sparkstream import LIMIT
from tests.peers import wait_until

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "numbers"
PARTITIONS = 4
SETTINGS = {"min.insync.replicas": "2", "log.segment.bytes": "100000"}


class Numbers(threading.Thread):
    """Sends 0, 1, 2, ... as far as it may, each of them until it is acknowledged, and once."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 240_000}
        )
        self._over = threading.Event()
        self.sent = 0
        self.allowed = 0
        """No more than the stream will read in the end, however slow it is."""

    def run(self) -> None:
        while not self._over.wait(0.002):
            if self.sent >= self.allowed:
                self._producer.poll(0.01)
                continue
            self._producer.produce(TOPIC, str(self.sent), partition=self.sent % PARTITIONS)
            self._producer.poll(0)
            self.sent += 1

    def finish(self) -> int:
        """How many there were, all of them acknowledged."""
        self._over.set()
        self.join()
        assert self._producer.flush(240) == 0
        return self.sent


@contextmanager
def driver(cluster: Cluster, folder: Path) -> Iterator[int]:
    """The driver with its JVM and its workers, in a group of processes of their own; its id."""
    command = [sys.executable, "-m", "tests.chaos.sparkstream", cluster.bootstrap, TOPIC, str(folder)]
    with (folder / "driver.log").open("ab") as log:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        started = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment, start_new_session=True)
    try:
        yield started.pid
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def kept(folder: Path) -> list[list[int]]:
    return [row for path in folder.glob("*.json") for row in json.loads(path.read_text())]


def wait_for_more(folder: Path, numbers: Numbers, batches: int = 3) -> None:
    """Let more be sent, and wait until some of it was read."""
    there = len(list(folder.glob("*.json")))
    numbers.allowed += (batches + 1) * LIMIT
    wait_until(
        lambda: len(list(folder.glob("*.json"))) >= there + batches or None,
        timeout_s=600,
        what=f"{batches} more micro-batches\n{(folder / 'driver.log').read_text()[-3000:]}",
    )


def kill_workers(driver_pid: int) -> int:
    """Every Python that Spark has started beside the driver."""
    killed = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
            group = int((path / "stat").read_text().rpartition(")")[2].split()[2])
        except OSError:
            continue
        if group == driver_pid and (b"pyspark.daemon" in command or b"pyspark.sql" in command):
            os.kill(int(path.name), signal.SIGKILL)
            killed += 1
    return killed


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_record_is_there_once_whoever_is_killed(tmp_path: Path) -> None:
    with Cluster(brokers=3, settings=SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(60)
        numbers = Numbers(cluster.bootstrap)
        numbers.start()
        with driver(cluster, tmp_path) as running:
            wait_for_more(tmp_path, numbers)
            cluster.kill(1)
            wait_for_more(tmp_path, numbers)
            cluster.restart(1)
            wait_until(lambda: kill_workers(running) or None, timeout_s=300, what="a worker to kill")
            wait_for_more(tmp_path, numbers)
        with driver(cluster, tmp_path):
            wait_for_more(tmp_path, numbers)
            cluster.kill(2)
            wait_for_more(tmp_path, numbers)
            cluster.restart(2)
            sent = numbers.finish()
            wait_until(
                lambda: len(kept(tmp_path)) >= sent or None,
                timeout_s=600,
                what=f"all {sent} numbers\n{(tmp_path / 'driver.log').read_text()[-3000:]}",
            )
    rows = kept(tmp_path)
    assert sorted(number for _, _, number in rows) == list(range(sent))
    assert len({(partition, offset) for partition, offset, _ in rows}) == sent
