"""A small ZooKeeper client that writes down everything it does and sees.

It shares no code with the servers it talks to. Requests go out in pipelines; a connection that ends or falls silent
leaves the unanswered ones open, and the client goes on at another server, with its session, its password, the last
zxid it saw, and its watches. A session that the ensemble has ended is replaced by a new one under a new name.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ottla.keeper.proto.opcodes import EventType
from tests.chaos import jute
from tests.chaos.history import Fields, History
from tests.chaos.jute import Cursor, bool_, buffer, int_, long_, string, strings

RETRY_S = 0.02
OPCODES = {
    "create": jute.CREATE2,
    "delete": jute.DELETE,
    "set": jute.SET_DATA,
    "check": jute.CHECK,
    "multi": jute.MULTI,
    "get": jute.GET_DATA,
    "exists": jute.EXISTS,
    "children": jute.GET_CHILDREN2,
    "sync": jute.SYNC,
    "add_watch": jute.ADD_WATCH,
    "set_watches": jute.SET_WATCHES2,
    "close": jute.CLOSE_SESSION,
}
RECURSIVE = 1

Address = tuple[str, int]
Opener = Callable[[Address, float], socket.socket]


class Request(NamedTuple):
    f: str
    args: Fields


def create(path: str, data: str = "", flags: int = 0) -> Request:
    return Request("create", {"path": path, "data": data, "flags": flags})


def delete(path: str, version: int = -1) -> Request:
    return Request("delete", {"path": path, "version": version})


def set_(path: str, data: str, version: int = -1) -> Request:
    return Request("set", {"path": path, "data": data, "version": version})


def check(path: str, version: int) -> Request:
    return Request("check", {"path": path, "version": version})


def multi(*requests: Request) -> Request:
    """The operations of one multi have to touch different paths; the checker counts on it."""
    return Request("multi", {"ops": [{"f": request.f, **request.args} for request in requests]})


def get(path: str, *, watch: bool = False) -> Request:
    return Request("get", {"path": path, "watch": watch})


def exists(path: str, *, watch: bool = False) -> Request:
    return Request("exists", {"path": path, "watch": watch})


def children(path: str, *, watch: bool = False) -> Request:
    return Request("children", {"path": path, "watch": watch})


def sync(path: str = "/") -> Request:
    return Request("sync", {"path": path})


def add_watch(path: str) -> Request:
    return Request("add_watch", {"path": path})


def close() -> Request:
    return Request("close", {})


class DisconnectedError(Exception):
    """The connection is gone; the client may connect again."""


class Client:
    """One session at a time, at one server at a time. Not for more than one thread."""

    def __init__(
        self,
        name: str,
        servers: Sequence[Address],
        history: History,
        *,
        timeout_ms: int = 30_000,
        silence_s: float = 2.0,
        open_socket: Opener = socket.create_connection,
    ) -> None:
        self.name = name
        self.history = history
        self.timeout_ms = timeout_ms
        self.last_zxid = 0
        self.sessions = 0
        self.acked = 0
        """Writes that were answered without an error."""
        self._servers: list[tuple[int, Address]] = []
        self._silence_s = silence_s
        self._open_socket = open_socket
        self._socket: socket.socket | None = None
        self._server = -1
        self._connection = 0
        self._received = bytearray()
        self._forget_session()
        self.move_to(servers)

    def _forget_session(self) -> None:
        self.session, self._password, self._xid = 0, bytes(16), 0
        self.last_zxid = 0
        self._watched: dict[tuple[str, str], None] = {}
        self._recursive: str | None = None
        self.sessions += 1

    @property
    def proc(self) -> str:
        return f"{self.name}.{self.sessions}"

    @property
    def server(self) -> int:
        """The index of the server it is connected to; -1 if to none."""
        return self._server if self._socket is not None else -1

    # Connecting.

    def connect(self, *, deadline: float) -> bool:
        """Go round the servers until one takes the session; False if none does by ``deadline``."""
        while self._socket is None:
            if time.monotonic() > deadline:
                return False
            self._servers.append(self._servers.pop(0))
            index, address = self._servers[0]
            try:
                self._greet(index, address)
            except (OSError, DisconnectedError):
                self._drop()
                time.sleep(RETRY_S)
        return True

    def _greet(self, index: int, address: Address) -> None:
        self._socket = self._open_socket(address, self._silence_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server = index
        self._received.clear()
        self._send(
            int_(0) + long_(self.last_zxid) + int_(self.timeout_ms) + long_(self.session)
            + buffer(self._password) + bool_(False)
        )  # fmt: skip
        c = Cursor(self._receive())
        _version, timeout_ms, session, password = c.int_(), c.int_(), c.long_(), c.buffer()
        if timeout_ms <= 0:
            self.history.happened(self.proc, "note", "expired", {"session": self.session, "server": index})
            self._forget_session()
            raise DisconnectedError
        self._connection += 1
        self.session, self._password = session, password
        self.history.happened(
            self.proc, "note", "attached", {"session": session, "server": index, "timeout_ms": timeout_ms}
        )
        if self._watched or self._recursive is not None:
            self.call(self._set_watches())

    def _set_watches(self) -> Request:
        by_kind: dict[str, list[str]] = {"get": [], "exists": [], "children": []}
        for f, path in self._watched:
            by_kind[f].append(path)
        return Request(
            "set_watches",
            {"since": self.last_zxid, **by_kind, "recursive": [self._recursive] if self._recursive else []},
        )

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def servers(self) -> list[Address]:
        return [address for _, address in sorted(self._servers)]

    def move_to(self, servers: Sequence[Address]) -> None:
        """Leave, and from now on go to one of these."""
        self._drop()
        self._servers = list(enumerate(servers))
        random.Random(self.name).shuffle(self._servers)

    def disconnect(self) -> None:
        """Leave the server without a word; the session stays open."""
        self._drop()

    # Requests.

    def call(self, *requests: Request) -> list[Fields]:
        """Send requests in one go and wait for all answers; their results. An error is a result, too."""
        if self._socket is None:
            raise DisconnectedError
        sent: deque[tuple[int, int, Request]] = deque()
        frames = []
        for request in requests:
            self._xid += 1
            args = {
                "session": self.session,
                "connection": self._connection,
                "server": self._server,
                "xid": self._xid,
                **request.args,
            }
            sent.append((self._xid, self.history.invoke(self.proc, request.f, args), request))
            frames.append(int_(self._xid) + int_(OPCODES[request.f]) + encode(request))
        results: list[Fields] = []
        try:
            self._send(*frames)
            while sent:
                results += self._on_frame(self._receive(), sent)
        except (OSError, DisconnectedError) as error:
            self._drop()
            for _, op_id, request in sent:
                self.history.outcome(self.proc, op_id, "info", request.f, {"why": repr(error)})
            raise DisconnectedError from error
        return results

    def _on_frame(self, frame: bytes, sent: deque[tuple[int, int, Request]]) -> Iterable[Fields]:
        c = Cursor(frame)
        xid, zxid, err = c.int_(), c.long_(), c.int_()
        if xid == jute.NOTIFICATION_XID:
            self._on_event(zxid, EventType(c.int_()), c.int_(), c.string())
            return ()
        answered = next((item for item in sent if item[0] == xid), None)
        if answered is None:
            raise DisconnectedError(f"an answer to {xid}, which was not asked")
        sent.remove(answered)
        _, op_id, request = answered
        result: Fields = {"zxid": zxid, "err": err, **(decode(request.f, c) if c.left else {})}
        # A multi that was refused is answered with err 0 and a list of errors.
        refused = err or next((part["err"] for part in result.get("results", ()) if part["err"]), 0)
        result["err"] = refused
        self.history.outcome(self.proc, op_id, "fail" if refused else "ok", request.f, result)
        self.last_zxid = max(self.last_zxid, zxid)
        self._note_watch(request, refused)
        if not refused and request.f in ("create", "set", "delete", "multi"):
            self.acked += 1
        return (result,)

    def _note_watch(self, request: Request, err: int) -> None:
        if request.f == "add_watch" and not err:
            self._recursive = request.args["path"]
        elif request.args.get("watch"):
            # A watch on what is not there waits for its creation; on reconnect it is named as such.
            f = "exists" if request.f == "exists" and err else "get" if request.f == "exists" else request.f
            if not err or f == "exists":
                self._watched[f, request.args["path"]] = None

    def _on_event(self, zxid: int, type_: EventType, _state: int, path: str) -> None:
        self.history.happened(self.proc, "event", "event", {"zxid": zxid, "type": type_, "path": path})
        if type_ is EventType.NODE_CHILDREN_CHANGED:
            self._watched.pop(("children", path), None)
            return
        self._watched.pop(("get", path), None)
        self._watched.pop(("exists", path), None)
        if type_ is EventType.NODE_DELETED:
            self._watched.pop(("children", path), None)

    @property
    def watched(self) -> list[str]:
        return sorted({path for _, path in self._watched})

    def end(self) -> None:
        """Close the session."""
        with contextlib.suppress(DisconnectedError):
            self.call(close())
        self._drop()

    # Bytes.

    def _send(self, *bodies: bytes) -> None:
        assert self._socket is not None
        self._socket.settimeout(self._silence_s)
        self._socket.sendall(b"".join(int_(len(body)) + body for body in bodies))

    def _receive(self) -> bytes:
        assert self._socket is not None
        received = self._received
        deadline = time.monotonic() + self._silence_s
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            left = deadline - time.monotonic()
            if left <= 0:
                raise DisconnectedError("no answer")
            self._socket.settimeout(left)
            part = self._socket.recv(65536)
            if not part:
                raise DisconnectedError("the server closed the connection")
            received += part
        stop = 4 + int.from_bytes(received[:4], "big")
        frame = bytes(received[4:stop])
        del received[:stop]
        return frame


def encode(request: Request) -> bytes:
    f, args = request
    match f:
        case "create":
            return string(args["path"]) + buffer(args["data"].encode()) + jute.OPEN_ACL + int_(args["flags"])
        case "set":
            return string(args["path"]) + buffer(args["data"].encode()) + int_(args["version"])
        case "delete" | "check":
            return string(args["path"]) + int_(args["version"])
        case "get" | "exists" | "children":
            return string(args["path"]) + bool_(args["watch"])
        case "sync":
            return string(args["path"])
        case "add_watch":
            return string(args["path"]) + int_(RECURSIVE)
        case "set_watches":
            one_shot = strings(args["get"]) + strings(args["exists"]) + strings(args["children"])
            return long_(args["since"]) + one_shot + strings([]) + strings(args["recursive"])
        case "multi":
            parts = [
                int_(OPCODES[op["f"]]) + bool_(False) + int_(-1) + encode(Request(op["f"], op)) for op in args["ops"]
            ]
            return b"".join(parts) + int_(-1) + bool_(True) + int_(-1)
        case _:
            return b""


def decode(f: str, c: Cursor) -> Fields:
    match f:
        case "create":
            return {"path": c.string(), "stat": stat(c)}
        case "set" | "exists":
            return {"stat": stat(c)}
        case "get":
            return {"data": c.string(), "stat": stat(c)}
        case "children":
            return {"children": sorted(c.strings()), "stat": stat(c)}
        case "multi":
            return {"results": list(multi_results(c))}
        case _:
            return {}


def stat(c: Cursor) -> list[int]:
    times = [c.long_(), c.long_(), c.long_(), c.long_()]
    versions = [c.int_(), c.int_(), c.int_()]
    return [*times, *versions, c.long_(), c.int_(), c.int_(), c.long_()]


def multi_results(c: Cursor) -> Iterable[Fields]:
    names = {opcode: f for f, opcode in OPCODES.items()}
    while True:
        opcode, done, err = c.int_(), c.bool_(), c.int_()
        if done:
            return
        if opcode == jute.ERROR:
            yield {"err": c.int_()}
        else:
            yield {"err": err, **decode(names[opcode], c)}
