"""A keeper inside a Python process, for tests and for programs that want their coordination in the box.

    with Keeper() as keeper:
        client = KazooClient(keeper.address)

It runs on a loop in a thread of its own and is the same server as ``ottla keeper``: same ports, same files, same
guarantees. Without a data directory it keeps its data in a temporary one, which goes when it stops.

It may be started again once it has stopped. If its disk fails it ends by itself, as ``ottla keeper`` does, and says so
in ``failed``.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.keeper.config import KeeperConfig
from ottla.keeper.shell import KeeperServer


class Keeper:
    """One keeper, standalone or a member of an ensemble, by its configuration."""

    def __init__(
        self, data_dir: str | Path | None = None, *, port: int = 0, config: KeeperConfig | None = None
    ) -> None:
        self._temporary: str | None = None
        if config is None:
            if data_dir is None:
                self._temporary = data_dir = tempfile.mkdtemp(prefix="ottla-keeper-")
            config = KeeperConfig(data_dir=Path(data_dir), client_port=port, tick_time_ms=2000)
        self.config = config
        self.failed = False
        """Whether the server has ended by itself."""
        self._ready: Future[int] = Future()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    def start(self) -> Self:
        """Start serving; returns once the port is open. Raises what kept it from starting."""
        assert self._thread is None, "started already; stop it first"
        self.failed = False
        self._ready = Future()
        self._thread = threading.Thread(target=self._run, name="ottla-keeper", daemon=True)
        self._thread.start()
        try:
            self._ready.result()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop serving and wait until everything is on disk. Harmless when it does not run."""
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # it has just ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    @property
    def port(self) -> int:
        """The port for clients; of a keeper that has stopped, the one it had."""
        assert self._ready.done(), "not started yet"
        return self._ready.result()

    @property
    def address(self) -> str:
        """Where clients connect, as ``host:port``."""
        return f"{self.config.client_host}:{self.port}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        import uvloop

        uvloop.run(self._serve())

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        server = KeeperServer(self.config)
        try:
            await server.start()
        except Exception as e:  # noqa: BLE001
            self._ready.set_exception(e)
            return
        self._loop = asyncio.get_running_loop()
        self._ready.set_result(server.client_port)
        waits = [asyncio.ensure_future(each.wait()) for each in (self._stopping, server.failed)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self._loop = None
        self.failed = server.failed.is_set()
        await server.stop()
