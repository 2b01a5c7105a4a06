"""``ottla consume`` and ``cat`` where what they read or where they write is damaged or full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.testing import Cluster

VALUE = b"a value that nobody mistakes"


def ottla(
    cluster: Cluster, *arguments: str, to: str = os.devnull, closed: str = ""
) -> subprocess.CompletedProcess[str]:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"] if closed else []
    command = [*shell, sys.executable, "-P", "-m", "ottla", *arguments, "-b", cluster.bootstrap]
    with Path(to).open("wb") as output:
        return subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, text=True
        )


@pytest.fixture
def cluster(ottla_cluster: Cluster) -> Cluster:
    producer = Producer({"bootstrap.servers": ottla_cluster.bootstrap})
    producer.produce("t", VALUE)
    assert producer.flush(120) == 0
    return ottla_cluster


def test_a_damaged_batch_is_not_shown_and_an_output_that_is_full_or_closed_is_told_of(cluster: Cluster) -> None:
    full = ottla(cluster, "consume", "t", "-o", ":end", to="/dev/full")
    assert (full.returncode, full.stderr) == (1, "ottla consume: No space left on device\n")
    closed = ottla(cluster, "consume", "t", "-o", ":end", closed=">&-")
    assert (closed.returncode, closed.stderr) == (1, "ottla consume: standard output is closed\n")
    closed = ottla(cluster, "produce", "t", closed="<&-")
    assert (closed.returncode, closed.stderr) == (1, "ottla produce: standard input is closed\n")
    (segment,) = cluster.folder.glob("broker-1/**/t-0/*.log")
    segment.write_bytes(segment.read_bytes().replace(VALUE, VALUE.upper()))
    for command in (("consume", "t", "-o", ":end"), ("cat", "-C", "-t", "t", "-e")):
        damaged = ottla(cluster, *command)
        assert damaged.returncode == 1
        assert "ottla log verify" in damaged.stderr
        assert damaged.stderr.count("\n") == 1
