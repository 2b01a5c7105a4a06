"""Client connections to requests, requests to replies: the part of a server its clients see.

A request is a read, answered from the tree at once, or a write, which goes *upstream* (to the leader, wherever it
is) and is answered when its transaction comes back to be applied. Replies keep the order of the requests: behind a
write, everything else of that client waits in ``Client.waiting``; when the transaction is applied, the write and
what only waited behind it are answered.

    frame ──► connect ──► upstream.submit(CREATE_SESSION) or upstream.revalidate ──► session_opened
         ├──► auth: at once, changes ``Client.ids``
         ├──► read: answered at once, or queued behind a write
         └──► write, sync: queued and sent upstream ──► applied / synced ──► reply, and the queue moves on

Roles differ only in the ``Upstream`` plugged in: a leader or a lone server prepares and proposes, a follower or
observer forwards, a read-only server refuses. ``apply`` runs on every server for every transaction, in zxid order.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple, Protocol

from ottla.base.clock import Clock
from ottla.keeper.proto.errors import ErrorCode, KeeperError, MarshallingError, NullListError
from ottla.keeper.proto.jute import NULL, Reader, put_string
from ottla.keeper.proto.opcodes import WRITES, OpCode
from ottla.keeper.proto.records import (
    FRAMED_REPLY_HEADER,
    MULTI_END,
    PING_XID,
    REQUEST_HEADER,
    REQUESTS,
    AuthRequest,
    ConnectRequest,
    Request,
    connect_response,
    put_multi_error,
    put_multi_result,
    read_connect_request,
    reply,
)
from ottla.keeper.proto.txns import CreateSessionTxn, Txn
from ottla.keeper.server import acl as acls
from ottla.keeper.server.clients import Client, Outlet, State, Waiting
from ottla.keeper.server.prep import Submitted
from ottla.keeper.server.reads import READS
from ottla.keeper.server.sessions import first_session_id, password_of
from ottla.keeper.server.stats import OP_NAMES, Stats
from ottla.keeper.server.tree import DataTree, Result

log = logging.getLogger(__name__)

_unpack_header = REQUEST_HEADER.unpack_from
_pack_reply = FRAMED_REPLY_HEADER.pack
_SUBMITTED: Final = frozenset(WRITES - {OpCode.CHECK, OpCode.CREATE_SESSION}) | {OpCode.SYNC}
"""What clients may send upstream. A lone CHECK is no request, and sessions are the ensemble's affair."""


IDS_MAX: Final = 1000
"""Identities one connection may prove; each costs every check of an ACL a little."""


class Upstream(Protocol):
    """The way to the leader, from wherever this server stands."""

    read_only: bool

    def submit(self, request: Submitted) -> None:
        """Make a transaction of it; the answer comes back through ``Frontend.apply``."""

    def sync(self, session_id: int, cxid: int) -> None:
        """Answer through ``Frontend.synced`` once this server has all that was committed before this was asked."""

    def revalidate(self, session_id: int, timeout_ms: int) -> None:
        """Ask whether a session is alive and move it here; answered through ``Frontend.revalidated``."""


class Settings(NamedTuple):
    server_id: int
    min_session_timeout_ms: int
    max_session_timeout_ms: int
    super_digest: str | None = None
    skip_acl: bool = False
    outstanding_max: int = 1000
    digest_algorithm: str | None = "sha1"
    """By hashlib's name; None if nobody may authenticate by a digest."""


