"""Power cuts: what was not synced is gone, or half there, on one server or on all of them at once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.disks import PowerDisk, power_disks, sync_path
from tests.chaos.trial import SMALL_TICKS, trial
from tests.peers import OttlaKeepers

SETTINGS = {**SMALL_TICKS, "snapCount": "150"}


def test_the_power_fails_everywhere(tmp_path: Path) -> None:
    power_cuts(tmp_path, seed="quick", rounds=1)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", ["none", "1", "2", "3"])
def test_the_power_fails_again_and_again(tmp_path: Path, seed: str) -> None:
    power_cuts(tmp_path, seed=seed, rounds=12)


def power_cuts(tmp_path: Path, seed: str, rounds: int) -> None:
    """On one, two or all servers; with the seed "none" nothing survives that was not synced."""
    draw = random.Random(seed)
    ensemble = OttlaKeepers(3, tmp_path, settings=SETTINGS)
    with (
        power_disks(ensemble) as disks,
        trial(ensemble, tmp_path, data=[disk.path for disk in disks]) as (keepers, load),
    ):
        for number in range(rounds):
            load.wait_acked(50)
            victims = range(3) if number % 2 == 0 else draw.sample(range(3), draw.choice((1, 2)))
            for victim in victims:
                keepers.kill(victim)
            for victim in victims:
                disks[victim].cut("none" if seed == "none" else f"{seed} {number} {victim}")
            for victim in victims:
                keepers.servers[victim].start()
            keepers.wait_ready()
        load.wait_acked(20)


def test_a_power_disk_loses_what_was_not_synced(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    disk = PowerDisk(data)
    try:
        kept, lost, renamed = (disk.path / name for name in ("kept", "lost", "renamed"))
        kept.write_bytes(b"first")
        sync_path(kept)
        sync_path(disk.path)
        with kept.open("ab") as file:
            file.write(b"second")
        lost.write_bytes(b"synced, but its name is not")
        sync_path(lost)
        kept.rename(renamed)
        disk.cut()
        assert [path.name for path in disk.path.iterdir()] == ["kept"]
        assert kept.read_bytes() == b"first"
    finally:
        disk.close()
