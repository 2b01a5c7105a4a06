"""Connections over real sockets on loopback, with the loop that servers run on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from ottla.net import Connection, Listener
from ottla.net.connection import BYTES_PER_TURN, FRAMES_PER_TURN, JOINED_BYTES_MAX

FRAME_BYTES_MAX = 1 << 21


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Echo(Connection):
    """Answers every frame with itself, ``times`` times, and notes how many it took in each turn of the loop."""

    def __init__(self, *, times: int = 1, unsent_bytes_max: int = 1 << 26) -> None:
        super().__init__(frame_bytes_max=FRAME_BYTES_MAX, unsent_bytes_max=unsent_bytes_max)
        self.times = times
        self.turns: list[int] = []
        self.over = asyncio.Event()
        self._counting = False

    def received(self, frame: bytes) -> None:
        if not self._counting:
            self._counting = True
            self.turns.append(0)
            asyncio.get_running_loop().call_soon(self._turn_over)
        self.turns[-1] += 1
        for _ in range(self.times):
            self.write(framed(frame))

    def _turn_over(self) -> None:
        self._counting = False

    def ended(self, error: Exception | None) -> None:
        self.over.set()


Test = Callable[[Echo, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def served(test: Test, **options: int) -> None:
    """Run ``test`` with one end of a connection whose other end is an ``Echo``."""

    async def main() -> None:
        made: asyncio.Future[Echo] = asyncio.get_running_loop().create_future()

        def factory() -> Echo:
            made.set_result(Echo(**options))
            return made.result()

        listener = Listener()
        await listener.listen(factory, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 25)
        try:
            async with asyncio.timeout(120):
                echo = await made
                await test(echo, reader, writer)
                writer.close()
                await echo.over.wait()
        finally:  # a loop that is closed with open transports waits for ever, and a test that failed would not say so
            writer.transport.abort()
            listener.stop()
            if made.done():
                made.result().abort()
            await asyncio.sleep(0.01)

    uvloop.run(main())


@pytest.mark.parametrize("size", [0, 1, JOINED_BYTES_MAX // 2, JOINED_BYTES_MAX * 2, 1 << 20])
def test_answers_come_whole_and_in_order_whatever_their_size(size: int) -> None:
    async def test(_echo: Echo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = b"".join(framed(bytes([number]) * size) for number in range(5))
        writer.write(sent)
        assert await reader.readexactly(3 * len(sent)) == b"".join(
            framed(bytes([number]) * size) * 3 for number in range(5)
        )

    served(test, times=3)


def test_one_turn_takes_a_bounded_number_of_frames() -> None:
    async def test(echo: Echo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = framed(b"x") * (5 * FRAMES_PER_TURN)
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        assert len(echo.turns) >= 5
        assert max(echo.turns) <= FRAMES_PER_TURN

    served(test)


def test_one_turn_causes_a_bounded_amount_of_output() -> None:
    body = bytes(1 << 16)

    async def test(echo: Echo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(body) * 8)
        await reader.readexactly(8 * 64 * (4 + len(body)))
        assert max(echo.turns) * len(body) * 64 <= BYTES_PER_TURN + len(body) * 64

    served(test, times=64)


def test_who_does_not_read_is_not_read_from() -> None:
    async def test(echo: Echo, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: socket.socket = writer.get_extra_info("socket")
        assert peer is not None
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(400):
            writer.write(framed(bytes(1 << 16)))
        taken = -1
        while not echo._write_paused or sum(echo.turns) != taken:  # until nothing more fits between the two
            taken = sum(echo.turns)
            await asyncio.sleep(0.1)
        assert taken < 400
        await asyncio.sleep(0.1)
        assert sum(echo.turns) == taken
        writer.transport.abort()

    served(test)


def test_who_is_sent_more_than_the_bound_is_cut() -> None:
    async def test(echo: Echo, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        while not echo.is_closing:
            echo.write(framed(bytes(1 << 20)))
            await asyncio.sleep(0)
        await echo.over.wait()

    served(test, unsent_bytes_max=1 << 22)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", (FRAME_BYTES_MAX + 1).to_bytes(4, "big")])
def test_an_impossible_length_ends_the_connection_and_what_came_before_is_answered(length: bytes) -> None:
    async def test(_echo: Echo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(b"first"))
        assert await reader.readexactly(9) == framed(b"first")
        writer.write(length)
        assert await reader.read() == b""

    served(test)


def test_close_sends_what_was_written_and_abort_does_not_wait() -> None:
    async def test(echo: Echo, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        echo.write(framed(b"last words"))
        echo.close()
        echo.write(framed(b"too late"))
        assert await reader.read() == framed(b"last words")

    served(test)


def test_a_listener_counts_by_address_and_in_all() -> None:
    listener = Listener(connections_max=3, per_address_max=2)
    assert [listener.admit(address) for address in ("a", "a", "a", "b", "c")] == [True, True, False, True, False]
    assert (len(listener), listener.rejected) == (3, 2)
    listener.leave("a")
    assert listener.admit("c")
    listener.limit(connections_max=5, per_address_max=1, overrides={"d": 2})
    assert [listener.admit(address) for address in ("c", "d", "d", "e")] == [False, True, True, False]
