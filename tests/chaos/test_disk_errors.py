"""Disks that refuse: a server whose disk fails stops and says why, the others go on, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.disks import SmallDisk, strace
from tests.chaos.trial import SMALL_TICKS, trial
from tests.peers import OttlaKeepers, wait_until

CALLS = ["fdatasync", "fsync", "pwritev,pwritev2", "pwrite64", "write", "rename", "ftruncate", "unlink"]
MIB = 1 << 20
LEADER, FOLLOWER = 2, 0
"""At the first start the server with the highest id leads."""
VICTIMS = pytest.mark.parametrize(
    "victim", [pytest.param(LEADER, id="leader"), pytest.param(FOLLOWER, id="follower", marks=pytest.mark.long)]
)


@VICTIMS
def test_syncing_fails(tmp_path: Path, victim: int) -> None:
    """Once is enough: a second try might find nothing left to write, and succeed."""
    ensemble = OttlaKeepers(3, tmp_path, settings=SMALL_TICKS)
    with (
        strace(ensemble.servers[victim], tmp_path / "strace", "fdatasync", "error=EIO:when=40"),
        trial(ensemble, tmp_path) as (keepers, load),
    ):
        wait_stopped(keepers, victim, "Input/output error")
        load.wait_acked(20)


@VICTIMS
def test_the_disk_is_full(tmp_path: Path, victim: int) -> None:
    ensemble = OttlaKeepers(3, tmp_path, settings={**SMALL_TICKS, "preAllocSize": "4"})
    disk = SmallDisk(ensemble, victim, 4 * MIB)
    data = [disk.path if index == victim else ensemble.data(index) for index in range(3)]
    try:
        with trial(ensemble, tmp_path, data=data) as (keepers, load):
            load.wait_acked(20)
            disk.fill()
            wait_stopped(keepers, victim, "No space left on device")
            load.wait_acked(20)
            keepers.servers[victim].start()
            wait_stopped(keepers, victim, "No space left on device")
            disk.clear()
            keepers.restart(victim)
            load.wait_acked(20)
    finally:
        disk.close()


def wait_settled(keepers: OttlaKeepers, index: int) -> None:
    """Until a server that was started serves, or has stopped."""
    server = keepers.servers[index]
    wait_until(lambda: not server.running or keepers.modes()[index], timeout_s=120, what=f"server {index} settles")


def wait_stopped(keepers: OttlaKeepers, index: int, why: str) -> None:
    server = keepers.servers[index]
    wait_until(lambda: not server.running, timeout_s=120, what=f"server {index} stops")
    assert server.returncode == 1
    last = [line for line in server.tail().splitlines() if "CRITICAL" in line][-1]
    assert why in last, server.tail()


@pytest.mark.long
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_fails(tmp_path: Path, call: str, error: str) -> None:
    """At whichever call, the server stops with a message or goes on, and the ensemble goes on with it or without it."""
    settings = {**SMALL_TICKS, "snapCount": "60"}
    with trial(OttlaKeepers(3, tmp_path, settings=settings), tmp_path) as (keepers, load):
        refused = 0
        for n in (1, 2, 3, 5, 8):
            victim = keepers.leader() if n % 2 else keepers.followers()[0]
            server = keepers.servers[victim]
            server.stop()
            data = keepers.data(victim) / "version-2"
            for number in range(n):
                (data / f"tmp.left.{number}").touch()  # as of a crash, to be cleared away at the start
            # Sockets and the console are written to as well, and are not what this is about.
            epochs = [data / name for name in ("tmp.acceptedEpoch", "tmp.currentEpoch")]
            paths = epochs if call == "write" else []
            with strace(server, tmp_path / "strace", call, f"error={error}:when={n}", paths):
                server.start()
            # The others need nobody to go on, and may have done so before it has done anything.
            wait_settled(keepers, victim)
            load.wait_acked(100)
            if not server.running:
                assert server.returncode == 1, server.tail()
                assert "Traceback" not in server.tail(), server.tail()
            server.stop()
            keepers.restart(victim)
            refused += (tmp_path / "strace").read_text().count("(INJECTED)")
        assert refused, f"{call} never failed"
