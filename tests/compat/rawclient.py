"""A ZooKeeper client of bytes, for tests that compare servers.

It shares nothing with the code under test: frames are put together and taken apart here, field by field, so a mistake
in our own encoder cannot hide itself. Values that differ between two servers by nature are wrapped (``Zxid``, ``Time``,
``Owner``) for whoever compares them.

    request  = int length, int xid, int opcode, body
    reply    = int length, int xid, long zxid, int error, body
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from types import TracebackType
from typing import Self

NOTIFICATION, PING_XID, AUTH_XID, SET_WATCHES_XID = -1, -2, -4, -8

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, SET_ACL, GET_CHILDREN, SYNC = range(1, 10)
PING, GET_CHILDREN2, CHECK, MULTI, CREATE2, RECONFIG, CHECK_WATCHES, REMOVE_WATCHES = range(11, 19)
CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL, MULTI_READ = range(19, 23)
AUTH, SET_WATCHES, SASL, GET_EPHEMERALS, GET_ALL_CHILDREN_NUMBER, SET_WATCHES2, ADD_WATCH, WHO_AM_I = range(100, 108)
CREATE_SESSION, CLOSE_SESSION, ERROR = -10, -11, -1

NAMES = {
    number: name
    for name, number in list(globals().items())
    if name.isupper() and isinstance(number, int) and not name.endswith("_XID") and name != "NOTIFICATION"
}

XIDS = {PING: PING_XID, AUTH: AUTH_XID, SET_WATCHES: SET_WATCHES_XID, SET_WATCHES2: SET_WATCHES_XID}
"""Requests that clients send with an xid of their own."""


@dataclass(frozen=True, order=True)
class Zxid:
    value: int


@dataclass(frozen=True)
class Time:
    value: int
    zxid: int
    """The transaction whose time this is, so that the two can be held against each other."""


@dataclass(frozen=True)
class Owner:
    value: int


def int_(value: int) -> bytes:
    return struct.pack(">i", value)


def long_(value: int) -> bytes:
    return struct.pack(">q", value)


def bool_(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def buffer(value: bytes | None) -> bytes:
    return int_(-1) if value is None else int_(len(value)) + value


def string(value: str | None) -> bytes:
    return buffer(None if value is None else value.encode("utf-8", "surrogatepass"))


def vector(items: Iterable[bytes] | None) -> bytes:
    if items is None:
        return int_(-1)
    listed = list(items)
    return int_(len(listed)) + b"".join(listed)


def strings(items: Iterable[str]) -> bytes:
    return vector(string(item) for item in items)


def acl(perms: int, scheme: str | None, id_: str | None) -> bytes:
    return int_(perms) + string(scheme) + string(id_)


OPEN_ACL = vector([acl(31, "world", "anyone")])


class DecodeError(Exception):
    """A server sent bytes that are no reply of the kind expected."""


class Cursor:
    """Reads a reply from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            message = f"{count} bytes wanted at {self.at} of {len(self.data)}"
            raise DecodeError(message)
        self.at += count
        return self.data[self.at - count : self.at]

    def int_(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def long(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def bool_(self) -> bool:
        return self.take(1) != b"\x00"

    def buffer(self) -> bytes | None:
        length = self.int_()
        return None if length == -1 else self.take(length)

    def string(self) -> str | None:
        value = self.buffer()
        return None if value is None else value.decode("utf-8", "surrogatepass")

    def vector(self, read: Callable[[], object]) -> tuple[object, ...] | None:
        length = self.int_()
        return None if length == -1 else tuple(read() for _ in range(length))

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)


Value = object
Fields = tuple[tuple[str, Value], ...]


def _stat(c: Cursor) -> Value:
    czxid, mzxid, ctime, mtime = c.long(), c.long(), c.long(), c.long()
    version, cversion, aversion, owner = c.int_(), c.int_(), c.int_(), c.long()
    length, children, pzxid = c.int_(), c.int_(), c.long()
    return (
        ("czxid", Zxid(czxid)),
        ("mzxid", Zxid(mzxid)),
        ("ctime", Time(ctime, czxid)),
        ("mtime", Time(mtime, mzxid)),
        ("version", version),
        ("cversion", cversion),
        ("aversion", aversion),
        ("ephemeralOwner", Owner(owner)),
        ("dataLength", length),
        ("numChildren", children),
        ("pzxid", Zxid(pzxid)),
    )


def _names(c: Cursor) -> Value:
    """Children and ephemerals come in no particular order."""
    names = c.vector(c.string)
    return None if names is None else tuple(sorted(str(name) for name in names))


def _multi(c: Cursor) -> Value:
    results: list[Value] = []
    while True:
        opcode, done, error = c.int_(), c.bool_(), c.int_()
        if done:
            return (*results, ("end", opcode, error))
        read = {ERROR: (("error", Cursor.int_),), GET_CHILDREN: (("children", _names),)}.get(opcode)
        fields = read or REPLIES.get(opcode, ())
        results.append((NAMES.get(opcode, opcode), error, tuple((name, take(c)) for name, take in fields)))


def _acls(c: Cursor) -> Value:
    """An entry ``auth`` stands for one entry of each identity, with the same permissions and in no particular order."""
    count = c.int_()
    if count == -1:
        return None
    entries = [(c.int_(), c.string(), c.string()) for _ in range(count)]
    return tuple(entry for _perms, alike in groupby(entries, lambda e: e[0]) for entry in sorted(alike, key=str))


def _identities(c: Cursor) -> Value:
    """In no particular order either."""
    pairs = c.vector(lambda: (c.string(), c.string()))
    return None if pairs is None else tuple(sorted(pairs, key=str))


REPLIES: dict[int, tuple[tuple[str, Callable[[Cursor], Value]], ...]] = {
    CREATE: (("path", Cursor.string),),
    CREATE2: (("path", Cursor.string), ("stat", _stat)),
    CREATE_CONTAINER: (("path", Cursor.string), ("stat", _stat)),
    CREATE_TTL: (("path", Cursor.string), ("stat", _stat)),
    EXISTS: (("stat", _stat),),
    GET_DATA: (("data", Cursor.buffer), ("stat", _stat)),
    SET_DATA: (("stat", _stat),),
    GET_ACL: (("acl", _acls), ("stat", _stat)),
    SET_ACL: (("stat", _stat),),
    GET_CHILDREN: (("children", _names),),
    GET_CHILDREN2: (("children", _names), ("stat", _stat)),
    SYNC: (("path", Cursor.string),),
    MULTI: (("results", _multi),),
    MULTI_READ: (("results", _multi),),
    RECONFIG: (("data", Cursor.buffer), ("stat", _stat)),
    GET_EPHEMERALS: (("paths", _names),),
    GET_ALL_CHILDREN_NUMBER: (("number", Cursor.int_),),
    ADD_WATCH: (("error", Cursor.int_),),
    WHO_AM_I: (("identities", _identities),),
}


def decode_reply(opcode: int, frame: bytes) -> Fields:
    """Every field of a reply; bytes that no field accounts for come last."""
    c = Cursor(frame)
    fields: list[tuple[str, Value]] = [("xid", c.int_()), ("zxid", Zxid(c.long())), ("err", c.int_())]
    if c.at < len(frame):
        fields += [(name, read(c)) for name, read in REPLIES.get(opcode, ())]
    if left := c.rest():
        fields.append(("left", left))
    return tuple(fields)


def decode_event(frame: bytes) -> Fields:
    c = Cursor(frame)
    return (
        ("event", c.int_()),
        ("zxid", Zxid(c.long())),
        ("err", c.int_()),
        ("type", c.int_()),
        ("state", c.int_()),
        ("path", c.string()),
        ("left", c.rest()),
    )


@dataclass(frozen=True)
class Session:
    """What a connect response says."""

    id: int
    password: bytes
    timeout_ms: int
    version: int = 0
    left: bytes = b"\x00"


class ClosedError(Exception):
    """The server ended the connection."""


class SilenceError(Exception):
    """The server said nothing for too long."""


class Connection:
    """A socket that sends and receives frames."""

    def __init__(self, port: int, *, timeout_s: float = 120) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout_s = timeout_s
        self.xid = 0
        self._buffer = bytearray()

    def close(self) -> None:
        self.socket.close()

    def __del__(self) -> None:
        # A test that fails need not close what it opened.
        if hasattr(self, "socket"):
            self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise ClosedError from error

    def receive(self, timeout_s: float | None = None) -> bytes:
        """The next frame, without its length."""
        deadline = time.monotonic() + (timeout_s or self.timeout_s)
        while True:
            if len(self._buffer) >= 4:
                end = 4 + int.from_bytes(self._buffer[:4], "big")
                if len(self._buffer) >= end:
                    frame = bytes(self._buffer[4:end])
                    del self._buffer[:end]
                    return frame
            left = deadline - time.monotonic()
            if left <= 0:
                raise SilenceError
            self.socket.settimeout(left)
            try:
                part = self.socket.recv(65536)
            except TimeoutError:
                raise SilenceError from None
            except OSError as error:
                raise ClosedError from error
            if not part:
                raise ClosedError
            self._buffer += part

    def send_frame(self, body: bytes) -> None:
        self.send(int_(len(body)) + body)

    def connect(
        self,
        *,
        timeout_ms: int = 30_000,
        session: int = 0,
        password: bytes | None = bytes(16),
        seen: int = 0,
        version: int = 0,
        tail: bytes = b"\x00",
    ) -> Session:
        """The first exchange; ``tail`` is the read-only flag, which old clients leave out."""
        head = int_(version) + long_(seen) + int_(timeout_ms) + long_(session)
        self.send_frame(head + buffer(password) + tail)
        c = Cursor(self.receive())
        answered, timeout, id_, secret = c.int_(), c.int_(), c.long(), c.buffer()
        return Session(id_, secret or b"", timeout, answered, c.rest())

    def request(self, opcode: int, body: bytes = b"", *, xid: int | None = None) -> int:
        """Sends a request and gives its xid."""
        if xid is None:
            xid = XIDS.get(opcode)
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.send_frame(int_(xid) + int_(opcode) + body)
        return xid

    def call(self, opcode: int, body: bytes = b"") -> dict[str, Value]:
        """A request and its reply; events in between are dropped."""
        xid = self.request(opcode, body)
        while True:
            frame = self.receive()
            if int.from_bytes(frame[:4], "big", signed=True) == xid:
                return dict(decode_reply(opcode, frame))
