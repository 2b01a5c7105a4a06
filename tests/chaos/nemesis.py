"""What happens to a cluster, by a seed: one fault at a time or several, each with its own end.

A quarter of the time nothing happens: a checker that finds something then has found it in a healthy cluster. Most faults
do not wait for the last one to be over. A power cut does, since what is promised is that one replica may lose its end, not two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from tests.chaos.cluster import BROKERS, SESSION_MS, ClusterOnIslands

KEEPERS = range(BROKERS)
SESSION_S = SESSION_MS / 1000


class Nemesis:
    def __init__(self, cluster: ClusterOnIslands, draw: Random) -> None:
        self._cluster = cluster
        self._draw = draw
        self._faults: list[Callable[[], None]] = [
            *[self.calm] * 4,
            self.kill_and_start,
            self.kill_for_a_while,
            self.kill_two,
            self.kill_all,
            self.pause,
            self.pause_and_kill_another,
            self.restart,
            self.cut_off,
            self.cut_off_from_keepers,
            self.cut_one_way,
            self.cut_between_brokers,
            self.kill_keeper,
            self.pause_keeper,
            self.slow_disk,
        ]
        if not cluster.is_kafka:
            # Kafka trusts who comes back quickly, whatever it lost, and ends where its only disk is full.
            self._faults += [self.cut_power, self.cut_power_of_a_host, self.full_disk]

    def strike(self) -> str:
        fault = self._draw.choice(self._faults)
        fault()
        if self._draw.random() < 0.3:
            self._cluster.wait_in_sync()
        return fault.__name__

    # Processes.

    def calm(self) -> None:
        self._wait(0.5, 3)

    def kill_and_start(self) -> None:
        with self._killed(self._any()):
            pass

    def kill_for_a_while(self) -> None:
        with self._killed(self._any()):
            self._wait(0, 2 * SESSION_S)

    def kill_two(self) -> None:
        first, second = self._draw.sample(range(BROKERS), 2)
        with self._killed(first):
            self._wait(0, 1)
            with self._killed(second):
                self._wait(0, 2)

    def kill_all(self) -> None:
        with self._killed(0), self._killed(1), self._killed(2):
            pass

    def pause(self) -> None:
        with self._paused(self._any()):
            self._wait(0.1, 2 * SESSION_S)

    def pause_and_kill_another(self) -> None:
        """The one that stands still wakes up and believes itself to lead, and the one it counted on is gone."""
        first, second = self._draw.sample(range(BROKERS), 2)
        with self._paused(first):
            self._wait(0, 2 * SESSION_S)
            self._cluster.processes[second].kill()
        self._wait(0, 1)
        self._cluster.start(second)

    def restart(self) -> None:
        victim = self._any()
        self._cluster.terminate(victim)
        self._cluster.start(victim)

    # Networks.

    def cut_off(self) -> None:
        """One broker sees nobody, and nobody sees it; clients do."""
        victim = BROKERS + self._any()
        others = [each for each in range(2 * BROKERS) if each != victim]
        with self._cut():
            self._cluster.network.split([victim], others)

    def cut_off_from_keepers(self) -> None:
        victim = BROKERS + self._any()
        with self._cut():
            self._cluster.network.split([victim], KEEPERS)

    def cut_one_way(self) -> None:
        """One broker is not heard by the others, or does not hear them."""
        victim = BROKERS + self._any()
        others = [BROKERS + each for each in range(BROKERS) if BROKERS + each != victim]
        with self._cut():
            if self._draw.random() < 0.5:
                self._cluster.network.cut(victim, *others)
            else:
                for other in others:
                    self._cluster.network.cut(other, victim)

    def cut_between_brokers(self) -> None:
        first, second = self._draw.sample(range(BROKERS), 2)
        with self._cut():
            self._cluster.network.split([BROKERS + first], [BROKERS + second])

    @contextmanager
    def _cut(self) -> Iterator[None]:
        yield
        self._wait(0.5, 2 * SESSION_S)
        self._cluster.network.heal()

    # Keepers.

    def kill_keeper(self) -> None:
        victim = self._any()
        self._cluster.keepers.kill(victim)
        self._wait(0, 2)
        self._cluster.keepers.servers[victim].start()

    def pause_keeper(self) -> None:
        victim = self._any()
        self._cluster.keepers.pause(victim)
        self._wait(0, 2)
        self._cluster.keepers.resume(victim)

    # Disks.

    def slow_disk(self) -> None:
        with self._cluster.slow_disk(self._any(), self._draw.choice((2, 20, 100))):
            self._wait(1, 4)

    def full_disk(self) -> None:
        """The disk goes offline with its first error, until the broker starts again."""
        self._cluster.fill_disk()
        self._wait(0.5, 3)
        with self._killed(BROKERS - 1):
            self._cluster.clear_disk()

    def cut_power(self) -> None:
        """It is back before its session is over: nobody may trust it for that."""
        self._cluster.wait_in_sync()
        victim = self._any()
        self._cluster.cut_power(victim, self._draw)
        self._cluster.start(victim)
        self._cluster.wait_in_sync()

    def cut_power_of_a_host(self) -> None:
        """Nobody is told, and nobody refuses anything: only the session's end tells."""
        self._cluster.wait_in_sync()
        victim = self._any()
        self._cluster.network.split(
            [BROKERS + victim], [each for each in range(2 * BROKERS) if each != BROKERS + victim]
        )
        self._cluster.cut_power(victim, self._draw)
        self._wait(0, 2 * SESSION_S)
        self._cluster.network.heal()
        self._cluster.start(victim)
        self._cluster.wait_in_sync()

    # Parts of these.

    @contextmanager
    def _killed(self, victim: int) -> Iterator[None]:
        self._cluster.processes[victim].kill()
        yield
        self._cluster.start(victim)

    @contextmanager
    def _paused(self, victim: int) -> Iterator[None]:
        self._cluster.processes[victim].pause()
        try:
            yield
        finally:
            self._cluster.processes[victim].resume()

    def _any(self) -> int:
        return self._draw.randrange(BROKERS)

    def _wait(self, least_s: float, most_s: float) -> None:
        """A fault lasts; nothing is concluded from how long."""
        time.sleep(self._draw.uniform(least_s, most_s))
