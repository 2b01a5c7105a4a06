"""What must hold while a server is treated badly: others are served, memory is bounded, nothing leaks.

The limits are those of the guarantees: memory grows by less than 32 MB, a client on another connection keeps its
answers under 100 ms (99 of 100; of a broker, 50), file descriptors come back, and the log says it once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.compat.rawclient import ClosedError, Connection, SilenceError
from tests.hostile.canary import PACE_S
from tests.peers import Ensemble, wait_until
from tests.peers.maven import CHECKOUT
from tests.peers.processes import slowness

MEMORY_GROWTH_MAX = 32 << 20
LATENCY_MAX_S = 0.100
"""As long as a loop may be held, and no less: a machine that others share delays anybody for tens of milliseconds."""
LINGER_S = 0.5
"""The client that does nothing wrong stays on for this long: what was sent last may still be at work."""


class Undisturbed:
    """Holds a server to the guarantees while the body of the ``with`` attacks it."""

    CANARY = "tests.hostile.canary"

    def __init__(
        self,
        ensemble: Ensemble,
        index: int = 0,
        *,
        memory_max: int = MEMORY_GROWTH_MAX,
        latency_max_s: float = LATENCY_MAX_S,
        settle_s: float = 60,
    ) -> None:
        self.memory_max = memory_max
        self.latency_max_s = latency_max_s
        self.settle_s = settle_s
        self.server = ensemble.servers[index]
        self.port = ensemble.client_ports[index]

    def __enter__(self) -> Self:
        self.files = self.server.open_files()
        self.tracebacks = self.server.log.read_text(errors="replace").count("Traceback")
        self.canary = subprocess.Popen(
            [sys.executable, "-m", self.CANARY, str(self.port), str(self.server.pid)],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.canary.stdout is not None
        assert self.canary.stdout.readline() == "ready\n"
        self.memory = self.server.resident_bytes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._end()
        finally:
            self.canary.kill()
            self.canary.wait(120)
            for pipe in (self.canary.stdin, self.canary.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()

    def _end(self) -> None:
        time.sleep(LINGER_S)
        assert self.server.running, f"the server ended:\n{self.server.tail()}"
        grown = self.server.resident_bytes() - self.memory
        try:
            told, _ = self.canary.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            raise AssertionError("the other client was not served") from None
        self._check(json.loads(told), grown)
        wait_until(
            lambda: self.server.open_files() <= self.files + 1,
            timeout_s=self.settle_s,
            what=f"{self.server.open_files()} open files go back to {self.files}",
        )

    def _check(self, told: dict[str, list[float]], grown: int) -> None:
        assert not told["failure"], f"the other client was not served: {told['failure']}"
        assert grown < self.memory_max, f"memory grew by {grown / 1e6:.1f} MB"
        worst = ninety_nine_of_a_hundred(told["latencies"])
        allowed = self.latency_max_s * slowness()
        assert worst < allowed, f"the other client waited {worst * 1000:.0f} ms, allowed are {allowed * 1000:.0f}"
        tracebacks = self.server.log.read_text(errors="replace").count("Traceback") - self.tracebacks
        assert tracebacks <= 1, f"{tracebacks} tracebacks in the log:\n{self.server.tail()}"


def ninety_nine_of_a_hundred(latencies: list[float]) -> float:
    """The latency that 99 of 100 answers stay under.

    A client that waits for an answer asks nothing meanwhile; what it would have asked, it would have waited for too.
    """
    measured: list[float] = []
    for latency in latencies:
        measured.extend(latency - missed * PACE_S for missed in range(int(latency / PACE_S) + 1))
    measured.sort()
    return measured[int(len(measured) * 0.99)] if measured else 0.0


def closes(connection: Connection, *, within_s: float = 60) -> None:
    """The server ends the connection, whatever it sends before."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            connection.receive(timeout_s=max(deadline - time.monotonic(), 0.01))
        except ClosedError:
            connection.close()
            return
        except SilenceError:
            connection.close()
            raise AssertionError(f"the connection is still open after {within_s:g} s") from None


def opened(port: int) -> Connection:
    """A connection with a session."""
    connection = Connection(port)
    connection.connect()
    return connection
