"""What must hold while a server is treated badly: others are served, memory is bounded, nothing leaks.

The limits are those of the guarantees: memory grows by less than 32 MB, a client on another connection keeps its
answers under 50 ms (99 of 100), file descriptors come back, and the log says it once. On a machine busy with other
work even a calm server is sometimes slower than that, so another client measures one at the same time.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from tests.compat import rawclient as raw
from tests.compat.rawclient import ClosedError, Connection, SilenceError
from tests.peers import Ensemble, wait_until

MEMORY_GROWTH_MAX = 32 << 20
LATENCY_MAX_S = 0.050
SLOWER_THAN_CALM = 3.0
SETTLE_S = 0.1

calm_port = 0
"""A server that nobody attacks; conftest.py starts it."""


class Canary(threading.Thread):
    """A client that does nothing wrong, and measures how long its answers take."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.connection = Connection(port)
        self.connection.connect()
        self.latencies: list[float] = []
        self.failure: Exception | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        body = raw.string("/") + raw.bool_(False)
        try:
            while not self.ended.is_set():
                started = time.perf_counter()
                answer = self.connection.call(raw.GET_DATA, body)
                self.latencies.append(time.perf_counter() - started)
                assert answer["err"] == 0, answer
                time.sleep(0.003)
            self.connection.call(raw.CLOSE_SESSION)
        except (ClosedError, SilenceError, AssertionError) as error:
            self.failure = error
        finally:
            self.connection.close()

    def worst(self) -> float:
        """The latency that 99 of 100 answers stay under."""
        measured = sorted(self.latencies)
        return measured[int(len(measured) * 0.99)] if measured else 0.0


class Undisturbed:
    """Holds a server to the guarantees while the body of the ``with`` attacks it."""

    def __init__(
        self,
        ensemble: Ensemble,
        index: int = 0,
        *,
        memory_max: int = MEMORY_GROWTH_MAX,
        latency_max_s: float = LATENCY_MAX_S,
    ) -> None:
        self.ensemble = ensemble
        self.index = index
        self.memory_max = memory_max
        self.latency_max_s = latency_max_s
        self.server = ensemble.servers[index]
        self.canary = Canary(ensemble.client_ports[index])
        self.control = Canary(calm_port)

    def __enter__(self) -> Self:
        self.files = self.server.open_files()
        self.tracebacks = self.server.log.read_text(errors="replace").count("Traceback")
        self.canary.start()
        self.control.start()
        time.sleep(SETTLE_S)
        self.memory = self.server.resident_bytes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._check()
        finally:
            for client in (self.canary, self.control):
                client.ended.set()
            for client in (self.canary, self.control):
                client.join(10)
        if error is None:
            wait_until(
                lambda: self.server.open_files() <= self.files + 1,
                timeout_s=15,
                what=f"{self.server.open_files()} open files go back to {self.files}",
            )

    def _check(self) -> None:
        # What was sent last may still be at work, and the canary must have been there for it.
        measured = len(self.canary.latencies)
        wait_until(
            lambda: len(self.canary.latencies) > measured + 100 or self.canary.failure,
            timeout_s=20,
            what="answers to the client that did nothing wrong",
        )
        assert self.server.running, f"the server ended:\n{self.server.tail()}"
        assert self.canary.failure is None, f"the other client was not served: {self.canary.failure!r}"
        grown = self.server.resident_bytes() - self.memory
        assert grown < self.memory_max, f"memory grew by {grown / 1e6:.1f} MB"
        calm = max(SLOWER_THAN_CALM * self.control.worst(), 2 * max(self.control.latencies))
        allowed = max(self.latency_max_s, calm)
        worst = self.canary.worst()
        assert worst < allowed, f"the other client waited {worst * 1000:.0f} ms, allowed are {allowed * 1000:.0f}"
        told = self.server.log.read_text(errors="replace").count("Traceback") - self.tracebacks
        assert told <= 1, f"{told} tracebacks in the log:\n{self.server.tail()}"


def closes(connection: Connection, *, within_s: float = 5) -> None:
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
