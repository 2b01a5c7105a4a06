"""The broker beside Apache Kafka 3.9.1 and 4.3.1, same machine, same run: ``make bench``.

    python -m bench.broker [--rounds N] [--scale F] [--only load,clients,size]

One broker runs at a time. ``bench/load/broker.py`` runs twice on each: once to warm it up, once to count; the median round
is shown. A ratio is against the better of the two Kafkas.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import brokerclients, brokersizes
from bench.arguments import arguments
from bench.brokers import CONTESTANTS, Contestant, Ottla

WARM_UP = 0.5
BAR = 40


class Goal(NamedTuple):
    """A figure of one scenario, and how many times Kafka's it is to be, or at most."""

    scenario: str
    figure: str
    label: str
    goal: float
    more_is_better: bool = True


GOALS = (
    Goal("1MB", "produce_mb_s", "produce 1 MB, MB/s", 2.0),
    Goal("64KB", "produce_mb_s", "produce 64 KB, MB/s", 2.5),
    Goal("16KB", "produce_mb_s", "produce 16 KB, MB/s", 3.0),
    Goal("16KBx4", "produce_mb_s", "produce 16 KB × 4, MB/s", 3.0),
    Goal("1KB", "produce_req_s", "produce 1 KB, requests/s", 4.0),
    Goal("single", "produce_req_s", "produce one at a time, requests/s", 1.0),
    Goal("1MB", "fetch_1024k_mb_s", "fetch 1 MB, MB/s", 1.0),
    Goal("64KB", "fetch_64k_mb_s", "fetch 64 KB, MB/s", 1.3),
    *(
        Goal(name, "p99_ms", f"p99 {label}, ms", 1.0, more_is_better=False)
        for name, label in {
            "1MB": "1 MB",
            "64KB": "64 KB",
            "16KB": "16 KB",
            "16KBx4": "16 KB × 4",
            "1KB": "1 KB",
        }.items()
    ),
    Goal("single", "p99_ms", "p99 one at a time, ms", 1.0, more_is_better=False),
    Goal("16KB", "cpu_s_per_gb", "processor time per GB at 16 KB, s", 1 / 3, more_is_better=False),
    Goal("broker", "ready_s", "from start to the first answer, s (goal 0.6)", 1.0, more_is_better=False),
    Goal("broker", "idle_mb", "resident when idle, MB (goal 60)", 1.0, more_is_better=False),
    Goal("broker", "loaded_mb", "resident after the load, MB (goal 120)", 1.0, more_is_better=False),
)

Run = dict[str, dict[str, float]]


def main() -> None:
    args = arguments("The broker beside Kafka.", "load,clients,size")
    parts = args.only.split(",")
    if "load" in parts:
        bench_load(args.rounds, args.scale)
    if "clients" in parts:
        bench_clients(args.rounds, args.scale)
    if "size" in parts:
        brokersizes.bench(running)


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def running(kind: type[Contestant]) -> Iterator[Contestant]:
    with tempfile.TemporaryDirectory() as home, kind(Path(home)) as broker:
        yield broker


def bench_load(rounds: int, scale: float) -> None:
    runs: dict[str, list[Run]] = {kind.name: [] for kind in CONTESTANTS}
    for turn in range(rounds):
        for kind in CONTESTANTS:
            say(f"… load, round {turn + 1} of {rounds}: {kind.name}")
            with running(kind) as broker:
                idle = broker.resident_mb()
                load(broker, scale * WARM_UP)
                run = load(broker, scale)
                run["broker"] = {"ready_s": broker.ready_s, "idle_mb": idle, "loaded_mb": broker.resident_mb()}
                runs[kind.name].append(run)
    _say_table("one broker, acks=1", GOALS, lambda goal, name: _median(runs[name], goal))


def load(broker: Contestant, scale: float) -> Run:
    command = [sys.executable, "-m", "bench.settled", broker.bootstrap, "--json", "--scale", str(scale)]
    command += ["--pids", str(broker.broker.pid)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    run: Run = json.loads(done.stdout)
    return run


def bench_clients(rounds: int, scale: float) -> None:
    """End to end, with clients that people use."""
    found: dict[str, list[Run]] = {kind.name: [] for kind in CONTESTANTS}
    for turn in range(rounds):
        for kind in CONTESTANTS:
            say(f"… clients, round {turn + 1} of {rounds}: {kind.name}")
            with running(kind) as broker:
                brokerclients.run(broker, scale * WARM_UP)
                found[kind.name].append(brokerclients.run(broker, scale))
    goals = [Goal(client, figure, f"{client}, {label}", 1.0) for client, figure, label in brokerclients.FIGURES]
    _say_table("end to end", goals, lambda goal, name: _median(found[name], goal))


def _median(runs: list[Run], goal: Goal) -> float:
    return statistics.median(run[goal.scenario][goal.figure] for run in runs)


def _say_table(title: str, goals: list[Goal] | tuple[Goal, ...], figure: Callable[[Goal, str], float]) -> None:
    names = [kind.name for kind in CONTESTANTS]
    say(f"\n| {title} | {' | '.join(names)} | ratio | goal |\n|---|{'---|' * (len(names) + 2)}")
    for goal in goals:
        figures = {name: figure(goal, name) for name in names}
        better = (max if goal.more_is_better else min)(figures[name] for name in names if name != Ottla.name)
        ratio = figures[Ottla.name] / better
        told = f"{'≥' if goal.more_is_better else '≤'} {goal.goal:.2g}"
        met = "" if (ratio >= goal.goal) is goal.more_is_better or ratio == goal.goal else " ✗"
        shown = " | ".join(f"{figures[name]:,.2f}" for name in names)
        say(f"| {goal.label} | {shown} | {ratio:.2f}{met} | {told} |")
    say("")
    for goal in goals:
        _plot(goal, {name: figure(goal, name) for name in names})


def _plot(goal: Goal, figures: dict[str, float]) -> None:
    say(f"{goal.label} ({'more' if goal.more_is_better else 'less'} is better)")
    longest = max(figures.values()) or 1.0
    for name, value in figures.items():
        say(f"  {name:<12} {'█' * max(round(BAR * value / longest), 1)} {value:,.2f}")


if __name__ == "__main__":
    main()
