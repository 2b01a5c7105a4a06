"""A child process for tests: its own process group, its output in a file, ended by its process id."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PORTS = range(11000, 32000)
"""Below the kernel's ephemeral range, so that no outgoing connection takes a port between choice and use."""


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports nobody listens on. The choice is random, so that test runs side by side rarely meet."""
    # Not the shared generator: pytest-randomly seeds it alike in every test and in every run.
    chosen: list[int] = []
    draw = random.SystemRandom()
    while len(chosen) < count:
        port = draw.choice(PORTS)
        if port in chosen:
            continue
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        chosen.append(port)
    return chosen


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
        self.wait(10)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self, timeout_s: float = 10) -> None:
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
