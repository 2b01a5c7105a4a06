"""Requests and replies of the client protocol, as values.

One value a request, with the function that reads it beside it; ``REQUESTS`` maps an operation code to
that function. Replies are encoded straight into bytes by small functions, since nobody ever reads them back here.

    frame    = int length, then:
    request  = int xid, int type, body             (RequestHeader)
    reply    = int xid, long zxid, int err, body   (ReplyHeader; the body is there only when err is 0)
    event    = a reply with xid -1, the zxid of the change, and a WatcherEvent body
    connect  = the first frame each way, without header
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import ClassVar, Final, NamedTuple

from ottla.keeper.proto.errors import MarshallingError, NullListError
from ottla.keeper.proto.jute import NULL, Reader, put_int, put_string
from ottla.keeper.proto.opcodes import CreateMode, KeeperState, OpCode, Perms
from ottla.keeper.proto.values import Value

NOTIFICATION_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8

REQUEST_HEADER: Final = Struct(">ii")
REPLY_HEADER: Final = Struct(">iqi")
FRAMED_REPLY_HEADER: Final = Struct(">iiqi")
_FRAMED_EVENT: Final = Struct(">iiqiiii")
STAT: Final = Struct(">qqqqiiiqiiq")
CONNECT_REQUEST: Final = Struct(">iqiqi")
CONNECT_RESPONSE: Final = Struct(">iiqi16sB")


class Id(NamedTuple):
    scheme: str
    id: str


class ACL(NamedTuple):
    perms: int
    scheme: str
    id: str


OPEN_ACL_UNSAFE: tuple[ACL, ...] = (ACL(Perms.ALL.value, "world", "anyone"),)
"""What nearly every znode has: one tuple for all of them, so that a look at its identity is enough."""
_OPEN_ACL: Final = Struct(">iii5si6s").pack(1, Perms.ALL.value, 5, b"world", 6, b"anyone")
_OPEN_ACL_BYTES: Final = 27

NULL_ID: Final = "\0null"
"""Stands for an id that was null on the wire."""


class Stat(NamedTuple):
    """The eleven fields of a znode's status, in wire order."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class ConnectRequest(NamedTuple):
    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool
    has_read_only: bool
    """Clients older than 3.4 leave the read-only flag out, and then do not expect it in the answer."""


def read_connect_request(frame: bytes) -> ConnectRequest:
    if len(frame) < CONNECT_REQUEST.size:
        raise MarshallingError(f"a connect request of {len(frame)} bytes")
    version, zxid, timeout, session_id, length = CONNECT_REQUEST.unpack_from(frame)
    start = CONNECT_REQUEST.size
    if length < -1 or start + max(length, 0) > len(frame):
        raise MarshallingError(f"a password of {length} bytes in a connect request of {len(frame)}")
    stop = start + max(length, 0)
    has_read_only = len(frame) > stop
    read_only = has_read_only and frame[stop] != 0
    return ConnectRequest(version, zxid, timeout, session_id, frame[start:stop], read_only, has_read_only)


def connect_response(
    timeout_ms: int, session_id: int, password: bytes, *, read_only: bool, with_read_only: bool
) -> bytes:
    body = CONNECT_RESPONSE.pack(0, timeout_ms, session_id, 16, password, read_only)
    if not with_read_only:
        body = body[:-1]
    return len(body).to_bytes(4, "big") + body


class CreateRequest(Value):
    _fields: ClassVar[tuple[str, ...]] = ("path", "data", "acl", "flags", "ttl")

    def __init__(self, path: str, data: bytes | None, acl: tuple[ACL, ...] | None, flags: int, ttl: int) -> None:
        self.path = path
        self.data = data
        self.acl = acl
        self.flags = flags
        self.ttl = ttl


class PathVersionRequest(Value):
    """DELETE and CHECK."""

    _fields: ClassVar[tuple[str, ...]] = ("path", "version")

    def __init__(self, path: str, version: int) -> None:
        self.path = path
        self.version = version


class SetDataRequest(Value):
    _fields: ClassVar[tuple[str, ...]] = ("path", "data", "version")

    def __init__(self, path: str, data: bytes | None, version: int) -> None:
        self.path = path
        self.data = data
        self.version = version


class SetACLRequest(NamedTuple):
    path: str
    acl: tuple[ACL, ...]
    version: int


class PathWatchRequest(NamedTuple):
    """EXISTS, GET_DATA, GET_CHILDREN and GET_CHILDREN2."""

    path: str
    watch: bool


class PathRequest(NamedTuple):
    """GET_ACL, SYNC, GET_ALL_CHILDREN_NUMBER, GET_EPHEMERALS and DELETE_CONTAINER."""

    path: str


