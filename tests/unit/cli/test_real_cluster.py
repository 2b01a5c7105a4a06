"""The commands with real servers, and clients that nobody here wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kazoo.client import KazooClient

from tests.peers.processes import wait_until

from .conftest import Ottla


@contextmanager
def client(ready: subprocess.CompletedProcess[str]) -> Iterator[KazooClient]:
    assert ready.returncode == 0, ready.stderr
    hosts = ready.stdout.split("keeper=")[1].split()[0]
    session = KazooClient(hosts, timeout=10, connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.2})
    session.start(timeout=120)
    try:
        yield session
    finally:
        session.stop()
        session.close()


@pytest.fixture
def real(ottla: Ottla) -> Ottla:
    ottla.python_path = ""
    return ottla


@pytest.mark.parametrize("keepers", ["1", "3"])
def test_what_was_written_is_there_after_down_and_up(real: Ottla, keepers: str) -> None:
    with client(real.up("--keepers", keepers)) as session:
        session.create("/kept", b"value")
    assert real.run("down", "--dir", "cluster").returncode == 0
    with client(real.up()) as session:
        assert session.get("/kept")[0] == b"value"
    assert len(real.processes()) == int(keepers)


def test_the_cluster_outlives_its_leader(real: Ottla) -> None:
    with client(real.up()) as session:
        session.create("/kept", b"value")
        leader = wait_leader(real)
        os.kill(real.processes()[leader]["pid"], signal.SIGKILL)
        session.retry(session.set, "/kept", b"changed")
        assert session.get("/kept")[0] == b"changed"
    wait_leader(real)


def wait_leader(real: Ottla) -> int:
    """Which keeper leads, and it alone. A busy one may take longer to answer than ``status`` waits."""

    def leaders() -> list[int]:
        status = real.run("status", "--dir", "cluster").stdout.splitlines()
        return [number for number, line in enumerate(status) if " leader " in line]

    (leader,) = wait_until(leaders, timeout_s=120, what="there is a leader")
    return leader


def test_every_keeper_serves_its_metrics_where_status_says(real: Ottla) -> None:
    assert real.up().returncode == 0
    for process in real.processes():
        with urllib.request.urlopen(process["metrics"], timeout=120) as page:
            assert b"# TYPE" in page.read()


def bootstrap(ready: subprocess.CompletedProcess[str]) -> str:
    assert ready.returncode == 0, ready.stderr
    return ready.stdout.split("bootstrap=")[1].split()[0]


def produce(servers: str, topic: str, *values: bytes) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(120) == 0
    assert failed == []


def consume(servers: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=120)
    consumer.close()
    return [message.value() for message in messages]


def test_one_process_is_broker_and_keeper_and_keeps_its_records(real: Ottla) -> None:
    up = ("up", "--dir", "cluster", "--port", "0", "--keeper-port", "0", "--detach")
    produce(bootstrap(real.run(*up)), "views", b"one", b"two")
    processes = real.processes()
    assert [(process["role"], process["id"]) for process in processes] == [("broker", 1), ("keeper", 1)]
    assert len({process["pid"] for process in processes}) == 1
    wait_until(
        lambda: "controller" in real.run("status", "--dir", "cluster").stdout, timeout_s=120, what="it says who it is"
    )
    assert real.run("down", "--dir", "cluster").stdout == "stopped 1 of 1 processes\n"
    assert consume(bootstrap(real.run(*up)), "views", 2) == [b"one", b"two"]


def test_a_broker_that_was_killed_is_back_with_its_records_after_a_restart(real: Ottla) -> None:
    up = ("up", "--dir", "cluster", "--port", "0", "--keeper-port", "0", "--keepers", "3", "--detach", "--ephemeral")
    servers = bootstrap(real.run(*up, "--set", "zookeeper.session.timeout.ms=4000"))
    produce(servers, "views", b"one")
    broker = next(process for process in real.processes() if process["role"] == "broker")
    os.kill(broker["pid"], signal.SIGKILL)
    assert real.run("restart", "broker", "1", "--dir", "cluster").returncode == 0
    produce(servers, "views", b"two")
    assert consume(servers, "views", 2) == [b"one", b"two"]
    assert len(real.processes()) == 4


@pytest.mark.timeout(1200)
def test_the_demonstration_ends_by_itself_and_finds_nothing_lost(tmp_path: Path) -> None:
    demo = Path(__file__).resolve().parents[3] / "scripts" / "demo.py"
    command = [sys.executable, os.fspath(demo), "--once"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=1000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing was lost." in done.stdout
    assert "stopped 5 of 6 processes" in done.stdout
