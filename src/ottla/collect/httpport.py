"""The HTTP endpoint for web beacons: h11 reads and writes HTTP, ``beacons`` says what is in it, and this carries the bytes.

204 is said once what was sent is in the spool. 503 means that there is no room, and that it may be sent again.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

import h11

from ottla.collect.beacons import PIXEL, BeaconError, from_body, from_query
from ottla.collect.intake import Parcel
from ottla.collect.lines import Line
from ottla.collect.shaping import HTTP, Origin
from ottla.collect.sources import Desk, in_thread, serve

HEAD_BYTES_MAX = 16 << 10
REQUEST_S = 30.0
"""How long a request may take to arrive, and how long a connection may stand still."""
GRACE_S = 2.0
FIELD_BYTES_MAX = 1024
READ_BYTES = 64 << 10
QUICK_BYTES = 64 << 10
"""What is longer is taken apart in a thread, as others would have to wait for it."""
ANY = "*"

_TOLD = {"user-agent": "user-agent", "referer": "referer"}


class Answer(NamedTuple):
    status: HTTPStatus
    body: bytes = b""
    kind: str = "text/plain; charset=utf-8"
    more: tuple[tuple[str, str], ...] = ()


class HttpSource:
    def __init__(self, desk: Desk, listening: socket.socket, *, body_bytes_max: int, origins: Sequence[str]) -> None:
        """``origins``: the pages whose scripts may send; ``*`` for all."""
        self._desk = desk
        self._socket = listening
        self._body_bytes_max = body_bytes_max
        self._origins = frozenset(origins)

    async def run(self) -> None:
        await serve(self._socket, self._connection, grace_s=GRACE_S)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        try:
            while True:
                async with asyncio.timeout(REQUEST_S):
                    request = await self._request(connection, reader, writer)
                if request is None:
                    return
                answer = await self._answer(request, peer[0] if peer else "")
                async with asyncio.timeout(REQUEST_S):
                    await _write(connection, writer, request, answer, self._cors(request))
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    return
                connection.start_next_cycle()
        except (h11.LocalProtocolError, OSError, TimeoutError):
            return  # it went away, or stood still
        except h11.RemoteProtocolError as error:
            await _write_error(connection, writer, error)

    async def _request(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _Request | None:
        """The next one, whole; None at the end of the connection."""
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if connection.they_are_waiting_for_100_continue:
                    writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                connection.receive_data(await reader.read(READ_BYTES))
            elif isinstance(event, h11.Request):
                head = event
                length = dict(event.headers).get(b"content-length", b"0")
                if int(length) > self._body_bytes_max:
                    return _Request(head, None)
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._body_bytes_max:
                    assert head is not None
                    return _Request(head, None)
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return _Request(head, bytes(body))
            else:
                return None  # closed, or something that is no HTTP any more

    async def _answer(self, request: _Request, peer: str) -> Answer:
        try:
            if request.body is not None and len(request.body) > QUICK_BYTES:
                parcel, answer = await in_thread(partial(self._take_in, request, peer))
            else:
                parcel, answer = self._take_in(request, peer)
        except BeaconError as error:
            return Answer(error.status, f"{error}\n".encode())
        if parcel.records and not await self._desk.intake.offer(parcel):
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"no room; send it again\n", more=(("Retry-After", "1"),))
        return answer

    def _take_in(self, request: _Request, peer: str) -> tuple[Parcel, Answer]:
        events, answer = self._events(request)
        if any(len(event) > self._desk.line_bytes_max for event in events):
            limit = self._desk.line_bytes_max
            raise BeaconError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"an event of more than {limit} bytes")
        origin = Origin(HTTP, peer, {"path": request.path[:FIELD_BYTES_MAX], **request.told()})
        return self._desk.pack([(origin, [Line(event) for event in events])]), answer

    def _events(self, request: _Request) -> tuple[list[bytes], Answer]:
        if request.body is None:
            raise BeaconError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {self._body_bytes_max} bytes")
        match request.method:
            case "POST":
                return from_body(request.header(b"content-type"), request.body), Answer(HTTPStatus.NO_CONTENT)
            case "GET" if request.path.endswith(".gif"):
                return from_query(request.query), Answer(HTTPStatus.OK, PIXEL, "image/gif")
            case "GET" if request.query:
                return from_query(request.query), Answer(HTTPStatus.NO_CONTENT)
            case "GET":
                raise BeaconError(HTTPStatus.NOT_FOUND, "POST events, or GET with a query")
            case "OPTIONS":
                return [], Answer(HTTPStatus.NO_CONTENT)
            case _:
                raise BeaconError(HTTPStatus.METHOD_NOT_ALLOWED, "POST, GET or OPTIONS")

    def _cors(self, request: _Request) -> list[tuple[str, str]]:
        """A page's script may send from where it was said; what it may read is nothing but the status."""
        origin = request.header(b"origin")
        if not origin or not (ANY in self._origins or origin in self._origins):
            return []
        return [
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Allow-Credentials", "true"),
            ("Access-Control-Allow-Methods", "GET, POST, OPTIONS"),
            ("Access-Control-Allow-Headers", "Content-Type"),
            ("Access-Control-Max-Age", "86400"),
            ("Vary", "Origin"),
        ]


class _Request:
    def __init__(self, head: h11.Request, body: bytes | None) -> None:
        """``body``: None where it is too large."""
        self.body = body
        self.method = head.method.decode("ascii")
        self.path, _, self.query = head.target.decode("latin-1").partition("?")
        self._headers = dict(head.headers)

    def header(self, name: bytes) -> str:
        return self._headers.get(name, b"")[:FIELD_BYTES_MAX].decode("latin-1")

    def told(self) -> dict[str, str]:
        """What the sender's browser says of itself."""
        found = {name: self.header(name.encode()) for name in _TOLD}
        return {name: text for name, text in found.items() if text}


async def _write(
    connection: h11.Connection,
    writer: asyncio.StreamWriter,
    request: _Request,
    answer: Answer,
    cors: list[tuple[str, str]],
) -> None:
    headers = [*cors, *answer.more, ("Cache-Control", "no-store")]
    if answer.status is not HTTPStatus.NO_CONTENT:
        headers += [("Content-Type", answer.kind), ("Content-Length", str(len(answer.body)))]
    if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("Allow", "GET, POST, OPTIONS"))
    if request.body is None:
        headers.append(("Connection", "close"))  # the rest of it is not read
    parts = [
        connection.send(h11.Response(status_code=answer.status, headers=headers, reason=answer.status.phrase.encode())),
        connection.send(h11.Data(data=answer.body)) if answer.body and request.method != "HEAD" else b"",
        connection.send(h11.EndOfMessage()),
    ]
    writer.write(b"".join(part or b"" for part in parts))
    await writer.drain()


async def _write_error(
    connection: h11.Connection, writer: asyncio.StreamWriter, error: h11.RemoteProtocolError
) -> None:
    """What is no HTTP gets a last answer, if none has begun."""
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    text = f"{error}\n".encode()
    headers = [("Connection", "close"), ("Content-Length", str(len(text)))]
    for event in (
        h11.Response(status_code=error.error_status_hint, headers=headers),
        h11.Data(data=text),
        h11.EndOfMessage(),
    ):
        writer.write(connection.send(event) or b"")
