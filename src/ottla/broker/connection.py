"""A client's connection: frames to requests, answers back in the order of the requests.

Handlers run as frames arrive, so a pipeline of requests is worked through at once. An answer that is parked holds back
those behind it, because a client tells answers apart by their order first. How many requests may wait so is bounded, and
past that nothing more is read: a client cannot make the broker hold more than it is owed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from ottla.base.errors import RemoteProtocolError
from ottla.broker.api import Parked
from ottla.broker.context import Context
from ottla.broker.dispatch import Route, UnsupportedVersionError
from ottla.net import Connection
from ottla.wire import ApiKey, Buffer, Message, parse_request_header

if TYPE_CHECKING:
    from ottla.broker.server import BrokerServer, ListenerPort

log = logging.getLogger(__name__)

WAITING_MAX = 128
"""Requests of one connection whose answers are not sent yet."""


class _Waiting:
    """A request that is not answered, or answered and behind one that is not."""

    __slots__ = ("correlation_id", "parts", "route")

    def __init__(self, route: Route, correlation_id: int) -> None:
        self.route = route
        self.correlation_id = correlation_id
        self.parts: list[Buffer] | None = None


class KafkaConnection(Connection):
    def __init__(self, server: BrokerServer, port: ListenerPort) -> None:
        super().__init__(frame_bytes_max=server.config.request_bytes_max)
        self._server = server
        self._port = port
        self._waiting: deque[_Waiting] = deque()
        self._context: Context | None = None
        self._admitted = False
        self._heard_s = 0.0

    def opened(self) -> None:
        self._admitted = self._port.listener.admit(self.peer[0])
        if not self._admitted:
            self.abort()
            return
        self._heard_s = asyncio.get_running_loop().time()
        self._context = Context(self._server.services, self._port.name, self.peer)
        self._server.connections.add(self)

    def received(self, frame: bytes) -> None:
        context = self._context
        assert context is not None
        key, version, correlation_id, client_id, pos = parse_request_header(frame)
        try:
            route = self._server.dispatch.route(key, version)
        except UnsupportedVersionError:
            if key != ApiKey.API_VERSIONS:
                raise
            route, pos = self._server.dispatch.route(key, 0), len(frame)
            context.unsupported_version = True
        context.client_id = client_id
        context.version = route.version
        request = route.decode(frame, pos)
        try:
            answer = route.handle(context, request)
        except RemoteProtocolError:
            raise
        except Exception:
            # A request nobody foresaw costs its sender the connection, and no one else anything.
            log.exception("closing %s:%d: its request %d could not be handled", *self.peer, key)
            self.abort()
            return
        if answer is None:
            return
        if not self._waiting and not isinstance(answer, Parked):
            self._send(route.frame(answer, correlation_id))
            return
        self._park(_Waiting(route, correlation_id), answer)

    def _park(self, waiting: _Waiting, answer: Message | Parked) -> None:
        self._waiting.append(waiting)
        if len(self._waiting) >= WAITING_MAX:
            self.pause_reading()
        if isinstance(answer, Parked):
            answer.when_complete(lambda response: self._complete(waiting, response))
        else:
            self._complete(waiting, answer)

    def _complete(self, waiting: _Waiting, response: Message) -> None:
        waiting.parts = waiting.route.frame(response, waiting.correlation_id)
        if self.is_closing:
            return
        queue = self._waiting
        while queue and queue[0].parts is not None:
            parts = queue.popleft().parts
            assert parts is not None
            self._send(parts)
        if len(queue) < WAITING_MAX:
            self.resume_reading()

    def _send(self, parts: list[Buffer]) -> None:
        for part in parts:
            self.write(part)

    def ended(self, error: Exception | None) -> None:
        self._waiting.clear()
        self._server.connections.discard(self)
        if self._admitted:
            self._port.listener.leave(self.peer[0])

    def is_idle(self, now_s: float, limit_s: float) -> bool:
        """Nothing has come for too long, and nothing is owed."""
        return not self._waiting and now_s - self._heard_s > limit_s

    def data_received(self, data: bytes) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        super().data_received(data)
