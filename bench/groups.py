"""Groups and their offsets, beside Apache Kafka 3.9.1, same machine, same run.

    python -m bench.groups [--rounds N] [--scale F] [--only settle,commits,load]

settle    a group of 50 members over 500 partitions settles after a join, a leave and a crash (``groupmembers``)
commits   commits of one offset each, sustained over some seconds (``groupoffsets``)
load      a broker that is started again loads a million offsets of ten thousand groups

One broker runs at a time, warmed up by a first pass; the median round is shown.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import uvloop
from confluent_kafka.admin import AdminClient, NewTopic

from bench import groupmembers, groupoffsets
from bench.arguments import arguments
from bench.brokers import Contestant, Kafka39, Ottla, cpu_s

MEMBERS, PARTITIONS = 50, 500
COMMIT_SECONDS = 10.0
COMMITS_GOAL = 20_000
OFFSETS, OFFSETS_PARTITIONS = 1_000_000, 100
PER_S = "commits of one offset, a second"
Figures = dict[str, float]


def main() -> None:
    args = arguments("Groups beside Kafka's.", "settle,commits,load")
    parts = args.only.split(",")
    benches: dict[str, Callable[[Contestant, int, float], Figures]] = {
        "settle": settle,
        "commits": commits,
        "load": load,
    }
    for part in parts:
        found = {}
        for kind in (Kafka39, Ottla):
            with tempfile.TemporaryDirectory(prefix="bench-groups-") as home, kind(Path(home)) as broker:
                found[kind.name] = benches[part](broker, args.rounds, args.scale)
        for figure in found[Ottla.name]:
            say(part, figure, found[Kafka39.name][figure], found[Ottla.name][figure])


def say(part: str, figure: str, kafka: float, ours: float) -> None:
    if part == "commits":
        goal = min(COMMITS_GOAL, 3 * kafka)
        told = f"{ours / kafka:5.1f} times Kafka's, goal {goal:,.0f}{'' if ours >= goal else ' ✗'}"
        print(f"{part}: {figure:38} Kafka {kafka:10,.0f}   Ottla {ours:10,.0f}   {told}", flush=True)
    else:
        told = f"{kafka / ours:5.1f} times as fast, goal 2{'' if ours * 2 <= kafka else ' ✗'}"
        print(f"{part}: {figure:38} Kafka {kafka * 1000:8,.1f} ms   Ottla {ours * 1000:8,.1f} ms   {told}", flush=True)


def create(broker: Contestant, topic: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(timeout=120)
    uvloop.run(groupoffsets.wait_coordinated(broker.port, topic))
    return topic


def settle(broker: Contestant, rounds: int, scale: float) -> Figures:
    members = max(int(MEMBERS * scale), 2)
    topic = create(broker, "shared", PARTITIONS)
    found = uvloop.run(groupmembers.settle(broker.port, topic, members, PARTITIONS, rounds))
    return {f"{members} members after a {change}": seconds for change, seconds in found.items()}


def commits(broker: Contestant, rounds: int, scale: float) -> Figures:
    topic = create(broker, "read", OFFSETS_PARTITIONS)
    seconds = COMMIT_SECONDS * scale
    groupoffsets.commits_per_s(broker.port, topic, OFFSETS_PARTITIONS, seconds)
    cpu = cpu_s(broker.broker.pid)
    found = [groupoffsets.commits_per_s(broker.port, topic, OFFSETS_PARTITIONS, seconds) for _ in range(rounds)]
    cpu = cpu_s(broker.broker.pid) - cpu
    return {PER_S: statistics.median(found), "the same, a second of processor time": sum(found) * seconds / cpu}


def load(broker: Contestant, rounds: int, scale: float) -> Figures:
    topic = create(broker, "kept", OFFSETS_PARTITIONS)
    groups = int(OFFSETS * scale) // OFFSETS_PARTITIONS
    groupoffsets.fill(broker.port, topic, OFFSETS_PARTITIONS, groups)
    found = []
    for _ in range(rounds):
        broker.broker.stop(60)
        found.append((*groupoffsets.load_s(broker, topic, groups), cpu_s(broker.broker.pid)))
    from_ready, from_start, cpu = (statistics.median(each) for each in zip(*found, strict=True))
    return {
        f"{groups * OFFSETS_PARTITIONS:,} offsets, from its first answer": from_ready,
        "the same, from its start": from_start,
        "the same, processor time": cpu,
    }


if __name__ == "__main__":
    main()
