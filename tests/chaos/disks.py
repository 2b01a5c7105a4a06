"""Disks that fail: one that a power cut empties of what was not synced, one that is full, one that kills or lies.

Each replaces the data directory or the command of one server of an ensemble that has not been started yet.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.chaos.namespaces import Holder
from tests.peers import Ensemble, Process
from tests.peers.maven import CHECKOUT

PAGE = 4096


class PowerDisk:
    """A data directory on ``powerfs``, which only its server and ``path`` can see."""

    def __init__(self, data: Path) -> None:
        kept = {path.name: path.read_bytes() for path in data.iterdir()}
        self._child = subprocess.Popen(
            ["unshare", "--mount", sys.executable, "-m", "tests.chaos.powerfs", str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=CHECKOUT,
        )
        self.enter = ["nsenter", f"--target={self._child.pid}", "--mount", "--"]
        self.path = Path(f"/proc/{self._child.pid}/root{data}")
        self._expect("mounted")
        for name, content in kept.items():
            (self.path / name).write_bytes(content)
            sync_path(self.path / name)
        sync_path(self.path)

    def _expect(self, answer: str) -> None:
        assert self._child.stdout is not None
        assert self._child.stdout.readline().decode().strip() == answer, "powerfs has ended; it needs root"

    def cut(self, seed: str = "none") -> None:
        """The power fails; whoever used the disk has to be dead. ``seed`` decides what of the unsynced survives."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"cut {seed}\n".encode())
        self._child.stdin.flush()
        self._expect("cut")

    def close(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait(120)
        self._child.stdout.close()


def sync_path(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def power_disks(ensemble: Ensemble) -> Iterator[list[PowerDisk]]:
    """Every server of ``ensemble`` on a disk of its own that can lose power."""
    with ExitStack() as stack:
        disks = []
        for index, server in enumerate(ensemble.servers):
            disk = PowerDisk(ensemble.data(index))
            stack.callback(disk.close)
            server.command = [*disk.enter, *server.command]
            disks.append(disk)
        yield disks


class SmallDisk:
    """A data directory of a fixed size."""

    def __init__(self, ensemble: Ensemble, index: int, size: int) -> None:
        data = ensemble.data(index)
        kept = {path.name: path.read_bytes() for path in data.iterdir()}
        self._holder = Holder("--mount")
        self._holder.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", data)
        self.path = self._holder.path(data)
        for name, content in kept.items():
            (self.path / name).write_bytes(content)
        server = ensemble.servers[index]
        server.command = [*self._holder.enter, *server.command]

    def fill(self) -> None:
        """Take up all space that is left."""
        with (self.path / "filler").open("ab", buffering=0) as filler, contextlib.suppress(OSError):
            while filler.write(bytes(PAGE)):
                pass

    def clear(self) -> None:
        (self.path / "filler").unlink()

    def close(self) -> None:
        self._holder.close()


@contextmanager
def strace(process: Process, log: Path, call: str, inject: str, paths: Iterable[Path] = ()) -> Iterator[None]:
    """Start ``process`` in this block, and ``inject`` happens at a system call of it, only on ``paths`` if any are given.

    For example ``error=EIO:when=3`` or ``signal=KILL:when=1``. Calls are counted by thread.
    """
    command = process.command
    process.command = [
        "strace", "-D", "-f", "-qq", "-o", str(log), "-e", f"trace={call}", "-e", f"inject={call}:{inject}",
        *(f"--trace-path={path}" for path in paths), "--", *command,
    ]  # fmt: skip
    try:
        yield
    finally:
        process.command = command
