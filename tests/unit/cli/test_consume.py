"""``ottla consume`` and ``cat`` where what they read is damaged or odd, or where they write is full."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.records import Record, build_batch
from ottla.testing import Cluster
from ottla.wire import request_framer
from ottla.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData

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


def test_a_record_whose_headers_nobody_can_give_is_shown_without_them(cluster: Cluster, tmp_path: Path) -> None:
    send(cluster, Record(None, b"odd", 0, ((b"a", b"1"), (b"\xff", b"2"), (b"b", None))))
    send(cluster, Record(None, b"behind", 0, ((b"c", b"3"),)))
    shown = tmp_path / "shown"
    told = "t-0, offset 1: its headers are left out, as the key of one is no UTF-8; 'ottla log dump' shows them\n"
    for more in ((), ("-g", "g")):
        done = ottla(cluster, "consume", "t", "-o", ":end", "--json", *more, to=str(shown))
        assert (done.returncode, done.stderr) == (0, told)
        rows = [json.loads(line) for line in shown.read_text().splitlines()]
        assert [(row["value"], row["headers"]) for row in rows[1:]] == [
            ("odd", []),
            ("behind", [{"key": "c", "value": "3"}]),
        ]
    unwanted = (("consume", "t", "-o", ":end"), ("cat", "-C", "-t", "t", "-e", "-q"))
    for command in (*unwanted, ("consume", "t", "-o", ":end", "-q", "-f", "%v%h{}\\n")):
        done = ottla(cluster, *command, to=str(shown))
        assert (done.returncode, done.stderr, shown.read_bytes()) == (0, "", VALUE + b"\nodd\nbehind\n")
    done = ottla(cluster, "cat", "-C", "-t", "t", "-e", "-f", "%h ", to=str(shown))
    assert (done.stderr.splitlines()[0] + "\n", shown.read_bytes()) == (told, b"  c=3 ")


def send(cluster: Cluster, record: Record) -> None:
    """What librdkafka would not."""
    data = [PartitionProduceData(index=0, records=build_batch([record]))]
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    host, port = cluster.bootstrap.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"".join(request_framer(ProduceRequest, 7, "test")(request, 0)))
        assert connection.recv(4)
