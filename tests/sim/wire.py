"""The client's side of the protocol: requests into frames, frames into replies and events."""

from __future__ import annotations

from typing import NamedTuple

from ottla.keeper.proto.jute import Reader, put_boolean, put_buffer, put_int, put_long, put_string, put_strings
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import (
    CONNECT_REQUEST,
    CONNECT_RESPONSE,
    MULTI_END,
    MULTI_HEADER,
    NOTIFICATION_XID,
    REPLY_HEADER,
    REQUEST_HEADER,
    STAT,
    CreateRequest,
    EmptyRequest,
    MultiRequest,
    PathRequest,
    PathTypeRequest,
    PathVersionRequest,
    PathWatchRequest,
    Request,
    SetACLRequest,
    SetDataRequest,
    SetWatchesRequest,
    Stat,
    put_acls,
)


class Connected(NamedTuple):
    timeout_ms: int
    session_id: int
    password: bytes


class Event(NamedTuple):
    """A change that was watched for; the zxid is -1 where a reconnected client is told late."""

    zxid: int
    type: int
    path: str


class Result(NamedTuple):
    """What an operation answers: the error, and whatever else its kind of answer has."""

    err: int = 0
    path: str | None = None
    stat: Stat | None = None
    data: bytes | None = None
    children: frozenset[str] | None = None
    results: tuple[Result, ...] | None = None


class Reply(NamedTuple):
    xid: int
    zxid: int
    result: Result


def connect_frame(*, last_zxid: int, timeout_ms: int, session_id: int, password: bytes) -> bytes:
    return CONNECT_REQUEST.pack(0, last_zxid, timeout_ms, session_id, len(password)) + password + b"\0"


def last_zxid_of(frame: bytes) -> int:
    """The newest zxid that the sender of a connect frame has seen."""
    zxid: int = CONNECT_REQUEST.unpack_from(frame)[1]
    return zxid


def read_connected(frame: bytes) -> Connected:
    _, timeout_ms, session_id, _, password, _ = CONNECT_RESPONSE.unpack(frame)
    return Connected(timeout_ms, session_id, password)


def request_frame(xid: int, type_: int, request: Request) -> bytes:
    out = bytearray(REQUEST_HEADER.pack(xid, type_))
    put_request(out, type_, request)
    return bytes(out)


def put_request(out: bytearray, type_: int, request: Request) -> None:
    match request:
        case CreateRequest():
            put_string(out, request.path)
            put_buffer(out, request.data)
            put_acls(out, request.acl or ())
            put_int(out, request.flags)
            if type_ == OpCode.CREATE_TTL:
                put_long(out, request.ttl)
        case PathVersionRequest():
            put_string(out, request.path)
            put_int(out, request.version)
        case SetDataRequest():
            put_string(out, request.path)
            put_buffer(out, request.data)
            put_int(out, request.version)
        case SetACLRequest():
            put_string(out, request.path)
            put_acls(out, request.acl or ())
            put_int(out, request.version)
        case PathWatchRequest():
            put_string(out, request.path)
            put_boolean(out, request.watch)
        case PathRequest():
            put_string(out, request.path)
        case PathTypeRequest():
            put_string(out, request.path)
            put_int(out, request.type)
        case SetWatchesRequest():
            put_long(out, request.relative_zxid)
            for paths in request[1:] if type_ == OpCode.SET_WATCHES2 else request[1:4]:
                put_strings(out, paths)
        case MultiRequest():
            for op in request.ops:
                out += MULTI_HEADER.pack(op.type, 0, -1)
                put_request(out, op.type, op.request)
            out += MULTI_END
        case EmptyRequest():
            pass
        case _:
            raise AssertionError(f"no client here sends {request}")


def read_frame(frame: bytes, expected_type: int) -> Reply | Event:
    """A frame behind the first, the reply to an operation of ``expected_type`` unless it is an event."""
    xid, zxid, err = REPLY_HEADER.unpack_from(frame)
    r = Reader(frame, REPLY_HEADER.size)
    if xid == NOTIFICATION_XID:
        type_, _state, path = r.int32(), r.int32(), r.string()
        return Event(zxid, type_, path)
    result = Result(err) if err else _read_result(r, expected_type)
    assert r.remaining() == 0, f"{r.remaining()} bytes too many in a reply to {expected_type}"
    return Reply(xid, zxid, result)


def _read_result(r: Reader, type_: int) -> Result:
    match type_:
        case OpCode.CREATE | OpCode.SYNC:
            return Result(path=r.string())
        case OpCode.CREATE2 | OpCode.CREATE_CONTAINER | OpCode.CREATE_TTL:
            return Result(path=r.string(), stat=_stat(r))
        case OpCode.SET_DATA | OpCode.EXISTS | OpCode.SET_ACL:
            return Result(stat=_stat(r))
        case OpCode.GET_DATA:
            return Result(data=r.buffer(), stat=_stat(r))
        case OpCode.GET_CHILDREN2:
            return Result(children=frozenset(r.strings()), stat=_stat(r))
        case OpCode.GET_EPHEMERALS:
            return Result(children=frozenset(r.strings()))
        case OpCode.ADD_WATCH:
            return Result(err=r.int32())
        case OpCode.MULTI:
            return Result(results=tuple(_read_multi(r)))
    return Result()


def _read_multi(r: Reader) -> list[Result]:
    results: list[Result] = []
    while True:
        type_, done, err = r.int32(), r.boolean(), r.int32()
        if done:
            return results
        if type_ == OpCode.ERROR:
            assert r.int32() == err, "an error told twice, and differently"
            results.append(Result(err))
        else:
            results.append(_read_result(r, type_))


def _stat(r: Reader) -> Stat:
    start, r.pos = r.pos, r.pos + STAT.size
    return Stat._make(STAT.unpack_from(r.data, start))
