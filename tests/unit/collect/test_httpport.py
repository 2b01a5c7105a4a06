"""The HTTP endpoint over real sockets, with a spool and nobody who sends."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.base.clock import ManualClock
from ottla.collect.batches import decode
from ottla.collect.httpport import HEAD_BYTES_MAX, HttpSource
from ottla.collect.intake import Intake
from ottla.collect.progress import Counters
from ottla.collect.shaping import Shape
from ottla.collect.sources import Desk, Source, SyslogTcpSource
from ottla.collect.spool import Reader, Spool

LIMIT = 2000
EVENT_LIMIT = 1000


class Port:
    def __init__(self, spool: Spool, port: int) -> None:
        self.spool = spool
        self.port = port

    async def send(self, *parts: bytes, is_closed: bool = True) -> bytes:
        """Everything that is answered, once the sender has said all."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for part in parts:
            writer.write(part)
            await writer.drain()
        if is_closed:
            writer.write_eof()
        try:
            return await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()

    async def post(self, body: bytes, *more: bytes, kind: bytes = b"application/json") -> bytes:
        return await self.send(
            b"\r\n".join(
                [b"POST /e HTTP/1.1", b"Host: x", b"Content-Type: " + kind, b"Content-Length: %d" % len(body), *more]
            )
            + b"\r\n\r\n"
            + body
        )

    def values(self) -> list[bytes]:
        return [record.value for _, batch in Reader(self.spool, 0) for record in decode(batch).records]


@asynccontextmanager
async def listening(
    folder: Path,
    *,
    limit: int = 1 << 20,
    body_bytes_max: int = LIMIT,
    is_synced: bool = False,
    is_syslog: bool = False,
) -> AsyncIterator[Port]:
    spool = Spool(folder, limit_bytes=limit)
    bound = socket.create_server(("127.0.0.1", 0))
    intake = Intake(spool, Counters(), is_synced=is_synced)
    desk = Desk(intake, Shape("t"), ManualClock(), "here", EVENT_LIMIT)
    source: Source = (
        SyslogTcpSource(desk, bound)
        if is_syslog
        else HttpSource(desk, bound, body_bytes_max=body_bytes_max, origins=["http://a.example"])
    )
    task = asyncio.create_task(source.run())
    try:
        yield Port(spool, bound.getsockname()[1])
    finally:
        task.cancel()
        await asyncio.wait([task])
        spool.close()


def status(answer: bytes) -> int:
    return int(answer.split()[1])


@pytest.mark.parametrize("is_synced", [False, True])
def test_what_is_acknowledged_is_in_the_spool(tmp_path: Path, is_synced: bool) -> None:
    async def story() -> None:
        async with listening(tmp_path, is_synced=is_synced) as port:
            assert status(await port.post(b'{"a": 1}')) == 204
            assert port.values() == [b'{"a": 1}']
            assert port.spool.synced == (1 if is_synced else 0)
            pixel = await port.send(b"GET /p.gif?b=2 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert status(pixel) == 200
            assert b"image/gif" in pixel
            assert b"GIF89a" in pixel
            assert [json.loads(value) for value in port.values()] == [{"a": 1}, {"b": "2"}]

    asyncio.run(story())


def test_requests_behind_each_other_and_in_chunks(tmp_path: Path) -> None:
    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{}\n{\r\n1\r\n}\r\n0\r\n\r\n"
    get = b"GET /?c=3 HTTP/1.1\r\nHost: x\r\n\r\n"

    async def story() -> None:
        async with listening(tmp_path) as port:
            answers = await port.send(*(bytes([each]) for each in chunked + get))
            assert answers.count(b"HTTP/1.1 204") == 2
            assert port.values() == [b"{}", b"{}", b'{"c": "3"}']

    asyncio.run(story())


def test_a_full_spool_is_told_and_takes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with listening(tmp_path, limit=100) as port:
            assert status(await port.post(b'{"a": "%s"}' % (b"x" * 500))) == 204
            answer = await port.post(b'{"b": 2}')
            assert status(answer) == 503
            assert b"retry-after: 1" in answer.lower()
            assert len(port.values()) == 1
            port.spool.commit(port.spool.end, {})
            port.spool.checkpoint()
            assert status(await port.post(b'{"b": 2}')) == 204

    asyncio.run(story())


def test_limits_and_mistakes(tmp_path: Path) -> None:
    async def story() -> None:
        async with listening(tmp_path) as port:
            assert status(await port.post(b"{" + b" " * LIMIT + b"}")) == 413
            endless = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + b" " * 0x800
            assert status(await port.send(endless, is_closed=False)) == 413
            told = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
            assert status(await port.send(told, is_closed=False)) == 413
            long = b"GET / HTTP/1.1\r\nX: " + b"y" * (HEAD_BYTES_MAX + 100)
            assert status(await port.send(long, is_closed=False)) == 431
            assert status(await port.send(b"\x16\x03\x01 hello\r\n\r\n", is_closed=False)) == 400
            both = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"
            assert status(await port.send(both)) == 400
            assert status(await port.send(b"DELETE / HTTP/1.1\r\nHost: x\r\n\r\n")) == 405
            head, _, body = (await port.send(b"HEAD /?a=1 HTTP/1.1\r\nHost: x\r\n\r\n")).partition(b"\r\n\r\n")
            assert (status(head), body) == (405, b"")
            assert b"allow: get, post, options" in head.lower()
            assert status(await port.post(b"<a/>", kind=b"application/xml")) == 415
            # A body that does not come to its end is none.
            assert status(await port.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{}")) == 400
            assert status(await port.post(b'[{}, {"a": "%s"}]' % (b"x" * EVENT_LIMIT))) == 413
            assert port.values() == []

    asyncio.run(story())


def test_many_events_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with listening(tmp_path, body_bytes_max=1 << 20) as port:
            events = [b'{"number": %d}' % number for number in range(9000)]
            assert status(await port.post(b"\n".join(events))) == 204
            assert port.values() == events

    asyncio.run(story())


def test_scripts_of_the_named_pages_may_send(tmp_path: Path) -> None:
    async def story() -> None:
        async with listening(tmp_path) as port:
            preflight = b"OPTIONS / HTTP/1.1\r\nHost: x\r\nOrigin: %s\r\nAccess-Control-Request-Method: POST\r\n\r\n"
            allowed = await port.send(preflight % b"http://a.example")
            assert status(allowed) == 204
            assert b"access-control-allow-origin: http://a.example" in allowed.lower()
            refused = await port.send(preflight % b"http://b.example")
            assert b"access-control" not in refused.lower()

    asyncio.run(story())


def test_syslog_streams_are_cut_into_messages_and_the_last_may_be_unfinished(tmp_path: Path) -> None:
    async def story() -> None:
        async with listening(tmp_path, is_syslog=True) as port:
            await port.send(b"<1>one\n8 <1>t", b"wo!<1>th", b"ree")
            assert port.values() == [b"<1>one", b"<1>two!<", b"1>three"]

    asyncio.run(story())
