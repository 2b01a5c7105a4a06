"""Answers leave a connection in the order of the requests, whatever order they are ready in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from weakref import ref

import pytest
import uvloop

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.connection import WAITING_MAX, KafkaConnection
from ottla.broker.context import Context
from ottla.broker.dispatch import Dispatch
from ottla.broker.quotas import ClientQuotas, ConnectionRates
from ottla.broker.seats import Seats
from ottla.broker.services import Services
from ottla.log import FileRange
from ottla.log.files import OpenFile
from ottla.net import FrameBudget, Listener, Vigil
from ottla.wire import ApiKey, decode, parse_response_header, request_framer
from ottla.wire.messages.k01_fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse


class Stage:
    """A server whose DescribeCluster answers when the test says so, ApiVersions at once, and Fetch with a file."""

    def __init__(self) -> None:
        self.file: OpenFile | None = None
        self.parked: list[Parked] = []
        self.abandoned = 0
        dispatch = Dispatch(
            [
                Handler(ApiKey.DESCRIBE_CLUSTER, self.park, Operation.NONE, Resource.NOTHING),
                Handler(ApiKey.API_VERSIONS, self.answer, Operation.NONE, Resource.NOTHING),
                Handler(ApiKey.FETCH, self.fetch, Operation.NONE, Resource.NOTHING),
            ]
        )
        self.connections: set[KafkaConnection] = set()
        self.server = SimpleNamespace(
            config=SimpleNamespace(request_bytes_max=1 << 20),
            services=Services(*[cast("Any", None)] * len(Services._fields)),
            dispatch=dispatch,
            connections=self.connections,
            ports=SimpleNamespace(seats=Seats()),
            frame_budget=FrameBudget(1 << 20),
            vigil=Vigil(),
            quotas=ClientQuotas(samples=11, window_ms=1000, mutation_samples=11, mutation_window_ms=1000),
            connection_rates=ConnectionRates(samples=11, window_ms=1000),
        )
        self.port = SimpleNamespace(name="PLAINTEXT", listener=Listener(connections_max=10, per_address_max=10))
        self.failing = False

    def park(self, _ctx: Context, _request: DescribeClusterRequest) -> Answer:
        self.parked.append(Parked(on_abandoned=self._abandon))
        return self.parked[-1]

    def answer(self, _ctx: Context, _request: ApiVersionsRequest) -> Answer:
        if self.failing:
            raise ZeroDivisionError
        return ApiVersionsResponse()

    def fetch(self, _ctx: Context, _request: FetchRequest) -> Answer:
        assert self.file is not None
        data = PartitionData(records=FileRange(self.file, 0, FILE_BYTES), aborted_transactions=None)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    def _abandon(self) -> None:
        self.abandoned += 1

    def connection(self) -> KafkaConnection:
        return KafkaConnection(cast("Any", self.server), cast("Any", self.port))


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._park = request_framer(DescribeClusterRequest, 0, None)
        self._ask = request_framer(ApiVersionsRequest, 0, None)

    def park(self, correlation_id: int) -> None:
        self.writer.writelines(self._park(DescribeClusterRequest(), correlation_id))

    def ask(self, correlation_id: int) -> None:
        self.writer.writelines(self._ask(ApiVersionsRequest(), correlation_id))

    async def hear(self, key: ApiKey) -> int:
        """The correlation id of the next answer."""
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return parse_response_header(key, 0, await self.reader.readexactly(size))[0]


def play(story: Callable[[Stage, Client], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage()
        server = await asyncio.get_running_loop().create_server(stage.connection, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            async with asyncio.timeout(120):
                await story(stage, Client(reader, writer))
        finally:
            writer.close()
            await until(lambda: not stage.connections)
            server.close()
            await server.wait_closed()
            await asyncio.sleep(0)  # the loop closes what is left of its handles

    uvloop.run(main())


async def until(ready: Callable[[], bool]) -> None:
    while not ready():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.001)


FILE_BYTES = 200_000
CLUSTER, VERSIONS = ApiKey.DESCRIBE_CLUSTER, ApiKey.API_VERSIONS


def test_a_parked_answer_holds_back_those_behind_it() -> None:
    async def story(stage: Stage, client: Client) -> None:
        client.ask(1)
        assert await client.hear(VERSIONS) == 1
        client.park(2)
        client.ask(3)
        client.park(4)
        client.ask(5)
        await until(lambda: len(stage.parked) == 2)
        stage.parked[1].complete(DescribeClusterResponse())
        await asyncio.sleep(0.05)  # nothing may come before 2 is answered: there is nothing to wait for
        assert not client.reader._buffer  # type: ignore[attr-defined]
        stage.parked[0].complete(DescribeClusterResponse())
        heard = [await client.hear(key) for key in (CLUSTER, VERSIONS, CLUSTER, VERSIONS)]
        assert heard == [2, 3, 4, 5]

    play(story)


def test_how_long_an_answer_waits_for_those_before_it_is_measured() -> None:
    """The first request of an API is timed: here the one behind the one that is parked."""

    async def story(stage: Stage, client: Client) -> None:
        times = stage.server.dispatch.tallies.times
        client.park(1)
        client.ask(2)
        await until(lambda: times[int(VERSIONS)].total.count == 1)
        assert times[int(VERSIONS)].responsequeue.count == 0
        stage.parked[0].complete(DescribeClusterResponse())
        assert [await client.hear(key) for key in (CLUSTER, VERSIONS)] == [1, 2]
        (held_ms, *_), (none_ms, *_) = (
            [value for _, value in times[int(key)].responsequeue.quantiles()] for key in (VERSIONS, CLUSTER)
        )
        assert held_ms > none_ms >= 0

    play(story)


def test_a_file_behind_a_parked_answer_is_sent_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"before" * FILE_BYTES)

    async def story(stage: Stage, client: Client) -> None:
        stage.file = OpenFile(tmp_path / "file", os.O_RDWR)
        client.park(1)
        client.writer.writelines(request_framer(FetchRequest, 4, None)(FetchRequest(), 2))
        await until(lambda: any(each.held_back() for each in stage.connections))
        os.pwrite(stage.file.fd, b"after!" * FILE_BYTES, 0)
        stage.parked[0].complete(DescribeClusterResponse())
        assert await client.hear(CLUSTER) == 1
        size = int.from_bytes(await client.reader.readexactly(4), "big")
        answer = decode(FetchResponse, 4, await client.reader.readexactly(size), 4)
        assert answer.responses[0].partitions[0].records == (b"before" * FILE_BYTES)[:FILE_BYTES]

    play(story)


def test_an_answer_that_was_given_refers_to_nobody_who_waited_for_it() -> None:
    """Or each would be one more circle for the collector of garbage to find."""

    class Waiting:
        def hear(self, _response: object) -> None: ...

    parked, waiting = Parked(), Waiting()
    parked.when_complete(waiting.hear)
    gone = ref(waiting)
    del waiting
    assert gone() is not None
    parked.complete(None)
    assert gone() is None


def test_who_waits_for_a_client_that_is_gone_is_told() -> None:
    async def story(stage: Stage, client: Client) -> None:
        client.park(1)
        client.park(2)
        await until(lambda: len(stage.parked) == 2)
        stage.parked[0].complete(DescribeClusterResponse())
        client.writer.close()
        await until(lambda: not stage.connections)
        assert stage.abandoned == 1, "the one that was not answered"
        stage.parked[1].complete(DescribeClusterResponse())  # too late, and nobody's concern

    play(story)


def test_no_more_is_read_than_may_wait() -> None:
    async def story(stage: Stage, client: Client) -> None:
        frame = request_framer(DescribeClusterRequest, 0, "x" * 4000)
        count = 1000  # more than the buffers of two sockets hold, so that reading has to stop for it to be left over
        for number in range(count):
            client.writer.writelines(frame(DescribeClusterRequest(), number))
        await until(lambda: len(stage.parked) >= WAITING_MAX)
        await asyncio.sleep(0.05)
        taken = len(stage.parked)
        for number in range(count):
            await until(lambda number=number: len(stage.parked) > number)  # type: ignore[misc]
            stage.parked[number].complete(DescribeClusterResponse())
            assert await client.hear(CLUSTER) == number
        assert taken < count / 2

    play(story)


def test_what_has_arrived_already_waits_too_once_enough_is_parked() -> None:
    async def story(stage: Stage, client: Client) -> None:
        for number in range(1000):
            client.park(number)
        await until(lambda: len(stage.parked) >= WAITING_MAX)
        await asyncio.sleep(0.05)  # for more to be taken, if more were
        assert len(stage.parked) == WAITING_MAX
        for number in range(1000):
            await until(lambda number=number: len(stage.parked) > number)  # type: ignore[misc]
            stage.parked[number].complete(DescribeClusterResponse())
            assert await client.hear(CLUSTER) == number

    play(story)


def test_a_request_that_nobody_foresaw_costs_its_sender_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage, client: Client) -> None:
        stage.failing = True
        client.ask(1)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.hear(VERSIONS)

    play(story)
    assert "could not be handled" in caplog.text


def test_an_answer_that_cannot_be_written_costs_the_connection_and_not_who_completes_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(stage: Stage, client: Client) -> None:
        client.park(1)
        await until(lambda: len(stage.parked) == 1)
        stage.parked[0].complete(DescribeClusterResponse(controller_id=1 << 40))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.hear(CLUSTER)

    play(story)
    assert "an answer could not be written" in caplog.text


@pytest.mark.parametrize(
    "frame", [b"\0\x7f\0\0\0\0\0\1\xff\xff", b"\0\3\0\0\0\0\0\1\xff\xff", b"\0\x3c\0\x09\0\0\0\1\xff\xff", b"\0"]
)
def test_an_api_or_a_version_that_is_not_served_ends_the_connection(frame: bytes) -> None:
    async def story(_stage: Stage, client: Client) -> None:
        client.writer.write(len(frame).to_bytes(4, "big") + frame)
        assert await client.reader.read() == b""

    play(story)


def test_api_versions_of_the_future_is_answered_in_version_0() -> None:
    async def story(_stage: Stage, client: Client) -> None:
        client.writer.write(b"\0\0\0\x0b\0\x12\0\x63\0\0\0\7\xff\xff\0")
        assert await client.hear(VERSIONS) == 7

    play(story)
