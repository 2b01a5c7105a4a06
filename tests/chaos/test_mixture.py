"""Everything that can happen to processes and disks, one after the other or on top of each other, by a seed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.disks import PowerDisk, power_disks
from tests.chaos.trial import SMALL_TICKS, SYNC_S, trial
from tests.peers import OttlaKeepers

SETTINGS = {**SMALL_TICKS, "snapCount": "150"}


class Nemesis:
    """Faults, each with its own end. Nothing waits for the ensemble to recover: the next may come in the middle."""

    def __init__(self, keepers: OttlaKeepers, disks: list[PowerDisk], seed: str) -> None:
        self._keepers = keepers
        self._disks = disks
        self._random = random.Random(seed)
        self._seed = seed
        self._cuts = 0

    def strike(self) -> str:
        faults: list[Callable[[], None]] = [
            self.calm, self.kill_leader, self.kill_one, self.kill_all, self.pause_leader, self.pause_one,
            self.restart_one, self.cut_power_of_one, self.cut_power_of_two, self.cut_power_of_all,
        ]  # fmt: skip
        fault = self._random.choice(faults)
        fault()
        return fault.__name__

    def calm(self) -> None:
        pass

    def kill_leader(self) -> None:
        self._kill(self._keepers.leader())

    def kill_one(self) -> None:
        self._kill(self._any())

    def kill_all(self) -> None:
        self._kill(0, 1, 2)

    def pause_leader(self) -> None:
        self._pause(self._keepers.leader())

    def pause_one(self) -> None:
        self._pause(self._any())

    def restart_one(self) -> None:
        server = self._keepers.servers[self._any()]
        server.stop()
        server.start()

    def cut_power_of_one(self) -> None:
        self._cut_power(self._any())

    def cut_power_of_two(self) -> None:
        self._cut_power(*self._random.sample(range(3), 2))

    def cut_power_of_all(self) -> None:
        self._cut_power(0, 1, 2)

    def _any(self) -> int:
        return self._random.randrange(3)

    def _kill(self, *victims: int) -> None:
        for victim in victims:
            self._keepers.kill(victim)
        for victim in victims:
            self._keepers.servers[victim].start()

    def _pause(self, victim: int) -> None:
        self._keepers.pause(victim)
        time.sleep(SYNC_S * self._random.uniform(0.3, 2))
        self._keepers.resume(victim)

    def _cut_power(self, *victims: int) -> None:
        for victim in victims:
            self._keepers.kill(victim)
        for victim in victims:
            self._cuts += 1
            self._disks[victim].cut(f"{self._seed} {self._cuts}")
            self._keepers.servers[victim].start()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_a_mixture_of_faults(tmp_path: Path, seed: str) -> None:
    ensemble = OttlaKeepers(3, tmp_path, settings=SETTINGS)
    with (
        power_disks(ensemble) as disks,
        trial(ensemble, tmp_path, data=[disk.path for disk in disks], silence_s=1.0) as (keepers, load),
    ):
        nemesis = Nemesis(keepers, disks, seed)
        for _ in range(30):
            load.wait_acked(15)
            load.history.happened("nemesis", "note", nemesis.strike(), {})
        load.wait_acked(15)
