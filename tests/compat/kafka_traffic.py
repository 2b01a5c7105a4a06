"""What Apache Kafka must do on an ensemble whose leader is killed: carry records, elect, fail over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.peers import Ensemble
from tests.peers.builds import java_classes
from tests.peers.conversation import Conversation
from tests.peers.kafka import LIBRARIES, KafkaBrokers

SOURCE = Path(__file__).parent / "java" / "Traffic.java"
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")


@contextmanager
def traffic(brokers: KafkaBrokers, log: Path) -> Iterator[Conversation]:
    path = java_classes(SOURCE, LIBRARIES)
    with Conversation(["java", *QUICK, "-cp", path, "Traffic", brokers.bootstrap], log=log) as program:
        program.hear("ready", timeout_s=120)
        yield program


def told(program: Conversation, line: str, *, timeout_s: float = 60) -> list[str]:
    """Says a line, and gives the words of the answer that follows the command's own name."""
    verb, *rest = line.split()
    answer = {"create": "created", "delete": "deleted", "start": "started", "stop": "stopped"}.get(verb, verb)
    heard = program.ask(line, " ".join((answer, *rest[:1])), "failed", "unknown", timeout_s=timeout_s)
    assert not heard.startswith(("failed", "unknown")), heard
    return heard.split()[1 + len(rest[:1]) :]


def carried(program: Conversation, topic: str, *, more: int, timeout_s: float = 60) -> None:
    """Waits until ``more`` further records are acknowledged."""
    goal = int(told(program, f"acked {topic}")[0]) + more
    deadline = time.monotonic() + timeout_s
    while int(told(program, f"acked {topic}")[0]) < goal:
        assert time.monotonic() < deadline, f"no {more} records acknowledged within {timeout_s:g} s"
        time.sleep(0.05)


def settled(program: Conversation, topic: str, *, without: int | None, timeout_s: float = 60) -> list[int]:
    """Waits until every partition has a leader that is not the broker ``without``; gives the leaders."""
    deadline = time.monotonic() + timeout_s
    while True:
        leaders = [int(shown.split(":")[1]) for shown in told(program, f"leaders {topic}")]
        if all(leader not in (-1, without) for leader in leaders):
            return leaders
        assert time.monotonic() < deadline, f"leaders are still {leaders} after {timeout_s:g} s"
        time.sleep(0.1)


def nothing_lost(program: Conversation, topic: str) -> None:
    acked, failed = (int(word) for word in told(program, f"stop {topic}", timeout_s=90))
    _found, missing, twice = (int(word) for word in told(program, f"read {topic}", timeout_s=90))
    assert acked > 0
    assert failed == 0, f"{failed} of {acked + failed} sends failed"
    assert missing == 0, f"{missing} of {acked} acknowledged records are gone"
    assert twice == 0, f"{twice} records are there twice"


def one_broker(ensemble: Ensemble, brokers: KafkaBrokers, log: Path) -> None:
    """Topics are made and records carried, before and after the ensemble's leader dies."""
    with traffic(brokers, log) as program:
        told(program, "create first 2 1")
        told(program, "start first")
        carried(program, "first", more=50)
        ensemble.kill(ensemble.leader())
        carried(program, "first", more=50)
        told(program, "create second 1 1")
        told(program, "start second")
        carried(program, "second", more=20)
        nothing_lost(program, "first")
        nothing_lost(program, "second")


def three_brokers(ensemble: Ensemble, brokers: KafkaBrokers, log: Path) -> None:
    """Brokers fail over too: a partition's leader dies, then the controller, with the ensemble's leader each time."""
    with traffic(brokers, log) as program:
        told(program, "create records 3 3")
        told(program, "start records")
        carried(program, "records", more=100)

        # The ensemble's leader dies under load; nothing else may notice for long.
        killed = ensemble.leader()
        ensemble.kill(killed)
        carried(program, "records", more=200)
        told(program, "create after-first 2 3")
        ensemble.restart(killed)

        # A broker dies: its partitions go over once its session expired.
        dead = settled(program, "records", without=None)[0]
        brokers.kill(dead)
        settled(program, "records", without=dead)
        carried(program, "records", more=100)
        brokers.restart(dead)

        # The controller and the ensemble's leader die in the same moment.
        controller = int(told(program, "controller")[0])
        killed = ensemble.leader()
        brokers.kill(controller)
        ensemble.kill(killed)
        settled(program, "records", without=controller)
        carried(program, "records", more=100)
        told(program, "delete after-first")
        told(program, "create after-second 1 2")
        ensemble.restart(killed)
        brokers.restart(controller)
        carried(program, "records", more=100)
        nothing_lost(program, "records")
