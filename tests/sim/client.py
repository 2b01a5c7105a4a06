"""One client: a session, its operations and its watches, on whichever server lets it in.

It does what a client library does: sends its requests without waiting, pings, gives up on a silent server, comes
back elsewhere with the last zxid it has seen, and re-registers its watches. Everything it is told is compared with
the ``Truth`` on the spot.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ottla.keeper.proto.errors import ErrorCode
from ottla.keeper.proto.opcodes import AddWatchMode, OpCode
from ottla.keeper.proto.records import (
    PING_XID,
    SET_WATCHES_XID,
    EmptyRequest,
    PathTypeRequest,
    PathWatchRequest,
    Request,
    SetWatchesRequest,
)
from ottla.keeper.quorum.history import epoch_of
from tests.sim.conn import Conn
from tests.sim.loop import MS, Violation
from tests.sim.oracle import expected_read, expected_write
from tests.sim.watching import Watching
from tests.sim.wire import Event, Reply, connect_frame, read_connected, read_frame, request_frame
from tests.sim.workload import Asked, Workload

if TYPE_CHECKING:
    from tests.sim.world import World

WRITES = frozenset(
    {
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.SET_DATA,
        OpCode.DELETE,
        OpCode.MULTI,
        OpCode.CLOSE_SESSION,
    }
)
TIMEOUTS_MS = (1000, 1500, 3000)
HOP_SHARE = 0.03
"""How often, of all the times it could ask for something, a client changes servers instead."""


class Pending(NamedTuple):
    """An operation that was sent and not answered yet."""

    xid: int
    type: int
    request: Request
    acked_zxid: int
    """The newest write anybody knew to be done when this was asked."""


class SimClient:
    """Satisfies ``tests.sim.conn.Caller``."""

    def __init__(self, world: World, number: int, rng: Random) -> None:
        self._world = world
        self._loop = world.loop
        self._truth = world.truth
        self._hit = world.coverage.hit
        self._rng = rng
        self.number = number
        self._workload = Workload(rng)
        self._conn: Conn | None = None
        self._is_open = False
        self._pending: deque[Pending] = deque()
        self._xid = 0
        self._last_server = 0
        self._heard_us = 0
        self._frozen_until_us = 0
        self._conns = 0
        self.answered = 0
        """Operations that went well since this was set to 0."""
        self._new_session()

    def _new_session(self) -> None:
        self._session_id = 0
        self._password = bytes(16)
        self._timeout_ms = self._rng.choice(TIMEOUTS_MS)
        self._last_zxid = 0
        self._write_zxid = 0
        self._watching = Watching(self._truth)

    def start(self) -> None:
        self._connect()
        self._loop.after(self._rng.randint(1, 200) * MS, self._act)
        self._loop.after(self._timeout_ms * MS // 3, self._watch_over)

    # Connections.

    def _connect(self) -> None:
        server = self._rng.choice(self._world.servers)
        self._conns += 1
        if self._session_id and self._rng.random() < 0.3:
            self._timeout_ms = self._rng.choice(TIMEOUTS_MS)  # as another program does that was handed the session
        first = connect_frame(
            last_zxid=self._last_zxid,
            timeout_ms=self._timeout_ms,
            session_id=self._session_id,
            password=self._password,
        )
        self._is_open = False
        self._heard_us = self._loop.now_us
        self._conn = Conn(self, server, self.number * 100_000 + self._conns, first)

    def _drop(self, *, told: bool) -> None:
        conn = self._conn
        if conn is not None:
            conn.drop(told=told)
            self._lost()

    def on_closed(self, conn: Conn) -> None:
        if conn is self._conn:
            self._lost()

    def _lost(self, back_ms: int | None = None) -> None:
        """Nobody knows what became of the operations under way."""
        if any(pending.type in WRITES for pending in self._pending):
            self._hit("client connection lost with operations outstanding")
        if self._is_open:
            self._watching.disconnected()
        self._pending.clear()
        self._conn = None
        self._is_open = False
        back_ms = self._rng.randint(5, 150) if back_ms is None else back_ms
        self._loop.after(back_ms * MS, self._reconnect)

    def _reconnect(self) -> None:
        if self._conn is None:
            self._connect()

    def break_off(self) -> None:
        """A fault between client and server."""
        self._drop(told=self._rng.random() < 0.5)

    def _hop(self) -> None:
        """Go to another server, faster than what this one has shown can get there."""
        assert self._conn is not None
        self._conn.drop(told=self._rng.random() < 0.5)
        self._lost(back_ms=0)

    def _watch_over(self) -> None:
        """Ping, and do not wait forever."""
        self._loop.after(self._timeout_ms * MS // 4, self._watch_over)
        if self._conn is None or self._is_frozen:
            return
        silent_us = self._loop.now_us - self._heard_us
        if silent_us > self._timeout_ms * MS * 2 // 3:
            self._drop(told=True)
        elif self._is_open:
            self._send(PING_XID, Asked(OpCode.PING, EmptyRequest()))

    @property
    def _is_frozen(self) -> bool:
        return self._loop.now_us < self._frozen_until_us

    def freeze(self, duration_us: int) -> None:
        """The client's process stands still."""
        self._frozen_until_us = self._loop.now_us + duration_us

    # Operations.

    def _act(self) -> None:
        world = self._world
        self._loop.after(self._rng.randint(1, world.profile.think_ms) * MS, self._act)
        if not self._is_open or self._is_frozen or len(self._pending) > world.profile.pipeline:
            return
        if self._rng.random() < HOP_SHARE:
            self._hop()
            return
        asked = self._workload.next()
        if asked[0].type == OpCode.CLOSE_SESSION and self._pending:
            return
        for each in asked:
            if self._pending:
                self._hit("operation pipelined behind another")
            self._xid += 1
            self._send(self._xid, each)

    def _send(self, xid: int, asked: Asked) -> None:
        assert self._conn is not None
        self._pending.append(Pending(xid, asked.type, asked.request, self._truth.acked_zxid))
        self._conn.send(request_frame(xid, asked.type, asked.request))

    def on_frame(self, conn: Conn, frame: bytes) -> None:
        if conn is not self._conn:
            return
        self._heard_us = self._loop.now_us
        if not self._is_open:
            self._opened(conn, frame)
            return
        reply = read_frame(frame, self._pending[0].type if self._pending else 0)
        if isinstance(reply, Event):
            self._world.told(self.number, crc32(frame))
            self._watching.received.append(reply)
            return
        self._world.told(self.number, reply.xid, reply.zxid, reply.result.err)
        if not self._pending or self._pending[0].xid != reply.xid:
            raise Violation(f"Z5: client {self.number} got the answer to {reply.xid}, waiting for {self._pending}")
        self._replied(conn, self._pending.popleft(), reply)

    def _opened(self, conn: Conn, frame: bytes) -> None:
        timeout_ms, session_id, password = read_connected(frame)
        if timeout_ms == 0:
            if self._session_id not in self._world.checks.sessions.closing:
                raise Violation(f"Z9: session 0x{self._session_id:x} is said to have expired, and has not")
            self._world.note("session expired", self.number, self._session_id)
            self._new_session()
            return
        if self._session_id:
            if session_id != self._session_id:
                raise Violation(f"Z9: asked for session 0x{self._session_id:x}, got 0x{session_id:x}")
            if conn.server.server_id != self._last_server:
                self._hit("session moved to another server")
        self._session_id, self._password, self._timeout_ms = session_id, password, timeout_ms
        self._last_server = conn.server.server_id
        self._is_open = True
        if len(self._watching):
            self._send(SET_WATCHES_XID, Asked(OpCode.SET_WATCHES2, self._watching.request(self._last_zxid)))

    def _replied(self, conn: Conn, pending: Pending, reply: Reply) -> None:
        zxid, truth = reply.zxid, self._truth
        if zxid < self._last_zxid:
            raise Violation(f"Z6: client {self.number} saw 0x{self._last_zxid:x} and is shown 0x{zxid:x}")
        if zxid not in truth:
            raise Violation(f"Z1: client {self.number} is shown 0x{zxid:x}, which is not committed")
        if self._last_zxid and epoch_of(zxid) > epoch_of(self._last_zxid):
            self._hit("reply after a leader change")
        self._last_zxid = zxid
        if isinstance(pending.request, SetWatchesRequest):
            if self._watching.restored(pending.request, zxid):
                self._hit("event for a watch set before a reconnection")
            self._hit("watches re-registered")
            return
        if self._watching.received:
            self._hit("watch event")
        self._watching.reached(zxid)
        if pending.type in WRITES:
            self._written(pending, reply)
        else:
            self._read(conn, pending, reply)

    # Answers.

    def _written(self, pending: Pending, reply: Reply) -> None:
        zxid, truth, err = reply.zxid, self._truth, reply.result.err
        txn = truth.txns[zxid]
        if (txn.session_id, txn.cxid) != (self._session_id, pending.xid):
            raise Violation(f"Z1: the answer to {pending} says 0x{zxid:x}, which is {txn}")
        if zxid <= pending.acked_zxid:
            raise Violation(f"Z1: 0x{zxid:x} was asked for after 0x{pending.acked_zxid:x} was done")
        if zxid <= self._write_zxid:
            raise Violation(f"Z5: 0x{zxid:x} was asked for after 0x{self._write_zxid:x}, on the same session")
        self._write_zxid = zxid
        truth.acked_zxid = max(truth.acked_zxid, zxid)
        if err == ErrorCode.SESSION_EXPIRED:
            if self._session_id not in truth.model.closed:
                raise Violation(f"Z9: session 0x{self._session_id:x} is refused as expired, and has not")
            return
        due = expected_write(truth.model, zxid, txn.time_ms, pending.type, pending.request, self._session_id)
        if reply.result != due:
            raise Violation(f"Z1: {pending} answered {reply.result} at 0x{zxid:x}, not {due}")
        self.answered += 1
        if err == ErrorCode.BAD_VERSION:
            self._hit("a write failed on its version")
        if pending.type == OpCode.MULTI:
            refused = any(one.err for one in reply.result.results or ())
            self._hit("multi refused" if refused else "multi applied")
        elif pending.type == OpCode.CLOSE_SESSION:
            self._hit("session closed by its client")
            self._watching.disconnected()
            self._new_session()
            self._is_open = False

    def _read(self, conn: Conn, pending: Pending, reply: Reply) -> None:
        request, result = pending.request, reply.result
        due = expected_read(self._truth.model, reply.zxid, pending.type, request, self._session_id)
        if result != due:
            raise Violation(f"Z7: {pending} answered {result} at 0x{reply.zxid:x}, not {due}")
        if pending.type == OpCode.SYNC:
            self._synced(conn, pending, reply)
        elif isinstance(request, PathTypeRequest):
            table = self._watching.recursive if request.type == AddWatchMode.PERSISTENT_RECURSIVE else None
            (self._watching.persistent if table is None else table)[request.path] = None
        elif isinstance(request, PathWatchRequest):
            if result.children is not None:
                self._workload.saw(request.path, result.children)
            if request.watch:
                self._watch(pending.type, request.path, result.err)

    def _watch(self, type_: int, path: str, err: int) -> None:
        watching = self._watching
        if type_ == OpCode.EXISTS and err == ErrorCode.NO_NODE:
            watching.exist[path] = None
        elif not err:
            (watching.child if type_ == OpCode.GET_CHILDREN2 else watching.data)[path] = None

    def _synced(self, conn: Conn, pending: Pending, reply: Reply) -> None:
        """Everything that was done when the sync was asked for is visible, as far as this leader can know of it."""
        if epoch_of(pending.acked_zxid) <= conn.epoch and reply.zxid < pending.acked_zxid:
            raise Violation(f"Z7: synced at 0x{reply.zxid:x}, but 0x{pending.acked_zxid:x} was done before")
        if conn.server.member.role.leader != conn.server.server_id:
            self._hit("sync answered by a follower")