class Frontend:
    """The clients of one server, over one tree and one way upstream."""

    def __init__(self, tree: DataTree, upstream: Upstream, settings: Settings, clock: Clock, stats: Stats) -> None:
        self.tree = tree
        self.upstream = upstream
        self.settings = settings
        self.clock = clock
        self.stats = stats
        self.clients: set[Client] = set()
        self.by_session: dict[int, Client] = {}
        self.touched: set[int] = set()
        """Sessions heard from since the last tick; the leader learns of them then."""
        self._next_session_id = first_session_id(settings.server_id, clock.wall_ms())
        self._outstanding = 0
        self._paused: list[Client] = []

    # Connections.

    def connected(self, outlet: Outlet, address: str, port: int) -> Client:
        client = Client(outlet, address, port, self.clock.wall_ms(), skip_acl=self.settings.skip_acl)
        self.clients.add(client)
        return client

    def disconnected(self, client: Client) -> None:
        """The connection is gone; the session lives on until it expires or its client comes back."""
        if client.state is not State.CLOSED:
            self.stats.connections_dropped += 1
            self._forget(client)

    def _forget(self, client: Client) -> None:
        client.state = State.CLOSED
        self.clients.discard(client)
        self.tree.watches.remove_watcher(client)
        if self.by_session.get(client.session_id) is client:
            del self.by_session[client.session_id]
        self._outstanding -= len(client.waiting)
        client.waiting.clear()
        client.backlog.clear()
        self._maybe_resume()

    def close(self, client: Client) -> None:
        if client.state is not State.CLOSED:
            self._forget(client)
        client.outlet.close()

    def close_all(self) -> None:
        """The role changes: every client must come back, here or elsewhere."""
        for client in list(self.clients):
            self.close(client)

    # Requests.

    def on_frame(self, client: Client, frame: bytes) -> None:
        stats = self.stats
        client.received += 1
        stats.packets_received += 1
        stats.bytes_received += len(frame)
        if client.state is not State.OPEN:
            self._on_early_frame(client, frame)
            return
        if len(frame) < REQUEST_HEADER.size:
            log.warning("closing %s: a request of %d bytes", client.address, len(frame))
            self.close(client)
            return
        self.touched.add(client.session_id)
        xid, type_ = _unpack_header(frame)
        if client.waiting:
            self._queue(client, xid, type_, frame)
        elif (read := READS.get(type_)) is not None:
            tree, latency = self.tree, stats.read_latency
            count = latency.count
            started = 0.0 if count & latency.mask else self.clock.monotonic()
            latency.count = count + 1
            try:
                body = read(tree, client, frame)
                size = 16 + len(body)
                client.outlet.write(_pack_reply(size, xid, tree.last_zxid, 0) + body)
            except KeeperError as e:
                size = 16 + len(e.body)
                client.outlet.write(_pack_reply(size, xid, tree.last_zxid, e.code) + e.body)
            self._answered(client, type_, xid, size, 0)
            if started:
                now = self.clock.monotonic()
                client.last_response_ms = int(now * 1000)
                stats.read_shown((now - started) * 1000, frame, size)
        else:
            self._queue(client, xid, type_, frame)

    def _on_early_frame(self, client: Client, frame: bytes) -> None:
        if client.state is State.NEW:
            self._connect(client, frame)
        elif client.state is State.CONNECTING:
            client.backlog.append(frame)

    def _queue(self, client: Client, xid: int, type_: int, frame: bytes) -> None:
        """Everything that is not a read with nothing before it."""
        if type_ == OpCode.AUTH:
            self._auth(client, xid, frame)
            return
        submit, request = _read(type_, frame) if type_ in _SUBMITTED else (False, None)
        if not submit and not client.waiting:
            self._answer(client, Waiting(xid, type_, frame, 0, submitted=False), 0)
            client.last_response_ms = int(self.clock.monotonic() * 1000)
            return
        client.waiting.append(Waiting(xid, type_, frame, int(self.clock.monotonic() * 1000), submitted=submit))
        self._outstanding += 1
        if self._outstanding > self.settings.outstanding_max and not client.paused:
            client.paused = True
            self.stats.throttled += 1
            client.outlet.pause_reading()
            self._paused.append(client)
        if submit:
            self._submit(client, xid, type_, frame, request)

    def _submit(self, client: Client, xid: int, type_: int, frame: bytes, request: Request | None) -> None:
        if self.upstream.read_only:
            self._finish_head(client, ErrorCode.NOT_READ_ONLY, b"")
        elif type_ == OpCode.SYNC:
            self.upstream.sync(client.session_id, xid)
        else:
            owner = self.settings.server_id
            self.upstream.submit(Submitted(client.session_id, xid, type_, frame[8:], client.ids, owner, request))

    def _auth(self, client: Client, xid: int, frame: bytes) -> None:
        try:
            request = REQUESTS[OpCode.AUTH](Reader(frame, REQUEST_HEADER.size))
            assert isinstance(request, AuthRequest)
            settings = self.settings
            earned = acls.authenticate(
                request.scheme, request.auth, client.address, settings.super_digest, settings.digest_algorithm
            )
        except MarshallingError:
            earned = []
        if earned and len(client.ids) < IDS_MAX:
            client.ids = tuple(dict.fromkeys((*client.ids, *earned)))
            self._write(client, reply(xid, 0, ErrorCode.OK))
        else:
            log.warning("closing %s: authentication failed", client.address)
            self.stats.auth_failed += 1
            self._write(client, reply(xid, 0, ErrorCode.AUTH_FAILED))
            self.close(client)

    # Sessions.

    def _connect(self, client: Client, frame: bytes) -> None:
        try:
            request = read_connect_request(frame)
        except MarshallingError as e:
            log.warning("closing %s: %s", client.address, e)
            self.close(client)
            return
        self.stats.connect_requests += 1
        refusal = self._refuse(request)
        if refusal:
            log.info("refusing %s: %s", client.address, refusal)
            self.close(client)
            return
        low, high = self.settings.min_session_timeout_ms, self.settings.max_session_timeout_ms
        client.timeout_ms = min(max(request.timeout_ms, low), high)
        client.with_read_only = request.has_read_only
        client.state = State.CONNECTING
        client.outlet.pause_reading()
        if request.session_id == 0:
            self._create_session(client)
        elif request.password != password_of(request.session_id):
            log.warning("wrong password from %s for session 0x%x", client.address, request.session_id)
            self._session_refused(client)
        else:
            self._reattach(client, request.session_id)

    def _refuse(self, request: ConnectRequest) -> str | None:
        if self.upstream.read_only and not request.read_only:
            return "this server is read-only and the client is not"
        if request.last_zxid_seen > self.tree.last_zxid:
            return f"it has seen zxid 0x{request.last_zxid_seen:x}, this server only 0x{self.tree.last_zxid:x}"
        return None

    def _create_session(self, client: Client) -> None:
        client.session_id = self._next_session_id
        self._next_session_id += 1
        self.by_session[client.session_id] = client
        if self.upstream.read_only:
            self._session_opened(client)
            return
        body = client.timeout_ms.to_bytes(4, "big")
        owner = self.settings.server_id
        self.upstream.submit(Submitted(client.session_id, 0, OpCode.CREATE_SESSION, body, client.ids, owner))

    def _reattach(self, client: Client, session_id: int) -> None:
        before = self.by_session.pop(session_id, None)
        if before is not None:
            self.close(before)
        self.stats.sessions_revalidated += 1
        client.session_id = session_id
        self.by_session[session_id] = client
        if self.upstream.read_only:
            self.revalidated(session_id, valid=session_id in self.tree.sessions)
        else:
            self.upstream.revalidate(session_id, client.timeout_ms)

    def revalidated(self, session_id: int, *, valid: bool) -> None:
        """The leader's answer about a session that came back."""
        client = self.by_session.get(session_id)
        if client is None or client.state is not State.CONNECTING:
            return
        if valid:
            self._session_opened(client)
        else:
            log.info("session 0x%x of %s has expired", session_id, client.address)
            self._session_refused(client)

    def _session_opened(self, client: Client) -> None:
        client.state = State.OPEN
        client.last_response_ms = int(self.clock.monotonic() * 1000)
        self.touched.add(client.session_id)
        self._write(
            client,
            connect_response(
                client.timeout_ms,
                client.session_id,
                password_of(client.session_id),
                read_only=self.upstream.read_only,
                with_read_only=client.with_read_only,
            ),
        )
        client.last_op = "SESS"
        backlog, client.backlog = client.backlog, []
        client.outlet.resume_reading()
        for frame in backlog:
            if client.state is State.OPEN:
                client.received -= 1
                self.stats.packets_received -= 1
                self.stats.bytes_received -= len(frame)
                self.on_frame(client, frame)

    def _session_refused(self, client: Client) -> None:
        """ZooKeeper's way to say "expired": a session id and a timeout of zero, then the end."""
        self._write(
            client,
            connect_response(0, 0, bytes(16), read_only=self.upstream.read_only, with_read_only=client.with_read_only),
        )
        self.close(client)

    # Transactions.

    def apply(self, txn: Txn) -> Result:
        """Apply a committed transaction and answer its client, if that is one of ours."""
        result = self.tree.apply(txn)
        if self.stats.write_size.wanted():
            self.stats.written(txn.body)
        client = self.by_session.get(txn.session_id)
        if client is None:
            return result
        if client.state is State.OPEN:
            head = client.waiting[0] if client.waiting else None
            if head is not None and head.submitted and head.xid == txn.cxid and head.type != OpCode.SYNC:
                self._answer_write(client, head, result)
            elif txn.type == OpCode.CLOSE_SESSION:
                self.close(client)
        elif client.state is State.CONNECTING and isinstance(txn.body, CreateSessionTxn):
            self._session_opened(client)
        return result

    def _answer_write(self, client: Client, head: Waiting, result: Result) -> None:
        if result.err == ErrorCode.SESSION_MOVED:
            # The client has gone to another server; what it sent here must not be answered from two places.
            self.close(client)
            return
        if head.type == OpCode.MULTI and result.type == OpCode.MULTI:
            self._finish_head(client, ErrorCode.OK, _multi_body(result))
        else:
            self._finish_head(client, result.err, b"" if result.err else _body_of(head.type, result))

    def synced(self, session_id: int, cxid: int) -> None:
        client = self.by_session.get(session_id)
        head = client.waiting[0] if client is not None and client.waiting else None
        if client is not None and head is not None and head.type == OpCode.SYNC and head.xid == cxid:
            try:
                path = Reader(head.frame, REQUEST_HEADER.size).nullable_string()
            except MarshallingError as e:
                self._finish_head(client, e.code, b"")
                return
            body = bytearray()
            put_string(body, path)
            self._finish_head(client, ErrorCode.OK, bytes(body))

    def _finish_head(self, client: Client, err: int, body: bytes) -> None:
        """Answer the request at the head of the queue, and then whatever only waited behind it."""
        head = client.waiting.popleft()
        self._outstanding -= 1
        now_ms = int(self.clock.monotonic() * 1000)
        latency_ms = now_ms - head.since_ms
        client.outlet.write(_pack_reply(16 + len(body), head.xid, self.tree.last_zxid, err) + body)
        self._answered(client, head.type, head.xid, 16 + len(body), latency_ms)
        (self.stats.read_latency if head.type == OpCode.SYNC else self.stats.update_latency).add(latency_ms)
        if head.type == OpCode.CLOSE_SESSION:
            self.close(client)
            return
        while client.waiting and not client.waiting[0].submitted:
            waiting = client.waiting.popleft()
            self._outstanding -= 1
            self._answer(client, waiting, now_ms - waiting.since_ms)
        client.last_response_ms = now_ms
        self._maybe_resume()

    def _answer(self, client: Client, waiting: Waiting, latency_ms: int) -> None:
        """Answer something whose turn has come: a read, a ping, or what is no request at all."""
        xid, type_ = waiting.xid, waiting.type
        err, body = 0, b""
        read = READS.get(type_)
        if read is not None:
            try:
                body = read(self.tree, client, waiting.frame)
            except KeeperError as e:
                err, body = e.code, e.body
            client.outlet.write(_pack_reply(16 + len(body), xid, self.tree.last_zxid, err) + body)
        elif type_ in _SUBMITTED:
            client.outlet.write(_pack_reply(16, xid, self.tree.last_zxid, ErrorCode.MARSHALLING_ERROR))
        elif type_ == OpCode.SASL:
            # What a server without SASL says: no error, and no token to go on with.
            client.outlet.write(reply(xid, 0, ErrorCode.OK, NULL))
        elif type_ == OpCode.PING:
            client.outlet.write(_pack_reply(16, PING_XID, self.tree.last_zxid, 0))
        else:
            log.warning("closing %s: unknown operation %d", client.address, type_)
            self._write(client, reply(xid, -1, ErrorCode.UNIMPLEMENTED))
            self.close(client)
            return
        self._answered(client, type_, xid, 16 + len(body), latency_ms)
        self.stats.read_latency.add(latency_ms)

    def _answered(self, client: Client, type_: int, xid: int, size: int, latency_ms: int) -> None:
        stats = self.stats
        stats.response_bytes += size
        sizes = stats.response_sizes
        sizes.last = size
        if not sizes.min <= size <= sizes.max:
            sizes.add(size)
        client.sent += 1
        client.last_op = OP_NAMES.get(type_, "NA")
        client.last_cxid = xid
        client.last_zxid = self.tree.last_zxid
        client.last_latency_ms = latency_ms
        if latency_ms:
            client.latency_total_ms += latency_ms
            client.latency_max_ms = max(client.latency_max_ms, latency_ms)
            if latency_ms < client.latency_min_ms or not client.latency_count:
                client.latency_min_ms = latency_ms
        elif client.latency_min_ms:
            client.latency_min_ms = 0
        client.latency_count += 1

    def _write(self, client: Client, data: bytes) -> None:
        client.sent += 1
        self.stats.packets_unasked += 1
        client.outlet.write(data)

    @property
    def outstanding(self) -> int:
        return self._outstanding

    def _maybe_resume(self) -> None:
        if self._paused and self._outstanding <= self.settings.outstanding_max:
            paused, self._paused = self._paused, []
            for client in paused:
                client.paused = False
                if client.state is State.OPEN:
                    client.outlet.resume_reading()


