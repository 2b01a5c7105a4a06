"""Three brokers and three keepers: how soon they are there, what they take when idle, how long producers wait when one goes.

    python -m bench.cluster [--rounds N] [--scale F] [--only ready,pause,partitions,produce]

ready        from ``ottla up --brokers 3`` to its line, and what every process holds resident a few seconds later
pause        ``bench/load/failover.py``: the longest pause of a producer when the leader is killed or stops, being the
             controller or not; the worst of the rounds
partitions   making many partitions, and how long after the death of a broker all of them are led by others
produce      what they take with acks=all beside three brokers of Apache Kafka (``clusterload``)
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench import clusterload
from bench.arguments import arguments
from ottla.testing import Cluster
from ottla.testing.cluster import ClusterError
from ottla.wire import ApiKey, decode, parse_response_header, request_framer
from ottla.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

BROKERS = 3
TOPICS = 30
PARTITIONS = 100
LOAD = Path(__file__).parent / "load" / "failover.py"
IDLE_S = 5.0
PATIENCE_S = 300.0
METADATA_VERSION = 9


def main() -> None:
    args = arguments("Three brokers and three keepers.", "ready,pause,partitions,produce")
    parts = args.only.split(",")
    if set(parts) != {"produce"}:
        say("| three brokers | figure | goal |\n|---|---|---|")
    if "ready" in parts:
        bench_ready(args.rounds)
    if "pause" in parts:
        bench_pause(args.rounds)
    if "partitions" in parts:
        bench_partitions(args.rounds, args.scale)
    if "produce" in parts:
        clusterload.bench(args.rounds, args.scale, say)


def say(text: str) -> None:
    print(text, flush=True)


def bench_ready(rounds: int) -> None:
    took: list[float] = []
    held: dict[str, float] = {}
    for _ in range(rounds):
        begin = time.perf_counter()
        with Cluster(brokers=BROKERS) as cluster:
            took.append(time.perf_counter() - begin)
            time.sleep(IDLE_S)
            for role in ("broker", "keeper"):
                largest = max(_resident_mb(cluster.pid(number, role)) for number in range(1, BROKERS + 1))
                held[role] = max(held.get(role, 0.0), largest)
    say(f"| ready, with three keepers | {', '.join(f'{each:.2f}' for each in took)} s | 3 s |")
    say(f"| resident when idle | broker {held['broker']:.0f} MB, keeper {held['keeper']:.0f} MB | 60 MB |")


def bench_pause(rounds: int) -> None:
    for name, goal in (("KILL", "1 s"), ("TERM", "0.2 s")):
        # Who leads the topic of the load is left to chance, so it runs until both have been the victim often enough.
        pauses: dict[bool, list[str]] = {False: [], True: []}
        while min(map(len, pauses.values())) < rounds:
            was_controller, pause = _pause(name)
            pauses[was_controller].append(pause)
        for was_controller, found in pauses.items():
            who = "the controller" if was_controller else "not the controller"
            say(f"| longest pause after SIG{name} of a leader, {who} | {', '.join(found)} | {goal} |")


def _pause(name: str) -> tuple[bool, str]:
    """Whether it was the controller that went, and how long the producer waited, and anything else that is to be told."""
    with Cluster(brokers=BROKERS) as cluster:
        # Or the load's consumer would wait for a topic that two brokers cannot make.
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.describe_consumer_groups(["none"])["none"].result(PATIENCE_S)
        controller = _controller(cluster)
        pids = {number: cluster.pid(number) for number in range(1, BROKERS + 1)}
        told = ",".join(f"{number}={pid}" for number, pid in pids.items())
        command = [sys.executable, LOAD, cluster.bootstrap, told, "--signal", name, "--seconds", "12", "--json"]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        was_controller = not _runs(cluster, controller)
    whole = not (found["failed"] or found["lost"] or found["duplicates"]) and found["in_order"]
    return was_controller, f"{found['pause_s']:.3f} s" + ("" if whole else f" with {found}")


def _runs(cluster: Cluster, number: int) -> bool:
    try:
        cluster.pid(number)
    except ClusterError:
        return False
    return True


def bench_partitions(rounds: int, scale: float) -> None:
    topics = [f"many-{number}" for number in range(max(1, round(TOPICS * scale)))]
    with Cluster(brokers=BROKERS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        begin = time.perf_counter()
        made = admin.create_topics(
            [NewTopic(name, PARTITIONS, BROKERS) for name in topics],
            operation_timeout=PATIENCE_S,
            request_timeout=PATIENCE_S,
        )
        for each in made.values():
            each.result(PATIENCE_S)
        count = len(topics) * PARTITIONS
        say(f"| {count:,} partitions of three replicas made | {time.perf_counter() - begin:.1f} s | |")
        for is_controller in (False, True):
            took = ", ".join(_lose_one(cluster, topics, is_controller=is_controller) for _ in range(rounds))
            who = "the controller" if is_controller else "not the controller"
            say(f"| all leaders of a dead broker moved, {who} | {took} | 2 s |")


def _lose_one(cluster: Cluster, topics: list[str], *, is_controller: bool) -> str:
    brokers = dict(enumerate(cluster.bootstrap.split(","), 1))
    _until(lambda: all(_are_in_sync(each, topics) for each in brokers.values()), pause_s=1.0)
    controller = _controller(cluster)
    dead = next(each for each in brokers if (each == controller) is is_controller)
    led = sum(each.leader_id == dead for each in _partitions(brokers[dead], topics))
    pid = cluster.pid(dead)
    begin = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    for number, address in brokers.items():
        if number != dead:
            _wait_led(address, topics, brokers.keys() - {dead})
    took = time.perf_counter() - begin
    cluster.restart(dead)
    return f"{took:.2f} s for {led:,}"


def _wait_led(address: str, topics: list[str], brokers: Collection[int]) -> None:
    """Until the broker at ``address`` tells that ``brokers`` lead all of these.

    It is asked for one topic at a time, and for all others once that has moved: to list thousands of partitions again and again
    would be what keeps it busy. A client might hang on to the broker that is gone.
    """
    waiting = topics
    while waiting:
        _until(partial(_are_led, address, waiting[:1], brokers))
        waiting = [] if _are_led(address, waiting, brokers) else waiting[1:]


def _are_led(address: str, topics: list[str], brokers: Collection[int]) -> bool:
    return all(each.leader_id in brokers for each in _partitions(address, topics))


def _are_in_sync(address: str, topics: list[str]) -> bool:
    found = _partitions(address, topics)
    return len(found) == len(topics) * PARTITIONS and all(len(each.isr_nodes) == BROKERS for each in found)


def _partitions(address: str, topics: list[str]) -> list[MetadataResponsePartition]:
    answer = _metadata(address, [MetadataRequestTopic(name=name) for name in topics])
    return [partition for topic in answer.topics for partition in topic.partitions]


def _controller(cluster: Cluster) -> int:
    return _metadata(cluster.bootstrap.split(",")[0], topics=[]).controller_id


def _metadata(address: str, topics: list[MetadataRequestTopic]) -> MetadataResponse:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        frame = request_framer(MetadataRequest, METADATA_VERSION, "bench")
        connection.sendall(b"".join(frame(MetadataRequest(topics=topics), 0)))
        with connection.makefile("rb") as stream:
            answer = stream.read(int.from_bytes(stream.read(4)))
    _, position = parse_response_header(ApiKey.METADATA, METADATA_VERSION, answer)
    return decode(MetadataResponse, METADATA_VERSION, answer, position)


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _until(holds: Callable[[], bool], *, pause_s: float = 0.02) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError("it did not come about")
        time.sleep(pause_s)


if __name__ == "__main__":
    main()
