"""The client port: ZooKeeper's protocol, and the four-letter words that share it.

The first four bytes of a connection are the length of a connect request, or a word like ``srvr``; as a length, every
word would be far beyond any limit, so the two cannot be confused. A connection that opens no session in time is closed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from ottla.keeper.server.clients import Client, State
from ottla.keeper.server.frontend import Frontend
from ottla.keeper.server.stats import Stats
from ottla.net import Connection, Listener, Turn, Vigil

log = logging.getLogger(__name__)


class ClientServer(Protocol):
    """What a client connection needs of the server it belongs to."""

    listener: Listener

    @property
    def stats(self) -> Stats: ...

    @property
    def frontend(self) -> Frontend | None:
        """Where clients go now; None while there is no leader."""

    def four_letter_word(self, word: bytes, argument: bytes, asker: ClientConnection) -> bytes | None:
        """The answer to a word, and what stands behind it; None if it is none."""


class ClientConnection(Connection):
    """An ``Outlet`` of the front end, fed by a socket."""

    def __init__(
        self,
        server: ClientServer,
        turn: Turn,
        vigil: Vigil,
        *,
        frame_bytes_max: int,
        sessionless_timeout_s: float,
    ) -> None:
        super().__init__(frame_bytes_max=frame_bytes_max, turn=turn, vigil=vigil)
        self._server = server
        self._sessionless_timeout_s = sessionless_timeout_s
        self._frontend: Frontend | None = None
        self._client: Client | None = None
        self._first = b""
        self._past_first = False
        self._admitted = False
        self._deadline: asyncio.TimerHandle | None = None

    def opened(self) -> None:
        self._admitted = self._server.listener.admit(self.peer[0])
        if not self._admitted:
            self.abort()
            return
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._sessionless_timeout_s, self._close_sessionless)

    def _close_sessionless(self) -> None:
        if self._client is None or self._client.state is State.NEW:
            self._server.stats.sessionless_expired += 1
            self.close()

    def data_received(self, data: bytes) -> None:
        if not self._past_first:
            data = self._first + data
            if len(data) < 4:
                self._first = data
                return
            self._past_first = True
            self._first = b""
            answer = self._server.four_letter_word(data[:4], data[4:12], self)
            if answer is not None:
                self.write(answer)
                self.close()
                return
            self._frontend = self._server.frontend
            if self._frontend is None:
                self._server.stats.connections_unserved += 1
                self.close()
                return
            self._client = self._frontend.connected(self, *self.peer)
        super().data_received(data)

    def received(self, frame: bytes) -> None:
        assert self._frontend is not None
        assert self._client is not None
        try:
            self._frontend.on_frame(self._client, frame)
        except Exception:
            # A request nobody foresaw costs its sender the connection, and no one else anything.
            log.exception("closing %s:%d: its request could not be handled", *self.peer)
            self.abort()

    def ended(self, error: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._frontend is not None and self._client is not None:
            self._frontend.disconnected(self._client)
        if self._admitted:
            self._server.listener.leave(self.peer[0])
