"""Calls to other brokers: requests over one connection, answered in the order in which they were sent.

A peer connects when it is first called and again when it is called after the connection ended. Nothing is repeated here:
a call whose connection ended before the answer came raises PeerLostError, and whoever made it knows whether to make it again.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.base.errors import Error, RemoteProtocolError
from ottla.net.connection import Connection
from ottla.wire import APIS, ApiKey, Buffer, DecodeError, Message, decode, parse_response_header, request_framer
from ottla.wire.table import schema

FRAME_BYTES_MAX: Final = 128 << 20

R = TypeVar("R", bound=Message)


class PeerLostError(Error):
    """There is no connection, or it ended before the answer came; the request may or may not have been carried out."""


class PeerRefusedError(PeerLostError):
    """Nobody listens there."""


class _Route(NamedTuple):
    """What is known of all requests of one kind."""

    key: ApiKey
    frame: Callable[[Message, int], list[Buffer]]


class _Call(NamedTuple):
    key: ApiKey
    version: int
    correlation_id: int
    answer: asyncio.Future[Message]


class PeerConnection(Connection):
    """One connection to a broker. ``on_ended`` hears when it is gone."""

    def __init__(self, client_id: str, on_ended: Callable[[], None] | None = None) -> None:
        super().__init__(frame_bytes_max=FRAME_BYTES_MAX)
        self._client_id = client_id
        self._on_ended = on_ended
        self._calls: deque[_Call] = deque()
        self._routes: dict[tuple[type[Message], int], _Route] = {}
        self._last_id = 0

    def call(self, request: Message, version: int) -> asyncio.Future[Message]:
        """Send a request; the future brings its answer, or PeerLostError."""
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if self.is_closing:
            answer.set_exception(PeerLostError("the connection is closed"))
            return answer
        route = self._routes.get((type(request), version)) or self._route(type(request), version)
        self._last_id = (self._last_id + 1) & 0x7FFFFFFF
        self._calls.append(_Call(route.key, version, self._last_id, answer))
        for part in route.frame(request, self._last_id):
            self.write(part)
        return answer

    def _route(self, request: type[Message], version: int) -> _Route:
        key = schema(request.__name__).key
        assert key is not None, request
        route = _Route(ApiKey(key), request_framer(request, version, self._client_id))
        self._routes[request, version] = route
        return route

    def received(self, frame: bytes) -> None:
        if not self._calls:
            raise RemoteProtocolError("an answer that nobody asked for")
        key, version, expected, answer = self._calls.popleft()
        try:
            correlation_id, pos = parse_response_header(key, version, frame)
            if correlation_id != expected:
                raise RemoteProtocolError(f"answer {correlation_id} where {expected} was due")
            response = decode(APIS[key].response, version, frame, pos)
        except (DecodeError, RemoteProtocolError) as error:
            _fail(answer, PeerLostError(f"{self.peer[0]}:{self.peer[1]}: {error}"))
            raise RemoteProtocolError(str(error)) from error
        if not answer.done():
            answer.set_result(response)

    def ended(self, error: Exception | None) -> None:
        calls, self._calls = self._calls, deque()
        for call in calls:
            _fail(call.answer, PeerLostError(f"{self.peer[0]}:{self.peer[1]}: {error or 'the connection was closed'}"))
        if self._on_ended is not None:
            self._on_ended()


class Setup(NamedTuple):
    """How connections come to be."""

    timeout_s: float = 10.0
    """For the first attempt; each that fails gives the next one twice the time."""
    timeout_max_s: float = 30.0
    receive_buffer_bytes: int | None = None
    """None leaves it to the operating system."""

    def timeout_after(self, failures: int) -> float:
        return min(self.timeout_s * 2.0 ** min(failures, 30), max(self.timeout_s, self.timeout_max_s))

    def dial(self, host: str, port: int, *, client_id: str) -> Peer:
        """A ``Dial``."""
        return Peer(host, port, client_id=client_id, setup=self)


class Peer:
    """A broker at an address. One task uses it, or several that do not mind sharing a connection."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        on_ended: Callable[[], None] | None = None,
        setup: Setup = Setup(),  # noqa: B008 - it cannot be changed
    ) -> None:
        self.host = host
        self.port = port
        self._setup = setup
        self._failures = 0
        self._client_id = client_id
        self._on_ended = on_ended
        self._connection: PeerConnection | None = None
        self._connecting = asyncio.Lock()

    async def call(self, request: Message, version: int, answer: type[R], *, timeout_s: float | None = None) -> R:
        """Raises PeerLostError, or TimeoutError when there was no answer in time (the connection is given up then)."""
        connection = self._connection
        if connection is None or connection.is_closing:
            connection = await self._connected()
        if timeout_s is None:
            response = await connection.call(request, version)
        else:
            try:
                async with asyncio.timeout(timeout_s):
                    response = await connection.call(request, version)
            except TimeoutError:
                connection.abort()
                raise
        assert isinstance(response, answer), response
        return response

    def close(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    async def _connected(self) -> PeerConnection:
        async with self._connecting:
            connection = self._connection
            if connection is not None and not connection.is_closing:
                return connection
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(self._setup.timeout_after(self._failures)):
                    transport, connection = await loop.create_connection(
                        lambda: PeerConnection(self._client_id, self._on_ended), self.host, self.port
                    )
            except ConnectionRefusedError as error:
                self._failures += 1
                raise PeerRefusedError(f"{self.host}:{self.port}: nobody listens there") from error
            except (OSError, TimeoutError) as error:
                self._failures += 1
                raise PeerLostError(f"{self.host}:{self.port}: {str(error) or 'no connection in time'}") from error
            self._failures = 0
            if self._setup.receive_buffer_bytes is not None:
                own = transport.get_extra_info("socket")
                own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._setup.receive_buffer_bytes)
            self._connection = connection
            return connection


class Dial(Protocol):
    """Makes the peer at an address: ``Peer`` itself, or what stands for it where there is no network."""

    def __call__(self, host: str, port: int, *, client_id: str) -> Peer: ...


def _fail(answer: asyncio.Future[Message], error: PeerLostError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # nobody may be waiting any more
