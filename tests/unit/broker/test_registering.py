"""Whether a broker is where it is registered: asked over real sockets, of servers that answer, refuse and say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ottla.broker import registering
from ottla.broker.registering import register
from ottla.metadata import BrokerId, BrokerRegistration
from ottla.metadata.znodes.brokers import Endpoint
from ottla.registry import NodeExistsError, Registry
from ottla.wire import ErrorCode, decode, in_memory, parse_request_header, response_framer
from ottla.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.peers import free_ports
from tests.peers.memorystore import MemoryEnsemble, MemoryStore

T = TypeVar("T")
ONE = BrokerId(1)
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def registration(port: int, *more: int) -> BrokerRegistration:
    endpoints = tuple(Endpoint(f"L{each}", "127.0.0.1", each, "PLAINTEXT") for each in (port, *more))
    return BrokerRegistration(ONE, endpoints)


def broker(own_id: int) -> Serve:
    """Answers DescribeConfigs as a broker of this id does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        _, version, correlation_id, _, pos = parse_request_header(frame)
        (resource,) = decode(DescribeConfigsRequest, version, frame, pos).resources
        code = ErrorCode.NONE if resource.resource_name == str(own_id) else ErrorCode.INVALID_REQUEST
        response = DescribeConfigsResponse(results=[DescribeConfigsResult(error_code=code)])
        writer.writelines(map(in_memory, response_framer(DescribeConfigsResponse, version)(response, correlation_id)))

    return serve


async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def babbling(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def registered_twice(first: BrokerRegistration, second: BrokerRegistration, *, wait_ms: int = 0) -> bool:
    """Two processes with one id; whether the second got the place, and the office of the first with it."""
    ensemble = MemoryEnsemble()
    async with MemoryStore(ensemble) as one, MemoryStore(ensemble) as two:
        dead, new = Registry(one), Registry(two)
        await dead.cluster.make_paths()
        epoch = await dead.brokers.register(first)
        assert await dead.controllers.elect(ONE, timestamp_ms=1) is not None
        taken = await register(new, second, wait_ms=wait_ms)
        assert taken > epoch
        assert (await new.brokers.read_all())[ONE].registration == second
        return await new.controllers.current() is None


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers is heard, however long this process stands still meanwhile."""
    monkeypatch.setattr(registering, "PATIENCE_S", 60)


def run(story: Callable[[int], Awaitable[T]], serve: Serve) -> T:
    serving: list[asyncio.Task[None] | None] = []

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()

    async def main() -> T:
        async with asyncio.timeout(120), await asyncio.start_server(served, "127.0.0.1", 0) as server:
            try:
                return await story(server.sockets[0].getsockname()[1])
            finally:
                await asyncio.gather(*filter(None, serving))

    return asyncio.run(main())


def test_nobody_is_there_so_the_place_is_taken() -> None:
    (port,) = free_ports(1)
    assert asyncio.run(registered_twice(registration(port), registration(port + 1)))


def test_an_address_of_ones_own_is_nobody_elses() -> None:
    """The next process listens where the last one did: it would hear itself."""
    assert run(lambda port: registered_twice(registration(port), registration(port)), broker(1))


def test_a_broker_of_another_id_is_not_the_one_that_registered() -> None:
    assert run(lambda port: registered_twice(registration(port), registration(1)), broker(2))


def test_a_broker_that_answers_keeps_its_place() -> None:
    with pytest.raises(NodeExistsError, match=r"broker\.id 1 is in use"):
        run(lambda port: registered_twice(registration(port), registration(1), wait_ms=600_000), broker(1))


def test_one_listener_that_answers_is_enough() -> None:
    (dead,) = free_ports(1)
    with pytest.raises(NodeExistsError, match="is in use"):
        run(lambda port: registered_twice(registration(dead, port), registration(1)), broker(1))


@pytest.mark.parametrize("serve", [silent, babbling])
def test_what_cannot_be_told_is_left_to_the_session(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registering, "PATIENCE_S", 0.05)
    with pytest.raises(NodeExistsError, match="another session"):
        run(lambda port: registered_twice(registration(port), registration(1)), serve)
