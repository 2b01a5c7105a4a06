"""Clients at work: a mixture that uses every promise the witness checks, from threads of this process.

Each worker owns one client and sends pipelines of a few requests: writes with and without versions, creations and
deletions that race with other workers', sequential and ephemeral znodes, multis that succeed and that do not, reads
with watches, syncs followed by reads. One more client holds a recursive watch over everything and only looks on.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Sequence
from threading import Event, Thread
from types import TracebackType
from typing import Self

from tests.chaos.client import (
    Address,
    Client,
    DisconnectedError,
    Opener,
    Request,
    add_watch,
    check,
    children,
    create,
    delete,
    exists,
    get,
    multi,
    set_,
    sync,
)
from tests.chaos.history import History
from tests.peers import wait_until

ROOT = "/chaos"
QUEUE, SHORT_LIVED = f"{ROOT}/q", f"{ROOT}/e"
REGISTERS = tuple(f"{ROOT}/r{number}" for number in range(4))
RACED = tuple(f"{ROOT}/n{number}" for number in range(4))
EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL = 1, 2, 3
PIPELINE_MAX = 4
QUEUE_MAX = 20


class Worker(Thread):
    """One client, one thread. ``pace_s`` is the pause between two pipelines."""

    def __init__(self, client: Client, seed: str, pace_s: float, *, looks_on: bool = False) -> None:
        super().__init__(name=client.name, daemon=True)
        self.client = client
        self.failure: BaseException | None = None
        self._random = random.Random(f"{seed} {client.name}")
        self._pace_s = pace_s
        self._looks_on = looks_on
        self._stopping = Event()
        self._count = 0
        self._versions: dict[str, int] = {}
        self._queued: list[str] = []
        self._session = 0

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step()
                self._stopping.wait(self._pace_s * self._random.uniform(0.5, 1.5))
        except BaseException as error:  # noqa: BLE001  (reported by Load.stop)
            self.failure = error

    def _step(self) -> None:
        try:
            if not self.client.connect(deadline=time.monotonic() + 0.5):
                return
            if self._looks_on:
                self._look_on()
                return
            requests = [self._choose() for _ in range(self._random.randint(1, PIPELINE_MAX))]
            for request, result in zip(requests, self.client.call(*requests), strict=True):
                self._learn(request, result)
        except DisconnectedError:
            pass

    def _look_on(self) -> None:
        if self._session != self.client.session:
            self.client.call(add_watch(ROOT))
            self._session = self.client.session
        self.client.call(get(self._random.choice(REGISTERS)))

    def _choose(self) -> Request:
        draw = self._random
        register, raced = draw.choice(REGISTERS), draw.choice(RACED)
        self._count += 1
        value = f"{self.client.proc}:{self._count}"
        choices: list[tuple[int, Request]] = [
            (20, set_(register, value)),
            (10, set_(register, value, self._versions.get(register, 0))),
            (8, create(raced, value)),
            (6, delete(raced)),
            (8, create(f"{QUEUE}/x-", value, SEQUENTIAL)),
            (4, create(f"{SHORT_LIVED}/{self.client.proc}-", value, EPHEMERAL_SEQUENTIAL)),
            (4, create(f"{SHORT_LIVED}/{self.client.proc}", value, EPHEMERAL)),
            (4, delete(f"{SHORT_LIVED}/{self.client.proc}")),
            (6, multi(set_(register, value), check(raced, 0), create(f"{QUEUE}/m-", value, SEQUENTIAL))),
            (12, get(register, watch=draw.random() < 0.5)),
            (6, exists(raced, watch=draw.random() < 0.5)),
            (4, children(draw.choice((QUEUE, SHORT_LIVED)), watch=draw.random() < 0.3)),
            (6, sync(ROOT)),
        ]
        if len(self._queued) > QUEUE_MAX:
            return delete(self._queued.pop(0))
        return draw.choices([request for _, request in choices], [weight for weight, _ in choices])[0]

    def _learn(self, request: Request, result: dict[str, object]) -> None:
        """Versions for the next conditional write, and what to clear away again."""
        if result["err"]:
            self._versions.pop(str(request.args.get("path")), None)
        elif request.f in ("get", "set"):
            stat = result["stat"]
            assert isinstance(stat, list)
            self._versions[request.args["path"]] = stat[4]
        elif request.f == "create" and str(result["path"]).startswith(QUEUE):
            self._queued.append(str(result["path"]))

    def finish(self, deadline: float) -> None:
        """See everything that was committed, watches included, and close the session."""
        client = self.client
        while client.connect(deadline=deadline):
            try:
                client.call(sync(ROOT), *(get(path) for path in REGISTERS), *(exists(path) for path in client.watched))
                client.end()
                return
            except DisconnectedError:
                continue


class Load:
    """Workers over one ensemble and one history: ``with Load(...) as load``, then ``load.finish()``."""

    def __init__(
        self,
        servers: Sequence[Address],
        history: History,
        *,
        workers: int = 4,
        seed: str = "0",
        pace_s: float = 0.03,
        silence_s: float = 2.0,
        open_socket: Opener = socket.create_connection,
    ) -> None:
        self.history = history
        # Some sessions are short enough to end while a fault lasts.
        timeouts_ms = [2000 if number % 3 == 2 else 30_000 for number in range(workers)]

        def client(name: str, timeout_ms: int = 30_000) -> Client:
            return Client(name, servers, history, timeout_ms=timeout_ms, silence_s=silence_s, open_socket=open_socket)

        clients = [client(f"w{number}", timeout_ms) for number, timeout_ms in enumerate(timeouts_ms)]
        self.workers = [Worker(client, seed, pace_s) for client in clients]
        self.workers.append(Worker(client("onlooker"), seed, pace_s, looks_on=True))
        self._setup = client("setup")

    @property
    def acked(self) -> int:
        """How many writes have been answered without an error."""
        return sum(worker.client.acked for worker in self.workers)

    def start(self) -> Self:
        self.history.happened("load", "note", "clock", {"wall_ms": time.time_ns() / 1e6})
        self._set_up(time.monotonic() + 120)
        for worker in self.workers:
            worker.start()
        return self

    def _set_up(self, deadline: float) -> None:
        """Somebody answers in the end, however long a silence the load bears. What is there already stays."""
        while self._setup.connect(deadline=deadline):
            try:
                self._setup.call(*(create(path) for path in (ROOT, QUEUE, SHORT_LIVED, *REGISTERS)))
            except DisconnectedError:
                continue
            self._setup.end()
            return
        raise TimeoutError("no server takes a client")

    def wait_acked(self, more: int, *, timeout_s: float = 120) -> None:
        """Until that many writes more have been acknowledged."""
        target = self.acked + more
        wait_until(lambda: self.acked >= target, timeout_s=timeout_s, what=f"{more} more writes acknowledged")

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        for worker in self.workers:
            if worker.is_alive():
                worker.join(60)

    def finish(self, *, timeout_s: float = 120) -> None:
        """End the load: every client catches up with the ensemble, then closes its session."""
        self.stop()
        deadline = time.monotonic() + timeout_s
        for worker in self.workers:
            if worker.failure is not None:
                raise worker.failure
            worker.finish(deadline)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for worker in self.workers:
            worker.client.disconnect()
        self._setup.disconnect()