def _read(type_: int, frame: bytes) -> tuple[bool, Request | None]:
    """Whether a write may go upstream, and what it says; None if the leader had better look for itself.

    Judged here, so that rubbish never travels: it takes no zxid, no log and no other server's time. A multi takes a
    zxid even if it cannot be read, and so does a request with a null string, as in ZooKeeper; but for the one that its
    own clients never send.
    """
    r = Reader(frame, REQUEST_HEADER.size)
    try:
        request = REQUESTS[type_](r)
    except NullListError:
        return False, None
    except MarshallingError:
        return type_ == OpCode.MULTI, None
    if r.null_seen:
        return type_ != OpCode.DELETE_CONTAINER, None
    return True, request


_WITH_PATH: Final = frozenset({OpCode.CREATE})
_WITH_PATH_AND_STAT: Final = frozenset({OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL})
_WITH_STAT: Final = frozenset({OpCode.SET_DATA, OpCode.SET_ACL})
_ERROR: Final = OpCode.ERROR.value
_CREATE2: Final = OpCode.CREATE2.value


def _body_of(type_: int, result: Result) -> bytes:
    if type_ in _WITH_STAT:
        return result.stat
    if type_ in _WITH_PATH or type_ in _WITH_PATH_AND_STAT:
        body = bytearray()
        put_string(body, result.path)
        return bytes(body) + (result.stat if type_ in _WITH_PATH_AND_STAT else b"")
    return b""


def _multi_body(result: Result) -> bytes:
    out = bytearray()
    for one in result.results:
        type_ = one.type
        if type_ == _ERROR:
            put_multi_error(out, one.err)
        else:
            # Every creation that answers with a Stat answers as CREATE2.
            put_multi_result(out, _CREATE2 if type_ in _WITH_PATH_AND_STAT else type_, _body_of(type_, one))
    return bytes(out) + MULTI_END
