"""Messages between keepers as bytes. Ours alone: no server but our own ever speaks this.

    frame = int length, byte kind, body          all big-endian
    hello = the first frame of every connection: magic, version, server id, purpose

A reader checks every count and length against the bytes present, and anything odd ends the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.base.errors import RemoteProtocolError
from ottla.keeper.messages import (
    Forward,
    Message,
    Revalidate,
    Revalidated,
    SyncAsk,
    SyncPoint,
    Touch,
)
from ottla.keeper.proto.errors import MarshallingError
from ottla.keeper.proto.jute import Reader, put_buffer, put_int, put_string
from ottla.keeper.proto.records import Id
from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    CommitOnSync,
    LeaderInfo,
    LearnerInfo,
    NewLeader,
    Notification,
    Ping,
    Pong,
    Propose,
    Role,
    Truncate,
    UpToDate,
    Vote,
)
from ottla.keeper.server.prep import Submitted

FRAME_BYTES_MAX: Final = 64 << 20
MAGIC: Final = b"OTTK"
VERSION: Final = 1
_HELLO: Final = Struct(">4sHqB")
_NOTIFICATION: Final = Struct(">qBqqqqB")
_ENTRY: Final = Struct(">qi")
_SUBMITTED: Final = Struct(">qiiq")


class Purpose(IntEnum):
    ELECTION = 1
    LINK = 2


class Hello(NamedTuple):
    server_id: int
    purpose: Purpose


class SnapshotBegin(NamedTuple):
    zxid: int


class SnapshotChunk(NamedTuple):
    data: bytes


class SnapshotEnd(NamedTuple):
    """The last chunk has been sent."""


class Kind(IntEnum):
    """The first byte of a frame behind the hello."""

    LEARNER_INFO = 1
    LEADER_INFO = 2
    ACK_EPOCH = 3
    TRUNCATE = 4
    PROPOSE = 5
    NEW_LEADER = 6
    ACK_NEW_LEADER = 7
    UP_TO_DATE = 8
    ACK = 9
    COMMIT = 10
    COMMIT_ON_SYNC = 11
    PING = 12
    PONG = 13
    SNAPSHOT_BEGIN = 14
    SNAPSHOT_CHUNK = 15
    SNAPSHOT_END = 16
    FORWARD = 20
    SYNC_ASK = 21
    SYNC_POINT = 22
    REVALIDATE = 23
    REVALIDATED = 24
    TOUCH = 25


Framed = Message | SnapshotBegin | SnapshotChunk | SnapshotEnd


def _frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def encode_hello(server_id: int, purpose: Purpose) -> bytes:
    return _frame(_HELLO.pack(MAGIC, VERSION, server_id, purpose))


def decode_hello(frame: bytes) -> Hello:
    if len(frame) != _HELLO.size:
        raise RemoteProtocolError("not a keeper: its greeting has the wrong length")
    magic, version, server_id, purpose = _HELLO.unpack(frame)
    if magic != MAGIC:
        raise RemoteProtocolError("not a keeper: its greeting is something else")
    if version != VERSION or purpose not in Purpose.__members__.values():
        raise RemoteProtocolError(f"a keeper that speaks version {version}, purpose {purpose}; here it is {VERSION}")
    return Hello(server_id, Purpose(purpose))


def encode_notification(n: Notification) -> bytes:
    return _frame(_NOTIFICATION.pack(n.sender, n.role, n.round, n.vote.epoch, n.vote.zxid, n.vote.leader, n.blank))


def decode_notification(frame: bytes) -> Notification:
    if len(frame) != _NOTIFICATION.size:
        raise RemoteProtocolError(f"a notification of {len(frame)} bytes")
    sender, role, round_, epoch, zxid, leader, blank = _NOTIFICATION.unpack(frame)
    if role not in Role.__members__.values():
        raise RemoteProtocolError(f"a notification from a server in role {role}")
    return Notification(sender, Role(role), round_, Vote(epoch, zxid, leader), bool(blank))


_FIXED: dict[type, tuple[Kind, Struct]] = {
    LearnerInfo: (Kind.LEARNER_INFO, Struct(">Bqq?")),
    LeaderInfo: (Kind.LEADER_INFO, Struct(">Bq")),
    AckEpoch: (Kind.ACK_EPOCH, Struct(">B?qq?")),
    Truncate: (Kind.TRUNCATE, Struct(">Bq")),
    NewLeader: (Kind.NEW_LEADER, Struct(">Bq")),
    AckNewLeader: (Kind.ACK_NEW_LEADER, Struct(">Bqq")),
    UpToDate: (Kind.UP_TO_DATE, Struct(">Bq")),
    Ack: (Kind.ACK, Struct(">Bq")),
    CommitOnSync: (Kind.COMMIT_ON_SYNC, Struct(">Bq")),
    Commit: (Kind.COMMIT, Struct(">Bq")),
    Ping: (Kind.PING, Struct(">B")),
    Pong: (Kind.PONG, Struct(">B")),
    SnapshotBegin: (Kind.SNAPSHOT_BEGIN, Struct(">Bq")),
    SnapshotEnd: (Kind.SNAPSHOT_END, Struct(">B")),
    SyncAsk: (Kind.SYNC_ASK, Struct(">Bqi")),
    SyncPoint: (Kind.SYNC_POINT, Struct(">Bqiq")),
    Revalidate: (Kind.REVALIDATE, Struct(">Bqqi")),
    Revalidated: (Kind.REVALIDATED, Struct(">Bq?")),
}
"""Messages that are a fixed run of fields, in their order."""

_FIXED_BY_KIND: dict[int, tuple[Callable[..., Any], Struct]] = {
    kind: (message, struct) for message, (kind, struct) in _FIXED.items()
}


def encode(message: Framed) -> bytes:
    """A framed message."""
    fixed = _FIXED.get(type(message))
    if fixed is not None:
        kind, struct = fixed
        if isinstance(message, (Ack, Commit, CommitOnSync)):  # a part of every write, and no tuple
            return _frame(struct.pack(kind, message.zxid))
        assert isinstance(message, tuple), message
        return _frame(struct.pack(kind, *message))
    if isinstance(message, Propose):
        return _encode_propose(message)
    if isinstance(message, Forward):
        return _encode_forward(message.request)
    if isinstance(message, Touch):
        count = len(message.session_ids)
        return _frame(Struct(f">B{count}q").pack(Kind.TOUCH, *message.session_ids))
    assert isinstance(message, SnapshotChunk), message
    return _frame(bytes((Kind.SNAPSHOT_CHUNK,)) + message.data)


def _encode_propose(message: Propose) -> bytes:
    parts = [b"", bytes((Kind.PROPOSE,))]
    size = 1
    for zxid, raw in message.entries:
        parts.append(_ENTRY.pack(zxid, len(raw)))
        parts.append(raw)
        size += _ENTRY.size + len(raw)
    parts[0] = size.to_bytes(4, "big")
    return b"".join(parts)


def _encode_forward(request: Submitted) -> bytes:
    out = bytearray((Kind.FORWARD,))
    out += _SUBMITTED.pack(request.session_id, request.cxid, request.type, request.owner)
    put_int(out, len(request.ids))
    for held in request.ids:
        put_string(out, held.scheme)
        put_string(out, held.id)
    put_buffer(out, request.body)
    return _frame(bytes(out))


def decode(frame: bytes) -> Framed:
    """Read a frame behind the hello. Raises RemoteProtocolError on anything that is none."""
    if not frame:
        raise RemoteProtocolError("an empty frame")
    kind = frame[0]
    fixed = _FIXED_BY_KIND.get(kind)
    if fixed is not None:
        message, struct = fixed
        if len(frame) != struct.size:
            raise RemoteProtocolError(f"a message of kind {kind} with {len(frame)} bytes")
        decoded: Framed = message(*struct.unpack(frame)[1:])
        return decoded
    if kind == Kind.PROPOSE:
        return _decode_propose(frame)
    if kind == Kind.FORWARD:
        return _decode_forward(frame)
    if kind == Kind.TOUCH:
        if len(frame) % 8 != 1:
            raise RemoteProtocolError(f"touches in {len(frame)} bytes")
        return Touch(Struct(f">{len(frame) // 8}q").unpack_from(frame, 1))
    if kind == Kind.SNAPSHOT_CHUNK:
        return SnapshotChunk(frame[1:])
    raise RemoteProtocolError(f"a message of unknown kind {kind}")


def _decode_propose(frame: bytes) -> Propose:
    entries: list[Entry] = []
    at, end = 1, len(frame)
    unpack = _ENTRY.unpack_from
    while at < end:
        if at + _ENTRY.size > end:
            raise RemoteProtocolError("a proposal ends inside an entry")
        zxid, length = unpack(frame, at)
        start = at + _ENTRY.size
        at = start + length
        if length < 0 or at > end:
            raise RemoteProtocolError(f"an entry of {length} bytes in a proposal of {end}")
        entries.append(Entry(zxid, frame[start:at]))
    return Propose(tuple(entries))


def _decode_forward(frame: bytes) -> Forward:
    try:
        if len(frame) < 1 + _SUBMITTED.size:
            raise MarshallingError("too short")
        session_id, cxid, type_, owner = _SUBMITTED.unpack_from(frame, 1)
        r = Reader(frame, 1 + _SUBMITTED.size)
        ids = tuple(r.vector(lambda x: Id(x.string(), x.string()), 8))
        body = r.buffer() or b""
    except MarshallingError as e:
        raise RemoteProtocolError(f"a forwarded request that cannot be read: {e}") from e
    return Forward(Submitted(session_id, cxid, type_, body, ids, owner))
