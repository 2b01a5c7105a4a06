"""How long clients are without writes after the leader is killed, with ZooKeeper's default ticks.

    python -m tests.chaos.failover [RUNS [zookeeper]]

Measured from just before ``kill -9`` to the answer to the first successful write of a client that was connected to the
leader, notices the end of its connection, and tries one server after the other, waiting 20 ms after each that refuses.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.chaos.client import Client, DisconnectedError, create, set_
from tests.chaos.history import History
from tests.chaos.trial import addresses
from tests.peers import Ensemble, OttlaKeepers, RealZooKeeper

DEFAULT_TICKS = {"tickTime": "2000", "initLimit": "10", "syncLimit": "5"}
RUNS = 10


class Failover(NamedTuple):
    """Milliseconds."""

    times_ms: list[float]

    @property
    def median_ms(self) -> float:
        return statistics.median(self.times_ms)

    @property
    def max_ms(self) -> float:
        return max(self.times_ms)

    def __str__(self) -> str:
        times = " ".join(f"{time_ms:.0f}" for time_ms in self.times_ms)
        return f"median {self.median_ms:.0f} ms, max {self.max_ms:.0f} ms ({times})"


def measure(ensemble: Ensemble, runs: int = RUNS) -> Failover:
    """Kill the leader of a running ensemble again and again; each time it comes back before the next."""
    return Failover([_once(ensemble) * 1000 for _ in range(runs)])


def _once(ensemble: Ensemble) -> float:
    leader = ensemble.leader()
    servers = addresses(ensemble)
    client = Client("failover", [*servers[leader + 1 :], *servers[: leader + 1]], History(), silence_s=10)
    while client.server != leader:
        client.disconnect()
        assert client.connect(deadline=time.monotonic() + 30)
    client.call(create("/failover"), set_("/failover", "before"))
    killed = time.monotonic()
    ensemble.kill(leader)
    _write(client, deadline=killed + 60)
    took_s = time.monotonic() - killed
    client.end()
    ensemble.restart(leader)
    return took_s


def _write(client: Client, deadline: float) -> None:
    while client.connect(deadline=deadline):
        try:
            if not client.call(set_("/failover", "after"))[0]["err"]:
                return
        except DisconnectedError:
            continue
    raise TimeoutError("no write within a minute")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    kind = RealZooKeeper if sys.argv[2:] == ["zookeeper"] else OttlaKeepers
    with tempfile.TemporaryDirectory() as folder, kind(3, Path(folder), settings=DEFAULT_TICKS) as servers:
        print(measure(servers, runs))


if __name__ == "__main__":
    main()