class PathTypeRequest(NamedTuple):
    """CHECK_WATCHES, REMOVE_WATCHES (a WatcherType) and ADD_WATCH (an AddWatchMode)."""

    path: str
    type: int


class SetWatchesRequest(NamedTuple):
    relative_zxid: int
    data: list[str]
    exist: list[str]
    child: list[str]
    persistent: list[str]
    persistent_recursive: list[str]


class AuthRequest(NamedTuple):
    type: int
    scheme: str
    auth: bytes | None


class ReconfigRequest(NamedTuple):
    joining: str | None
    leaving: str | None
    members: str | None
    config_id: int


class Op(Value):
    """One operation of a multi: its code and its request."""

    _fields: ClassVar[tuple[str, ...]] = ("type", "request")

    def __init__(self, type_: int, request: Request) -> None:
        self.type = type_
        self.request = request


class MultiRequest(NamedTuple):
    ops: list[Op]


class SessionRequest(NamedTuple):
    """CREATE_SESSION between our own servers; CLOSE_SESSION carries no body."""

    timeout_ms: int


class EmptyRequest(NamedTuple):
    """PING, CLOSE_SESSION and WHO_AM_I."""


Request = (
    CreateRequest
    | PathVersionRequest
    | SetDataRequest
    | SetACLRequest
    | PathWatchRequest
    | PathRequest
    | PathTypeRequest
    | SetWatchesRequest
    | AuthRequest
    | ReconfigRequest
    | MultiRequest
    | SessionRequest
    | EmptyRequest
)


def _acl(r: Reader) -> ACL:
    # A null scheme is read as an empty one, which is no scheme; a null id as one that no string can be.
    perms, scheme, id_ = r.int32(), r.nullable_string() or "", r.nullable_string()
    return ACL(perms, scheme, NULL_ID if id_ is None else id_)


def read_acls(r: Reader) -> tuple[ACL, ...]:
    stop = r.pos + _OPEN_ACL_BYTES
    if r.data[r.pos : stop] == _OPEN_ACL:
        r.pos = stop
        return OPEN_ACL_UNSAFE
    return tuple(r.vector(_acl, 12))


def _nullable_acls(r: Reader) -> tuple[ACL, ...] | None:
    is_null = r.data[r.pos : r.pos + 4] == NULL
    listed = read_acls(r)
    return None if is_null else listed


def _create(r: Reader) -> CreateRequest:
    return CreateRequest(r.string(), r.buffer(), _nullable_acls(r), r.int32(), -1)


def _create_ttl(r: Reader) -> CreateRequest:
    return CreateRequest(r.string(), r.buffer(), _nullable_acls(r), r.int32(), r.int64())


def _path_version(r: Reader) -> PathVersionRequest:
    return PathVersionRequest(r.string(), r.int32())


def _set_data(r: Reader) -> SetDataRequest:
    return SetDataRequest(r.string(), r.buffer(), r.int32())


def _set_acl(r: Reader) -> SetACLRequest:
    return SetACLRequest(r.string(), read_acls(r), r.int32())


def _path_watch(r: Reader) -> PathWatchRequest:
    return PathWatchRequest(r.string(), r.boolean())


def _path(r: Reader) -> PathRequest:
    return PathRequest(r.string())


def _nullable_path(r: Reader) -> PathRequest:
    return PathRequest(r.nullable_string() or "")


def _path_type(r: Reader) -> PathTypeRequest:
    return PathTypeRequest(r.string(), r.int32())


def _set_watches(r: Reader) -> SetWatchesRequest:
    return SetWatchesRequest(r.int64(), r.strings(), r.strings(), r.strings(), [], [])


def _set_watches2(r: Reader) -> SetWatchesRequest:
    return SetWatchesRequest(r.int64(), r.strings(), r.strings(), r.strings(), r.strings(), r.strings())


def _auth(r: Reader) -> AuthRequest:
    return AuthRequest(r.int32(), r.string(), r.buffer())


def _reconfig(r: Reader) -> ReconfigRequest:
    return ReconfigRequest(r.nullable_string(), r.nullable_string(), r.nullable_string(), r.int64())


def _session(r: Reader) -> SessionRequest:
    return SessionRequest(r.int32())


def _empty(_r: Reader) -> EmptyRequest:
    return EmptyRequest()


def _multi_of(allowed: frozenset[OpCode]) -> Callable[[Reader], MultiRequest]:
    def read(r: Reader) -> MultiRequest:
        ops: list[Op] = []
        while True:
            type_, done, _err = r.int32(), r.boolean(), r.int32()
            if done:
                return MultiRequest(ops)
            if type_ not in allowed:
                raise MarshallingError(f"operation {type_} inside a multi")
            request = REQUESTS[type_](r)
            ops.append(_multi_create(type_, request) if isinstance(request, CreateRequest) else Op(type_, request))

    return read


