"""A connection in the middle that can be cut, or can lose what comes back: for what happens to a client then."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Proxy:
    """Passes bytes between clients and one server, on the loop of the test."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.swallow = False
        """While true, what the server answers gets lost."""
        self.swallowed = bytearray()
        """All that was lost."""
        self.refuse = False
        """While true, new connections are closed at once."""

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End every connection now."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if not self.refuse:
                await self._relay(reader, writer)
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            return
        self._writers.add(to_server)
        try:
            await asyncio.gather(
                self._pass(reader, to_server, answers=False), self._pass(from_server, writer, answers=True)
            )
        except OSError:
            return
        finally:
            to_server.transport.abort()
            self._writers.discard(to_server)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool) -> None:
        while data := await source.read(65536):
            if answers and self.swallow:
                self.swallowed += data
                continue
            target.write(data)
            await target.drain()
        target.transport.abort()
