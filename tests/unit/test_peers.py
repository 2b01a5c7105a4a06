"""Calls to other brokers: answers come to whom they belong, and a lost connection loses no caller."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from struct import Struct

import pytest

from ottla.controller.streams import over_sockets
from ottla.metadata import BrokerId, LiveBroker
from ottla.metadata.znodes.brokers import BrokerRegistration, Endpoint
from ottla.peers import Peer, PeerLostError, PeerRefusedError, Setup
from ottla.wire import in_memory, parse_request_header, response_framer
from ottla.wire.messages.k07_controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from tests.peers.processes import free_ports

VERSION = 3
_SIZE = Struct(">i")
Answer = Callable[[int], bytes]


def echo(correlation_id: int) -> bytes:
    frame = response_framer(ControlledShutdownResponse, VERSION)
    return b"".join(map(in_memory, frame(ControlledShutdownResponse(error_code=7), correlation_id)))


def play(answer: Answer | None, story: Callable[[Peer], Awaitable[None]]) -> None:
    """A broker that answers each request so; with None it hangs up instead."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while size := await reader.read(4):
                request = await reader.readexactly(_SIZE.unpack(size)[0])
                if answer is None:
                    break
                writer.write(answer(parse_request_header(request)[2]))
        finally:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        peer = Peer(host, port, client_id="1")
        async with asyncio.timeout(120), server:
            await story(peer)
            peer.close()

    asyncio.run(run())


async def ask(peer: Peer) -> int:
    response = await peer.call(ControlledShutdownRequest(broker_id=1), VERSION, ControlledShutdownResponse)
    return response.error_code


def test_many_calls_share_a_connection() -> None:
    async def story(peer: Peer) -> None:
        assert await asyncio.gather(*(ask(peer) for _ in range(20))) == [7] * 20

    play(echo, story)


def test_a_connection_that_ends_fails_the_calls_on_it_and_the_next_call_connects_again() -> None:
    async def story(peer: Peer) -> None:
        for _ in range(2):
            with pytest.raises(PeerLostError):
                await ask(peer)

    play(None, story)


def test_an_answer_to_another_request_is_not_believed() -> None:
    async def story(peer: Peer) -> None:
        with pytest.raises(PeerLostError, match="was due"):
            await ask(peer)

    play(lambda correlation_id: echo(correlation_id + 1), story)


def test_nonsense_instead_of_an_answer_ends_the_connection() -> None:
    async def story(peer: Peer) -> None:
        with pytest.raises(PeerLostError):
            await ask(peer)

    play(lambda _: _SIZE.pack(5) + b"\0\0\0\1\xff", story)


def test_nobody_there_is_told_apart() -> None:
    async def run() -> None:
        (port,) = free_ports(1)
        with pytest.raises(PeerRefusedError):
            await ask(Peer("127.0.0.1", port, client_id="1"))

    asyncio.run(run())


def test_an_attempt_to_connect_has_its_time_and_the_next_one_twice_as_much() -> None:
    assert [Setup(10, 30).timeout_after(failures) for failures in (0, 1, 2, 1_000)] == [10, 20, 30, 30]
    assert Setup(10, 1).timeout_after(5) == 10


def test_attempts_that_fail_are_counted_until_one_succeeds() -> None:
    asked: list[int] = []

    class Told(Setup):
        def timeout_after(self, failures: int) -> float:
            asked.append(failures)
            return 0.01 if is_silent else 60

    is_silent = True

    async def story(server: Peer) -> None:
        nonlocal is_silent
        loop = asyncio.get_running_loop()
        connect = loop.create_connection

        async def never(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        peer = Told().dial(server.host, server.port, client_id="1")
        loop.create_connection = never  # type: ignore[assignment, method-assign]
        for _ in range(3):
            with pytest.raises(PeerLostError, match="no connection in time"):
                await ask(peer)
        loop.create_connection, is_silent = connect, False  # type: ignore[method-assign]
        assert await ask(peer) == 7
        peer.close()
        assert await ask(peer) == 7
        peer.close()

    play(echo, story)
    assert asked == [0, 1, 2, 3, 0]


def test_a_connection_has_the_buffer_it_was_set_up_with() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        sizes = []
        async with server:
            for size in (None, 8192):
                peer = Setup(receive_buffer_bytes=size).dial(host, port, client_id="1")
                connection = await peer._connected()
                assert connection._transport is not None
                own = connection._transport.get_extra_info("socket")
                sizes.append(own.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
                peer.close()
        assert sizes[1] == 2 * 8192, "Linux doubles it"
        assert sizes[0] != sizes[1]

    asyncio.run(run())


def test_a_controller_does_not_wait_longer_for_a_broker_than_it_was_told_to() -> None:
    async def story(peer: Peer) -> None:
        registration = BrokerRegistration(BrokerId(2), (Endpoint("PLAINTEXT", peer.host, peer.port, "PLAINTEXT"),))
        link = over_sockets(BrokerId(1), "PLAINTEXT", timeout_s=0.01)(LiveBroker(registration, 1))
        assert link is not None
        with pytest.raises(TimeoutError):
            await link.call(ControlledShutdownRequest(broker_id=1), VERSION)
        link.close()

    play(lambda _: b"", story)
