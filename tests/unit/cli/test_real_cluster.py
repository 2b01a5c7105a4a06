"""The commands with real keepers, and a client that nobody here wrote."""

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
from kazoo.client import KazooClient

from .conftest import Ottla


@contextmanager
def client(ready: subprocess.CompletedProcess[str]) -> Iterator[KazooClient]:
    assert ready.returncode == 0, ready.stderr
    hosts = ready.stdout.split("keeper=")[1].split()[0]
    session = KazooClient(hosts, timeout=10, connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.2})
    session.start(timeout=20)
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
        status = real.run("status", "--dir", "cluster").stdout.splitlines()
        leader = [" leader " in line for line in status].index(True)
        os.kill(real.processes()[leader]["pid"], signal.SIGKILL)
        session.retry(session.set, "/kept", b"changed")
        assert session.get("/kept")[0] == b"changed"
    assert sum(" leader " in line for line in real.run("status", "--dir", "cluster").stdout.splitlines()) == 1


def test_every_keeper_serves_its_metrics_where_status_says(real: Ottla) -> None:
    assert real.up().returncode == 0
    for process in real.processes():
        with urllib.request.urlopen(process["metrics"], timeout=5) as page:
            assert b"# TYPE" in page.read()


def test_the_demonstration_ends_by_itself_and_finds_nothing_lost(tmp_path: Path) -> None:
    demo = Path(__file__).resolve().parents[3] / "scripts" / "demo.py"
    command = [sys.executable, os.fspath(demo), "--once"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing was lost." in done.stdout
    assert "stopped 2 of 3 processes" in done.stdout
