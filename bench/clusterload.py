"""Three brokers that replicate, beside three Apache Kafka 3.9.1 brokers in the same run: acks=all, replication factor 3.

One cluster runs at a time, Kafka's as its makers start it. ``bench/load/broker.py`` runs twice on each: once to warm it up,
once to count.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.broker import Goal
from bench.brokers import HEAP
from ottla.testing import Cluster
from tests.peers import RealZooKeeper
from tests.peers.kafka import KafkaBrokers, controller_id

BROKERS = 3
WARM_UP = 0.5
KAFKA, OTTLA = "Kafka 3.9.1", "Ottla"
DEFAULTS = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "background.threads": "10",
    "zookeeper.session.timeout.ms": "18000",
    "replica.lag.time.max.ms": "30000",
}
"""Of Kafka, where the peers of the tests have less: under load, a broker would lose its session."""


GOALS = (
    Goal("16KB", "produce_mb_s", "produce 16 KB, MB/s", 3.0),
    Goal("1KB", "produce_req_s", "produce 1 KB, requests/s", 3.0),
    Goal("16KBx4", "produce_mb_s", "produce 16 KB × 4, MB/s", 3.0),
    Goal("1MB", "produce_mb_s", "produce 1 MB, MB/s", 1.5),
    Goal("16KB", "p99_ms", "p99 16 KB, ms", 1.0, more_is_better=False),
    Goal("1KB", "p99_ms", "p99 1 KB, ms", 1.0, more_is_better=False),
    Goal("16KBx4", "p99_ms", "p99 16 KB × 4, ms", 1.0, more_is_better=False),
    Goal("1MB", "p99_ms", "p99 1 MB, ms", 1.0, more_is_better=False),
    Goal("16KB", "cpu_s_per_gb", "processor time of all three per GB at 16 KB, s", 1.0, more_is_better=False),
)
SCENARIOS = ",".join(dict.fromkeys(goal.scenario for goal in GOALS))

Run = dict[str, dict[str, float]]


class Running(NamedTuple):
    bootstrap: str
    pids: Sequence[int]


@contextmanager
def kafka() -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as home, RealZooKeeper(1, Path(home) / "zookeeper") as zookeeper:
        brokers = KafkaBrokers(BROKERS, zookeeper.hosts, Path(home) / "kafka", settings=DEFAULTS, java=("java", *HEAP))
        with brokers:
            # Topics are made by the first, and in ZooKeeper mode by the controller alone.
            first = brokers.ports[controller_id(brokers.ports[0])]
            ports = sorted(brokers.ports, key=lambda port: port != first)
            bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
            yield Running(bootstrap, [broker.pid for broker in brokers.brokers])


@contextmanager
def ottla() -> Iterator[Running]:
    with Cluster(brokers=BROKERS) as cluster:
        yield Running(cluster.bootstrap, [cluster.pid(number) for number in range(1, BROKERS + 1)])


CLUSTERS = {KAFKA: kafka, OTTLA: ottla}


def bench(rounds: int, scale: float, say: Callable[[str], None]) -> None:
    runs: dict[str, list[Run]] = {name: [] for name in CLUSTERS}
    for turn in range(rounds):
        for name, start in CLUSTERS.items():
            say(f"… produce, round {turn + 1} of {rounds}: {name}")
            with start() as running:
                load(running, scale * WARM_UP)
                runs[name].append(load(running, scale))
    say(f"\n| three brokers, acks=all | {KAFKA} | {OTTLA} | ratio | goal |\n|---|---|---|---|---|")
    for goal in GOALS:
        theirs, ours = (statistics.median(run[goal.scenario][goal.figure] for run in runs[name]) for name in CLUSTERS)
        ratio = ours / theirs
        met = "" if (ratio >= goal.goal) is goal.more_is_better or ratio == goal.goal else " ✗"
        told = f"{'≥' if goal.more_is_better else '≤'} {goal.goal:.2g}"
        say(f"| {goal.label} | {theirs:,.2f} | {ours:,.2f} | {ratio:.2f}{met} | {told} |")


def load(running: Running, scale: float) -> Run:
    command = [sys.executable, "-m", "bench.settled", running.bootstrap, "--json", "--scale", str(scale)]
    command += ["--rf", str(BROKERS), "--acks", "-1", "--only", SCENARIOS]
    command += ["--pids", ",".join(map(str, running.pids))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    run: Run = json.loads(done.stdout)
    return run
