"""Connections between keepers: channels for election notifications, links for everything else.

Every connection starts with a hello that says who calls and why. A caller that is no member, takes our own id, speaks
another version or says nothing in time is shut out before it can cost more than its hello.

A link carries a snapshot as a run of chunks, made a slice at a time so that the loop goes on; whatever is sent over
the link meanwhile waits its turn behind it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from ottla.base.errors import RemoteProtocolError
from ottla.base.scope import TaskScope
from ottla.keeper.messages import Message
from ottla.keeper.peers import Peer
from ottla.keeper.quorum.messages import Notification
from ottla.keeper.server.tree import DataTree
from ottla.keeper.store import encode_snapshot
from ottla.keeper.wire import (
    FRAME_BYTES_MAX,
    Framed,
    Hello,
    Purpose,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotEnd,
    decode,
    decode_hello,
    decode_notification,
    encode,
    encode_hello,
    encode_notification,
)
from ottla.net import Channel, Connection, Turn

log = logging.getLogger(__name__)

HELLO_TIMEOUT_S: Final = 5.0
HELLO_BYTES_MAX: Final = 64
"""A hello fits, and so does a notification; nothing longer travels over a channel."""
CONNECT_TIMEOUT_S: Final = 5.0
STREAM_AHEAD_BYTES: Final = 1 << 20
HELD_BYTES_MAX: Final = 64 << 20


class Receiver(Protocol):
    """Who acts on what arrives: the shell."""

    def on_notification(self, notification: Notification) -> None: ...
    def on_link_up(self, link: int) -> None: ...
    def on_link_down(self, link: int) -> None: ...
    def on_message(self, link: int, message: Message) -> None: ...
    def on_snapshot_begin(self, link: int, zxid: int) -> None: ...
    def on_snapshot_chunk(self, link: int, data: bytes) -> None: ...
    def on_snapshot_end(self, link: int) -> None: ...


class _Caller(Connection):
    """Our end of a channel: greets, then only sends."""

    def __init__(self, server_id: int) -> None:
        super().__init__(frame_bytes_max=HELLO_BYTES_MAX)
        self._server_id = server_id

    def opened(self) -> None:
        self.write(encode_hello(self._server_id, Purpose.ELECTION))

    def received(self, frame: bytes) -> None:
        raise RemoteProtocolError("an answer where none is expected")


class _Greeting:
    """The wait for the hello of an incoming connection, which must come first and soon."""

    def __init__(self, links: Links, connection: Connection, purpose: Purpose) -> None:
        self._links = links
        self._purpose = purpose
        self._deadline = asyncio.get_running_loop().call_later(HELLO_TIMEOUT_S, connection.abort)

    def read(self, frame: bytes) -> int:
        """Who calls. Raises RemoteProtocolError where that is nobody we know."""
        hello = decode_hello(frame)
        self._links.check_caller(hello, self._purpose)
        self._deadline.cancel()
        return hello.server_id

    def end(self) -> None:
        self._deadline.cancel()


class _ElectionConnection(Connection):
    """Another server's channel to us."""

    def __init__(self, links: Links) -> None:
        super().__init__(frame_bytes_max=HELLO_BYTES_MAX)
        self._links = links
        self._greeting: _Greeting | None = None
        self._server_id: int | None = None

    def opened(self) -> None:
        self._greeting = _Greeting(self._links, self, Purpose.ELECTION)

    def received(self, frame: bytes) -> None:
        assert self._greeting is not None
        if self._server_id is None:
            self._server_id = self._greeting.read(frame)
            return
        notification = decode_notification(frame)
        if notification.sender != self._server_id:
            raise RemoteProtocolError(f"server {self._server_id} sent a notification of server {notification.sender}")
        self._links.receiver.on_notification(notification)

    def ended(self, error: Exception | None) -> None:
        if self._greeting is not None:
            self._greeting.end()


class _Link(Connection):
    """Either end of a link, once it is one."""

    def __init__(self, links: Links, link: int) -> None:
        super().__init__(frame_bytes_max=FRAME_BYTES_MAX, turn=links.turn)
        self.link = link
        self._links = links
        self._streaming: asyncio.Task[None] | None = None
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._drained = asyncio.Event()
        self._drained.set()

    def opened(self) -> None:
        self.write(encode_hello(self._links.server_id, Purpose.LINK))
        self._links.opened(self)

    def received(self, frame: bytes) -> None:
        self._links.dispatch(self.link, decode(frame))

    def ended(self, error: Exception | None) -> None:
        self._drained.set()
        if self._streaming is not None:
            self._streaming.cancel()
        self._links.ended(self.link)

    def send(self, data: bytes) -> None:
        if self._streaming is None:
            self.write(data)
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > HELD_BYTES_MAX:
            log.warning("cutting a learner off: more happens than a snapshot can be sent in")
            self.abort()

    def stream(self, scope: TaskScope, zxid: int, tree: DataTree) -> None:
        assert self._streaming is None, "one snapshot at a time"
        self._streaming = scope.spawn(self._stream(zxid, tree), name="snapshot to a learner")

    async def _stream(self, zxid: int, tree: DataTree) -> None:
        self.write(encode(SnapshotBegin(zxid)))
        for chunk in encode_snapshot(tree):
            self.write(encode(SnapshotChunk(chunk)))
            await asyncio.sleep(0)
            await self._drained.wait()
            if self.is_closing:
                return
        self.write(encode(SnapshotEnd()))
        held, self._held, self._held_bytes = self._held, [], 0
        for data in held:
            self.write(data)
        self._streaming = None

    def pause_writing(self) -> None:
        # Unlike a client, the other end of a link is heard even while it is slow to read: its acknowledgements
        # are what lets it catch up.
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()


