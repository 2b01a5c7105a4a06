"""A child process for tests: its own process group, its output in a file, ended by its process id."""

from __future__ import annotations

import fcntl
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PORTS = range(1100, 10_000)
"""Below those that ``ottla up`` and the kernel choose from, so that neither takes a port between choice and use."""
BLOCK = 300
USUAL_START_S = 0.016
"""What a bare Python takes of an idle processor to start and end."""


class _Block:
    """Ports that this process alone chooses from, by a lock that ends with it: tests side by side never meet."""

    def __init__(self) -> None:
        folder = Path(tempfile.gettempdir()) / f"ottla-tests-ports-{os.getuid()}"
        folder.mkdir(exist_ok=True)
        draw = random.SystemRandom()  # the shared generator is seeded alike in every test and in every run
        for first in draw.sample(PORTS[::BLOCK], len(PORTS[::BLOCK])):
            lock = os.open(folder / str(first), os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            self._ports = cycle(range(first, min(first + BLOCK, PORTS.stop)))
            self._choosing = threading.Lock()
            return
        message = f"{len(PORTS[::BLOCK])} processes test here already"
        raise RuntimeError(message)

    def choose(self, count: int, host: str) -> list[int]:
        chosen: list[int] = []
        with self._choosing:
            while len(chosen) < count:
                port = next(self._ports)
                with socket.socket() as probe:
                    try:
                        probe.bind((host, port))
                    except OSError:
                        continue
                chosen.append(port)
        return chosen


_block = cache(_Block)


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody listens on, in a row where that can be. None comes again before all others have come."""
    return _block().choose(count, host)


def wait_until(probe: Callable[[], T | None], *, timeout_s: float, what: str, interval_s: float = 0.02) -> T:
    """Polls ``probe`` until it gives something true, and returns that."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            message = f"{what}: not within {timeout_s:g} s"
            raise TimeoutError(message)
        time.sleep(interval_s)


def processor_s(run: Callable[[], object]) -> float:
    """What the children that ``run`` starts and ends take of the processor; the clock would also count other tests."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def slowness() -> float:
    """How many times longer than usual Python takes to start now, where others share the cores or these are slow."""
    bare = [sys.executable, "-I", "-c", "pass"]
    return max(1.0, min(processor_s(lambda: subprocess.run(bare, check=True)) for _ in range(5)) / USUAL_START_S)


class Process:
    """One child. Its output is appended to ``log`` over all its lives."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        self.cwd = cwd
        self.env = {**os.environ, **(env or {})}
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._child is None:
            message = f"{self.command[0]} was not started"
            raise RuntimeError(message)
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def returncode(self) -> int | None:
        return None if self._child is None else self._child.poll()

    def start(self) -> None:
        if self.running:
            message = f"{self.command[0]} runs already"
            raise RuntimeError(message)
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.cwd,
                env=self.env,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            os.kill(self._child.pid, number)

    def kill(self) -> None:
        """As ``kill -9``, and waits until it is gone."""
        self.signal(signal.SIGKILL)
        self.wait(120)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self, timeout_s: float = 120) -> None:
        """Asks it to end, and ends it if it does not."""
        self.resume()
        self.signal(signal.SIGTERM)
        try:
            self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def wait(self, timeout_s: float) -> int | None:
        return None if self._child is None else self._child.wait(timeout_s)

    def tail(self, lines: int = 30) -> str:
        """The end of its output, for messages."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def resident_bytes(self) -> int:
        """Its resident memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        message = f"process {self.pid} has no resident memory"
        raise RuntimeError(message)

    def open_files(self) -> int:
        """How many file descriptors it holds."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))
