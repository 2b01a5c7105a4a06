"""A client's connection to a server: in order, delayed, and broken at any time at either end."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from ottla.keeper.server.clients import Client, State
from tests.sim.loop import MS
from tests.sim.wire import last_zxid_of

if TYPE_CHECKING:
    from tests.sim.server import Server


class Caller(Protocol):
    """Whoever opened the connection."""

    def on_frame(self, conn: Conn, frame: bytes) -> None: ...
    def on_closed(self, conn: Conn) -> None: ...


class Conn:
    """Satisfies ``ottla.keeper.server.clients.Outlet`` for the server it is connected to."""

    def __init__(self, caller: Caller, server: Server, number: int, first: bytes) -> None:
        self._caller = caller
        self.server = server
        self.number = number
        self.epoch = 0
        """The epoch of the leader behind the server; it cannot change while the connection lasts."""
        self.is_open = True
        """As far as the client knows."""
        self._loop = server.world.loop
        self._delay_us = server.world.rng.randint(100, 4 * MS)
        self._clear_up_us = self._clear_down_us = 0
        self._incarnation = server.incarnation
        self._handle: Client | None = None
        self._reading = True
        self._answered = False
        self._inbox: deque[bytes] = deque()
        self._loop.after(self._delay_us, self._connect, first)

    # The client's side.

    def _connect(self, first: bytes) -> None:
        if self.server.is_running:
            self.server.call(self._incarnation, self._accept, first)
        elif self.server.is_powered:
            self._loop.after(self._delay_us, self._ended)

    def send(self, frame: bytes) -> None:
        if self.is_open:
            self._clear_up_us = max(self._clear_up_us, self._loop.now_us + self._delay_us)
            delay_us = self._clear_up_us - self._loop.now_us
            self._loop.after(delay_us, self.server.call, self._incarnation, self._arrived, frame)

    def drop(self, *, told: bool) -> None:
        """The client lets go; the server may never hear of it."""
        self.is_open = False
        if told:
            self._loop.after(self._delay_us, self.server.call, self._incarnation, self._gone)

    def delivered(self, data: bytes | None) -> None:
        """The server has written this, or closed; called when its step is over."""
        self._clear_down_us = max(self._clear_down_us, self._loop.now_us + self._delay_us)
        delay_us = self._clear_down_us - self._loop.now_us
        if data is None:
            self._loop.after(delay_us, self._ended)
        else:
            self._loop.after(delay_us, self._received, data)

    def _received(self, data: bytes) -> None:
        if self.is_open:
            assert int.from_bytes(data[:4], "big") == len(data) - 4, "one frame a write"
            self._caller.on_frame(self, data[4:])

    def _ended(self) -> None:
        if self.is_open:
            self.is_open = False
            self._caller.on_closed(self)

    # The server's side, inside its process.

    def _accept(self, first: bytes) -> None:
        member = self.server.member
        if not member.is_serving:
            self.close()
            return
        self.epoch = member.role.epoch
        self._handle = member.frontend.connected(self, f"10.0.0.{self.number % 250}", self.number % 65536)
        self.server.conns[self.number] = self
        self._arrived(first)
        if self._handle.state is State.CLOSED and last_zxid_of(first) > member.frontend.tree.last_zxid:
            self.server.world.coverage.hit("session refused: the server lags behind its client")

    def _arrived(self, frame: bytes) -> None:
        if self._handle is None or self._handle.state is State.CLOSED:
            return
        if self._reading:
            self.server.member.frontend.on_frame(self._handle, frame)
            if self._handle.state is State.OPEN:
                self.server.heard_from(self._handle.session_id)
        else:
            self._inbox.append(frame)

    def _gone(self) -> None:
        if self._handle is not None:
            self.server.conns.pop(self.number, None)
            self.server.member.frontend.disconnected(self._handle)

    def _drain(self) -> None:
        while self._inbox and self._reading:
            self._arrived(self._inbox.popleft())

    def write(self, data: bytes) -> None:
        if not self._answered and self._handle is not None:
            self._answered = True
            # A session is heard of when it opens, too.
            self.server.heard_from(self._handle.session_id, agreed_ms=self._handle.timeout_ms)
        self.server.outbox.append((self.number, self, data))

    def close(self) -> None:
        self.server.conns.pop(self.number, None)
        self.server.outbox.append((self.number, self, None))

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        if self._inbox:
            self._loop.after(0, self.server.call, self._incarnation, self._drain)

    def process_gone(self, *, power_cut: bool) -> None:
        if not power_cut:
            self._loop.after(self._delay_us, self._ended)
