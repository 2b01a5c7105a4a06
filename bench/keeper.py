"""The keeper beside Apache ZooKeeper, same machine, same run: ``make bench``.

    python -m bench.keeper [--rounds N] [--scale F] [--only load,start,failover,size]

Both ensembles have three servers and the default ticks. They take turns, round by round, and only one runs at a time,
so that neither pays for the other; the median round counts. The load is ``bench/load/keeper.py``, which warms a server
up by itself; it is run a second time on the same servers, since a JVM goes on to get faster.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.arguments import arguments
from bench.client import CREATE, EXISTS, Client, buffer, create_body
from tests.peers import OttlaKeepers, RealZooKeeper
from tests.peers.ensemble import Ensemble

LOAD = Path(__file__).parent / "load" / "keeper.py"
TICKS = {"tickTime": "2000", "initLimit": "10", "syncLimit": "5"}
GOALS = {
    "write": ("writes/s, pipelined", 1.5),
    "write one": ("writes/s, one at a time", 1.5),
    "read": ("reads/s, pipelined", 2.0),
    "read one": ("reads/s, one at a time", 2.0),
}
QUICK_START_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class WarmZooKeeper(RealZooKeeper):
    """ZooKeeper with a JVM made to run, not to start."""

    def _command(self, index: int, config: Path) -> list[str]:
        return [part for part in super()._command(index, config) if part not in QUICK_START_FLAGS]


Make = Callable[[int, Path], Ensemble]
Run = dict[str, dict[str, float]]
Results = dict[str, list[Run]]


def zookeeper(size: int, home: Path) -> Ensemble:
    return WarmZooKeeper(size, home, settings=TICKS)


def ottla(size: int, home: Path) -> Ensemble:
    return OttlaKeepers(size, home, settings=TICKS)


def main() -> None:
    args = arguments("The keeper beside ZooKeeper.", "start,load,failover,size")
    parts = args.only.split(",")
    if "start" in parts:
        bench_start(args.rounds)
    if "load" in parts:
        bench_load(args.rounds, args.scale)
    if "failover" in parts:
        bench_failover(args.rounds)
    if "size" in parts:
        bench_size()


def say(text: str) -> None:
    print(text, flush=True)


def bench_start(rounds: int) -> None:
    """From starting the processes to the first answered request, and to the last server that answers."""
    say("\n| start, three servers | first answer | all answer |\n|---|---|---|")
    firsts = {}
    for name, make in (("ZooKeeper 3.9.5", zookeeper), ("Ottla", ottla)):
        runs = [_start_once(make) for _ in range(rounds)]
        first, last = (statistics.median(x) for x in zip(*runs, strict=True))
        firsts[name] = first
        say(f"| {name} | {first:.2f} s | {last:.2f} s |")
    say(f"| ratio | {firsts['Ottla'] / firsts['ZooKeeper 3.9.5']:.2f} (goal 0.25) | |")


def _start_once(make: Make) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as home:
        ensemble = make(3, Path(home))
        started = time.perf_counter()
        try:
            for server in ensemble.servers:
                server.start()
            waiting = list(ensemble.client_ports)
            answered = []
            while waiting:
                for port in list(waiting):
                    if _answers(port):
                        answered.append(time.perf_counter() - started)
                        waiting.remove(port)
                time.sleep(0.005)
        finally:
            ensemble.stop()
    return answered[0], answered[-1]


def _answers(port: int) -> bool:
    try:
        with Client(port, timeout_s=2.0) as client:
            client.exists(b"/")
    except (OSError, EOFError):
        return False
    return True


def bench_load(rounds: int, scale: float) -> None:
    passes: tuple[Results, Results] = ({}, {})
    memory: dict[str, list[int]] = {}
    for turn in range(rounds):
        for name, make in (("ZooKeeper", zookeeper), ("Ottla", ottla)):
            say(f"… load, round {turn + 1} of {rounds}: {name}")
            with tempfile.TemporaryDirectory() as home, make(3, Path(home)) as ensemble:
                for results in passes:
                    results.setdefault(name, []).append(_load(ensemble, scale))
                memory.setdefault(name, []).extend(server.resident_bytes() for server in ensemble.servers)
    for title, results in zip(("three servers", "the same, run again"), passes, strict=True):
        _say_load(title, results)
    theirs, ours = (max(memory[n]) / 1e6 for n in ("ZooKeeper", "Ottla"))
    say(f"| resident memory after load | {theirs:.0f} MB | {ours:.0f} MB | {ours / theirs:.2f} | 0.2 |")


def _say_load(title: str, results: Results) -> None:
    say(f"\n| {title} | ZooKeeper 3.9.5 | Ottla | ratio | goal |\n|---|---|---|---|---|")
    for key, (label, goal) in GOALS.items():
        median = {name: _median(runs, key, "op_s") for name, runs in results.items()}
        p99 = {name: _median(runs, key, "p99_ms") for name, runs in results.items()}
        shown = " | ".join(f"{median[n]:,.0f} (p99 {p99[n]:.2f} ms)" for n in ("ZooKeeper", "Ottla"))
        say(f"| {label} | {shown} | {median['Ottla'] / median['ZooKeeper']:.2f} | {goal} |")


def _median(runs: list[Run], key: str, figure: str) -> float:
    return statistics.median(run[key][figure] for run in runs)


def _load(ensemble: Ensemble, scale: float) -> Run:
    pids = ",".join(str(server.pid) for server in ensemble.servers)
    command = [sys.executable, str(LOAD), ensemble.hosts, "--pids", pids, "--scale", str(scale), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    loaded: Run = json.loads(done.stdout)
    return loaded


def bench_failover(rounds: int) -> None:
    """From kill -9 of the leader to the next write of a client that was connected to it and reconnects."""
    say("\n| kill -9 of the leader, default ticks | median | worst |\n|---|---|---|")
    for name, make in (("ZooKeeper 3.9.5", zookeeper), ("Ottla", ottla)):
        runs = [_failover_once(make) for _ in range(max(rounds, 3))]
        say(f"| {name} | {statistics.median(runs):.2f} s | {max(runs):.2f} s |")
    say("| goal | | 1 s |")


def _failover_once(make: Make) -> float:
    with tempfile.TemporaryDirectory() as home, make(3, Path(home)) as ensemble:
        leader = ensemble.leader()
        with Client(ensemble.client_ports[leader]) as client:
            client.create(b"/failover")
            session = client.session_id, client.password
        killed = time.perf_counter()
        ensemble.kill(leader)
        ports = [port for i, port in enumerate(ensemble.client_ports) if i != leader]
        while True:
            for port in ports:
                try:
                    with Client(port, timeout_s=5.0, session=session) as client:
                        client.set(b"/failover", b"y")
                        return time.perf_counter() - killed
                except (OSError, EOFError):
                    time.sleep(0.01)


def bench_size() -> None:
    """Cost of many znodes, sessions and watches on three servers of ours: it should grow in proportion."""
    say("\n| held by three servers | count | seconds | resident, largest server |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as home, ottla(3, Path(home)) as ensemble:
        _row("(empty)", 0, 0.0, ensemble)
        with Client(ensemble.client_ports[0]) as client:
            client.create(b"/size")
            for step in range(4):
                bodies = [create_body(b"/size/%07d" % (step * 25_000 + i), b"x" * 100) for i in range(25_000)]
                started = time.perf_counter()
                client.pipeline(CREATE, bodies)
                _row("znodes of 100 bytes", (step + 1) * 25_000, time.perf_counter() - started, ensemble)
            for step in range(4):
                bodies = [buffer(b"/size/%07d" % (step * 25_000 + i)) + b"\1" for i in range(25_000)]
                started = time.perf_counter()
                client.pipeline(EXISTS, bodies)
                _row("watches of one client", (step + 1) * 25_000, time.perf_counter() - started, ensemble)
            clients: list[Client] = []
            for step in range(4):
                started = time.perf_counter()
                clients += [Client(ensemble.client_ports[i % 3]) for i in range(2_500)]
                _row("sessions", (step + 1) * 2_500, time.perf_counter() - started, ensemble)
            started = time.perf_counter()
            client.exists(b"/size")
            say(f"| a read with all of these | 1 | {time.perf_counter() - started:.4f} | |")
            for other in clients:
                other.close()


def _row(what: str, count: int, seconds: float, ensemble: Ensemble) -> None:
    resident = max(server.resident_bytes() for server in ensemble.servers) / 1e6
    say(f"| {what} | {count:,} | {seconds:.2f} | {resident:.0f} MB |")


if __name__ == "__main__":
    main()
