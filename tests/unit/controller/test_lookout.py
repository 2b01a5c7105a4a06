"""Who is plainly gone: only a broker at whose every address connections are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.controller import lookout
from ottla.controller.lookout import until_gone
from ottla.metadata.znodes.brokers import Endpoint
from tests.peers.processes import free_ports


def endpoint(port: int) -> Endpoint:
    return Endpoint("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT")


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(120):
            await story()

    asyncio.run(run())


class Listening:
    """A process, as far as others can see: it listens, and its connections end with it."""

    async def start(self, port: int = 0) -> int:
        self._writers: list[asyncio.StreamWriter] = []
        self.met = asyncio.Event()

        async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.append(writer)
            self.met.set()

        self._server = await asyncio.start_server(serve, "127.0.0.1", port)
        return int(self._server.sockets[0].getsockname()[1])

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()
        self.met.clear()

    async def stop(self) -> None:
        self._server.close()
        self.hang_up()
        await self._server.wait_closed()


def test_a_process_that_ends_is_gone() -> None:
    async def story() -> None:
        there = Listening()
        waiting = asyncio.create_task(until_gone([endpoint(await there.start())]))
        await there.met.wait()
        assert not waiting.done()
        await there.stop()
        await waiting

    play(story)


def test_one_that_never_listened_is_gone_too() -> None:
    async def story() -> None:
        await until_gone([endpoint(port) for port in free_ports(2)])

    play(story)


def test_one_that_only_hangs_up_or_listens_elsewhere_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "UNSURE_PAUSE_S", 0.01)

    async def story() -> None:
        there, elsewhere = Listening(), Listening()
        ports = [await there.start(), await elsewhere.start()]
        waiting = asyncio.create_task(until_gone(list(map(endpoint, ports))))
        for _ in range(3):
            await there.met.wait()
            there.hang_up()
        await there.met.wait()
        await there.stop()
        for _ in range(3):
            await elsewhere.met.wait()
            elsewhere.hang_up()
        assert not waiting.done()
        await elsewhere.stop()
        await waiting

    play(story)