class _IncomingLink(_Link):
    """A learner's call. Until its hello is read it is nobody's link, and nothing longer than one is acceptable."""

    def __init__(self, links: Links) -> None:
        super().__init__(links, 0)
        self._reader.bytes_max = HELLO_BYTES_MAX
        self._greeting: _Greeting | None = None

    def opened(self) -> None:
        self._greeting = _Greeting(self._links, self, Purpose.LINK)

    def received(self, frame: bytes) -> None:
        if self.link:
            super().received(frame)
            return
        assert self._greeting is not None
        self._greeting.read(frame)
        self._reader.bytes_max = FRAME_BYTES_MAX
        self.link = self._links.adopt(self)

    def ended(self, error: Exception | None) -> None:
        if self._greeting is not None:
            self._greeting.end()
        if self.link:
            super().ended(error)


class Links:
    """All connections of one member to the others; the ``Network`` of a real keeper."""

    def __init__(
        self, scope: TaskScope, turn: Turn, server_id: int, peers: Mapping[int, Peer], receiver: Receiver
    ) -> None:
        self.turn = turn
        self.server_id = server_id
        self.receiver = receiver
        self._scope = scope
        self._peers = peers
        self._channels: dict[int, Channel] = {}
        self._links: dict[int, _Link] = {}
        self._next_link = 1
        self._connecting: asyncio.Task[None] | None = None
        self._encoded: tuple[Message | None, bytes] = (None, b"")

    def election_connection(self) -> Connection:
        return _ElectionConnection(self)

    def link_connection(self) -> Connection:
        return _IncomingLink(self)

    def check_caller(self, hello: Hello, purpose: Purpose) -> None:
        if hello.server_id not in self._peers or hello.server_id == self.server_id:
            raise RemoteProtocolError(f"a caller that calls itself server {hello.server_id}, which is no other member")
        if hello.purpose is not purpose:
            raise RemoteProtocolError(f"server {hello.server_id} called the wrong port")

    # What Member asks for.

    def notify(self, server_id: int, notification: Notification) -> None:
        channel = self._channels.get(server_id)
        if channel is None:
            at = self._peers[server_id].election
            channel = Channel(self._scope, lambda: _Caller(self.server_id), at.host, at.port)
            self._channels[server_id] = channel
        channel.send(encode_notification(notification))

    def connect(self, server_id: int) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        link, self._next_link = self._next_link, self._next_link + 1
        self._connecting = self._scope.spawn(self._connect(link, server_id), name=f"link to server {server_id}")

    async def _connect(self, link: int, server_id: int) -> None:
        at = self._peers[server_id].quorum
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(lambda: _Link(self, link), at.host, at.port)
        except (OSError, TimeoutError) as e:
            log.info("server %d cannot be reached: %s", server_id, str(e) or "no answer")
            self.receiver.on_link_down(link)

    def send(self, link: int, message: Message) -> None:
        connection = self._links.get(link)
        if connection is None:
            return
        # The same proposal or commit goes to every learner in turn.
        if self._encoded[0] is not message:
            self._encoded = (message, encode(message))
        connection.send(self._encoded[1])

    def send_snapshot(self, link: int, zxid: int, tree: DataTree) -> None:
        connection = self._links.get(link)
        if connection is not None:
            connection.stream(self._scope, zxid, tree)

    def close(self, link: int) -> None:
        connection = self._links.pop(link, None)
        if connection is not None:
            connection.close()

    def close_all(self) -> None:
        for link in list(self._links):
            self.close(link)

    # What connections report.

    def adopt(self, connection: _Link) -> int:
        """A member called: its connection is a link from now on."""
        link, self._next_link = self._next_link, self._next_link + 1
        self._links[link] = connection
        return link

    def opened(self, connection: _Link) -> None:
        self._links[connection.link] = connection
        self.receiver.on_link_up(connection.link)

    def ended(self, link: int) -> None:
        if self._links.pop(link, None) is not None:
            self.receiver.on_link_down(link)

    def dispatch(self, link: int, message: Framed) -> None:
        if link not in self._links:
            return
        if isinstance(message, SnapshotBegin):
            self.receiver.on_snapshot_begin(link, message.zxid)
        elif isinstance(message, SnapshotChunk):
            self.receiver.on_snapshot_chunk(link, message.data)
        elif isinstance(message, SnapshotEnd):
            self.receiver.on_snapshot_end(link)
        else:
            self.receiver.on_message(link, message)