_CREATE_TTL: Final = OpCode.CREATE_TTL.value
_CONTAINER: Final = CreateMode.CONTAINER.value


def _multi_create(type_: int, request: CreateRequest) -> Op:
    """Inside a multi it is the flags that say what is created; what does not fit together cannot be read."""
    flags = request.flags
    if type_ == _CREATE_TTL:
        if flags in (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL):
            return Op(type_, request)
        request = CreateRequest(request.path, request.data, request.acl, flags, -1)
        return Op(OpCode.CREATE_CONTAINER if flags == CreateMode.CONTAINER else OpCode.CREATE, request)
    if request.acl is None:
        raise NullListError("a creation without an ACL inside a multi")
    if not 0 <= flags <= _CONTAINER:
        raise MarshallingError(f"create flags {flags} for operation {type_} inside a multi")
    return Op(OpCode.CREATE_CONTAINER if flags == _CONTAINER else type_, request)


TRANSACTIONS: Final = frozenset(
    {
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE,
        OpCode.SET_DATA,
        OpCode.CHECK,
    }
)
"""What a multi may consist of."""

REQUESTS: dict[int, Callable[[Reader], Request]] = {
    OpCode.CREATE: _create,
    OpCode.CREATE2: _create,
    OpCode.CREATE_CONTAINER: _create,
    OpCode.CREATE_TTL: _create_ttl,
    OpCode.DELETE: _path_version,
    OpCode.DELETE_CONTAINER: _path,
    OpCode.EXISTS: _path_watch,
    OpCode.GET_DATA: _path_watch,
    OpCode.SET_DATA: _set_data,
    OpCode.GET_ACL: _path,
    OpCode.SET_ACL: _set_acl,
    OpCode.GET_CHILDREN: _path_watch,
    OpCode.GET_CHILDREN2: _path_watch,
    OpCode.SYNC: _nullable_path,
    OpCode.PING: _empty,
    OpCode.CHECK: _path_version,
    OpCode.MULTI: _multi_of(TRANSACTIONS),
    OpCode.MULTI_READ: _multi_of(TRANSACTIONS | {OpCode.GET_DATA, OpCode.GET_CHILDREN}),
    OpCode.RECONFIG: _reconfig,
    OpCode.CHECK_WATCHES: _path_type,
    OpCode.REMOVE_WATCHES: _path_type,
    OpCode.ADD_WATCH: _path_type,
    OpCode.AUTH: _auth,
    OpCode.SET_WATCHES: _set_watches,
    OpCode.SET_WATCHES2: _set_watches2,
    OpCode.GET_EPHEMERALS: _nullable_path,
    OpCode.GET_ALL_CHILDREN_NUMBER: _path,
    OpCode.WHO_AM_I: _empty,
    OpCode.CREATE_SESSION: _session,
    OpCode.CLOSE_SESSION: _empty,
}


def put_acls(out: bytearray, acls: Iterable[ACL]) -> None:
    if acls is OPEN_ACL_UNSAFE:
        out += _OPEN_ACL
        return
    listed = list(acls)
    put_int(out, len(listed))
    for acl in listed:
        put_int(out, acl.perms)
        put_string(out, acl.scheme)
        put_string(out, acl.id)


def reply(xid: int, zxid: int, err: int, body: bytes | bytearray = b"") -> bytes:
    """A framed reply."""
    return FRAMED_REPLY_HEADER.pack(16 + len(body), xid, zxid, err) + body


def watcher_event(type_: int, path: str, zxid: int) -> bytes:
    """A framed notification, as every watcher of one change receives it; ``zxid`` is -1 where none is known."""
    raw = path.encode()
    state = KeeperState.SYNC_CONNECTED.value
    return _FRAMED_EVENT.pack(28 + len(raw), NOTIFICATION_XID, zxid, 0, type_, state, len(raw)) + raw


_ERROR: Final = OpCode.ERROR.value
MULTI_HEADER: Final = Struct(">iBi")
_pack_multi_error = Struct(">iBii").pack
_MULTI_RESULTS: Final = {op.value: MULTI_HEADER.pack(op, 0, 0) for op in OpCode}
MULTI_END: Final = MULTI_HEADER.pack(-1, 1, -1)


def put_multi_result(out: bytearray, type_: int, body: bytes | bytearray) -> None:
    """One result of a multi that went well."""
    out += _MULTI_RESULTS[type_]
    out += body


def put_multi_error(out: bytearray, err: int) -> None:
    out += _pack_multi_error(_ERROR, 0, err, err)
