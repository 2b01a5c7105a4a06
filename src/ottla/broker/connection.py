"""A client's connection: frames to requests, answers back in the order of the requests.

Handlers run as frames arrive, so a pipeline of requests is worked through at once. An answer that is parked holds back
those behind it, because a client tells answers apart by their order first. How many requests may wait so is bounded, and
past that nothing more is read: a client cannot make the broker hold more than it is owed.

Where somebody has a quota (``quotas``), every answer is charged for, and a client that is over gets its answer at once and is
not listened to for the time that it was told.

Nobody knows a client before its first request was understood, and that one may not be as large as later ones. Only records
are worth a frame of any size: what names a hundred thousand partitions would keep everybody else waiting for seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from ottla.base.errors import RemoteProtocolError
from ottla.broker.api import Answer, Parked, Reply, Together
from ottla.broker.context import Context
from ottla.broker.dispatch import Route, UnsupportedVersionError
from ottla.net import Connection
from ottla.wire import ApiKey, DecodeError, EncodeError, Message, Part, in_memory, parse_request_header
from ottla.wire.messages.k01_fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.broker.ports import ListenerPort
    from ottla.broker.server import BrokerServer

log = logging.getLogger(__name__)

WAITING_MAX: Final = 128
"""Requests of one connection whose answers are not sent yet."""
FIRST_FRAME_BYTES_MAX: Final = 8 << 20
"""Clients start with ApiVersions, or with another request of a few bytes."""
NAMES_BYTES_MAX: Final = 1 << 20
"""Of a request that names partitions: 30,000 of them, as consumers write them. As records, their offsets take more than a
topic allows for a batch."""
OTHER_BYTES_MAX: Final = 8 << 20
"""Of any other request but Produce: the assignment of a large group."""
# Numbers, not members of an enumeration, for every request passes by here.
PRODUCE: Final = int(ApiKey.PRODUCE)
API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
FETCH: Final = int(ApiKey.FETCH)
BETWEEN_BROKERS: Final = frozenset(
    int(key)
    for key in (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    )
)
"""What no quota holds for."""
TOGETHER_MAX: Final = 16
"""Requests that are handled in one go,"""
TOGETHER_BYTES_MAX: Final = NAMES_BYTES_MAX
"""and what all of them may take."""
_UNFORESEEN: Final = "closing %s:%d: its request %d could not be handled"
_UNTIMED: Final = 63
"""Of so many requests that follow each other no time is taken."""
PRODUCE_FROM: Final = 3
"""Versions of old are read only to be refused."""
_NAMING: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
)


class _Waiting:
    """A request that is not answered, or answered and behind one that is not."""

    __slots__ = ("bill", "correlation_id", "parked", "parts", "route")

    def __init__(self, route: Route, correlation_id: int) -> None:
        self.route = route
        self.correlation_id = correlation_id
        self.bill: Bill | None = None
        self.parked: Parked | None = None
        self.parts: list[Part] | None = None


class Bill:
    """What a request has cost so far, where quotas are set, or where the time is taken for the metrics."""

    __slots__ = ("answered_s", "began_s", "client_id", "request_bytes", "spent_s")

    def __init__(self, client_id: str, request_bytes: int, began_s: float, spent_s: float) -> None:
        self.client_id = client_id
        self.request_bytes = request_bytes
        self.began_s = began_s
        self.spent_s = spent_s
        self.answered_s = began_s


class KafkaConnection(Connection):
    def __init__(self, server: BrokerServer, port: ListenerPort) -> None:
        first = min(FIRST_FRAME_BYTES_MAX, server.config.request_bytes_max)
        super().__init__(frame_bytes_max=first, budget=server.frame_budget, vigil=server.vigil)
        self._server = server
        self._port = port
        self._quotas = server.quotas
        self._mute: asyncio.TimerHandle | None = None
        self._waiting: deque[_Waiting] = deque()
        self._context: Context | None = None
        self._route: Route | None = None
        """Of the last request; mostly, the next one takes the same."""
        self._admitted = False
        self._known = False
        self._may_overtake = True
        self._heard_s = 0.0
        self._heard_bytes = 0

    def opened(self) -> None:
        self._admitted = self._port.listener.admit(self.peer[0])
        if not self._admitted:
            self.abort()
            return
        self._heard_s = asyncio.get_running_loop().time()
        self._context = Context(self._server.services, self._port.name, self.peer)
        self.hold()
        self._server.ports.seats.enter(self)

    @property
    def listener(self) -> str:
        return self._port.name

    def seated(self) -> None:
        """There is room for it (``seats``), and from now on it is listened to."""
        self._server.connections.add(self)
        rates = self._server.connection_rates
        if rates.is_on:
            wait_ms = rates.wait_ms(self._port.name, self.peer[0], perf_counter() * 1000)
            if wait_ms:
                self._throttle(wait_ms)
        self._maybe_unhold()

    def received(self, frame: bytes) -> None:
        context = self._context
        assert context is not None
        key, version, correlation_id, client_id, pos = parse_request_header(frame)
        if len(frame) > NAMES_BYTES_MAX:
            _check_size(key, version, len(frame))
        route = self._route
        if route is None or route.key != key or route.version != version:
            try:
                route = self._server.dispatch.route(key, version)
            except UnsupportedVersionError:
                if key != API_VERSIONS:
                    raise
                route, pos = self._server.dispatch.route(key, 0), len(frame)
                context.unsupported_version = True
            self._route = route
        route.count += 1
        context.client_id = client_id
        context.version = route.version
        request = route.decode(frame, pos)
        if not self._known:
            self._known = True
            self.allow_frames_up_to(self._server.config.request_bytes_max)
        if self._quotas.is_on:
            began_s = self._begin(context, key, request)
        else:
            began_s = 0.0 if route.count & _UNTIMED != 1 else perf_counter()
        try:
            answer = route.handle(context, request)
            if began_s:
                self._bill(context, route, correlation_id, answer, len(frame), began_s)
                return
            if answer is not None:
                self._give(route, correlation_id, answer)
        except RemoteProtocolError:
            raise
        except Exception:
            # A request nobody foresaw costs its sender the connection, and no one else anything.
            log.exception(_UNFORESEEN, *self.peer, key)
            self.abort()

    def received_some(self, frames: list[bytes], at: int) -> int:
        route = self._route
        if route is not None and route.together is not None and at + 1 < len(frames) and not self._quotas.is_on:
            taken = self._received_together(route, route.together, frames, at)
            if taken:
                return taken
        self.received(frames[at])
        return 1

    def _received_together(self, route: Route, together: Together, frames: list[bytes], at: int) -> int:
        """How many were handled; none if there are not two that belong together."""
        context = self._context
        assert context is not None
        requests, correlation_ids = self._alike(context, route, frames, at)
        if len(requests) < 2:
            return 0
        taken = 0
        try:
            for answer in together(context, requests):
                if isinstance(answer, RemoteProtocolError):
                    raise answer
                route.count += 1
                correlation_id = correlation_ids[taken]
                taken += 1
                if answer is not None:
                    self._give(route, correlation_id, answer)
        except RemoteProtocolError:
            raise
        except Exception:
            log.exception(_UNFORESEEN, *self.peer, route.key)
            self.abort()
        return max(taken, 1)

    def _alike(self, context: Context, route: Route, frames: list[bytes], at: int) -> tuple[list[Any], list[int]]:
        """The requests from ``at`` on that differ in what they carry only, and need no time taken."""
        requests: list[Any] = []
        correlation_ids: list[int] = []
        left = TOGETHER_BYTES_MAX
        most = min(TOGETHER_MAX, WAITING_MAX - len(self._waiting))
        for number in range(at, min(len(frames), at + most)):
            frame = frames[number]
            left -= len(frame)
            if left < 0 or (route.count + len(requests) + 1) & _UNTIMED == 1:
                break
            try:
                key, version, correlation_id, client_id, pos = parse_request_header(frame)
                if key != route.key or version != route.version or client_id != context.client_id:
                    break
                requests.append(route.decode(frame, pos))
            except DecodeError:
                break  # its turn comes
            correlation_ids.append(correlation_id)
        return requests, correlation_ids

    def _give(self, route: Route, correlation_id: int, answer: Message | Parked) -> None:
        if not self._waiting and not isinstance(answer, Parked):
            self._send(route.frame(answer, correlation_id))
        else:
            self._park(_Waiting(route, correlation_id), answer)

    def _park(self, waiting: _Waiting, answer: Message | Parked) -> None:
        self._waiting.append(waiting)
        if len(self._waiting) >= WAITING_MAX:
            self.hold()
        if isinstance(answer, Parked):
            waiting.parked = answer
            if answer.holds:
                self._may_overtake = False
                self.hold()
            answer.when_complete(lambda response: self._complete(waiting, response))
        else:
            self._complete(waiting, answer)

    def _complete(self, waiting: _Waiting, response: Reply) -> None:
        if self.is_closing:
            return
        if isinstance(response, RemoteProtocolError):
            log.info("closing %s:%d: %s", *self.peer, response)
            self.abort()
            return
        try:
            if waiting.bill is not None:
                waiting.parts = self._charged(waiting, waiting.bill, response)
                waiting.bill.answered_s = perf_counter()
            else:
                waiting.parts = [] if response is None else waiting.route.frame(response, waiting.correlation_id)
            if self._waiting[0] is not waiting:
                # By the time that it is sent, a file may hold something else.
                waiting.parts = [in_memory(part) for part in waiting.parts]
        except (EncodeError, OSError):
            # Whoever completes it serves others, too, and is not to hear of this.
            log.exception("closing %s:%d: an answer could not be written", *self.peer)
            self.abort()
            return
        if waiting.parked is not None and waiting.parked.holds:
            self._may_overtake = True
        queue = self._waiting
        while queue and queue[0].parts is not None:
            ready = queue.popleft()
            assert ready.parts is not None
            if ready.bill is not None:
                ready.route.times.sent(held_s=perf_counter() - ready.bill.answered_s)
            self._send(ready.parts)
        self._maybe_unhold()

    def _maybe_unhold(self) -> None:
        if len(self._waiting) < WAITING_MAX and self._may_overtake and self._mute is None:
            self.unhold()

    # Quotas and times. Nothing of this runs as long as nobody has a quota, but for one request in 64.

    def _begin(self, context: Context, key: int, request: Message) -> float:
        """When the request was begun; 0 for one that no quota holds for."""
        if key in BETWEEN_BROKERS:
            return 0.0
        if key == FETCH:
            assert isinstance(request, FetchRequest)
            if request.replica_id >= 0 or (request.replica_state is not None and request.replica_state.replica_id >= 0):
                return 0.0
            # More than fits into a quota could never be sent.
            most = self._quotas.fetch_bytes_max(context.user, context.client_id or "")
            request.max_bytes = min(request.max_bytes, most)
        return perf_counter()

    def _bill(
        self, context: Context, route: Route, correlation_id: int, answer: Answer, request_bytes: int, began_s: float
    ) -> None:
        waiting = _Waiting(route, correlation_id)
        waiting.bill = Bill(context.client_id or "", request_bytes, began_s, perf_counter() - began_s)
        if answer is None:
            self._charged(waiting, waiting.bill, None)
        else:
            self._park(waiting, answer)

    def _charged(self, waiting: _Waiting, bill: Bill, response: Message | None) -> list[Part]:
        """The answer as it is sent; the client waits for as long as its quotas ask for."""
        context, quotas, key, now_s = self._context, self._quotas, waiting.route.key, perf_counter()
        assert context is not None
        waiting.route.times.add(spent_s=bill.spent_s, took_s=now_s - bill.began_s)
        if not quotas.is_on:
            return [] if response is None else waiting.route.frame(response, waiting.correlation_id)
        user, client, now_ms = context.user, bill.client_id, now_s * 1000
        wait_ms: int = getattr(response, "throttle_time_ms", 0)
        wait_ms = max(wait_ms, quotas.charge_time(user, client, bill.spent_s, now_ms))
        if key == PRODUCE:
            wait_ms = max(wait_ms, quotas.charge_produce(user, client, bill.request_bytes, now_ms))
        parts = [] if response is None else waiting.route.frame(response, waiting.correlation_id)
        if isinstance(response, FetchResponse):
            fetch_wait_ms, is_sent = quotas.charge_fetch(user, client, sum(map(len, parts)), now_ms)
            wait_ms = max(wait_ms, fetch_wait_ms)
            if not is_sent:
                response = FetchResponse(session_id=response.session_id)
        if wait_ms:
            self._throttle(wait_ms)
            if response is not None and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = wait_ms
                parts = waiting.route.frame(response, waiting.correlation_id)
        return parts

    def _throttle(self, wait_ms: int) -> None:
        """Take nothing more of this client for a while."""
        self.hold()
        if self._mute is not None:
            self._mute.cancel()
        self._mute = asyncio.get_running_loop().call_later(wait_ms / 1000, self._unthrottle)

    def _unthrottle(self) -> None:
        self._mute = None
        if not self.is_closing:
            self._maybe_unhold()

    def _send(self, parts: list[Part]) -> None:
        for part in parts:
            self.write(part)

    def ended(self, error: Exception | None) -> None:
        for waiting in self._waiting:
            if waiting.parts is None and waiting.parked is not None and waiting.parked.on_abandoned is not None:
                waiting.parked.on_abandoned()
        self._waiting.clear()
        if self._mute is not None:
            self._mute.cancel()
        self._server.connections.discard(self)
        if self._admitted:
            self._port.listener.leave(self.peer[0])
            self._server.ports.seats.leave(self)

    def waiting_for(self) -> list[int]:
        """The APIs of the requests that are parked."""
        return [waiting.route.key for waiting in self._waiting if waiting.parts is None]

    def held_back(self) -> int:
        """Answers that are ready and wait for those before them."""
        return sum(waiting.parts is not None for waiting in self._waiting)

    def last_heard_s(self) -> float:
        """Asked from time to time, it sees whether anything came since."""
        if self.bytes_received != self._heard_bytes:
            self._heard_bytes, self._heard_s = self.bytes_received, asyncio.get_running_loop().time()
        return self._heard_s

    def is_idle(self, now_s: float, limit_s: float) -> bool:
        """Nothing has come for too long, and nothing is owed."""
        return now_s - self.last_heard_s() > limit_s and not self._waiting


def _check_size(key: int, version: int, size: int) -> None:
    if key == PRODUCE and version >= PRODUCE_FROM:
        return
    largest = NAMES_BYTES_MAX if key in _NAMING else OTHER_BYTES_MAX
    if size > largest:
        raise RemoteProtocolError(f"a request {key} of {size} bytes, where {largest} is the most")
