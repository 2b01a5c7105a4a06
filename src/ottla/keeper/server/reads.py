"""Answers that any server gives from its own tree, without asking the others.

One function an operation: it takes the tree, the client and the request's frame, and returns the reply's body or
raises the error that goes into its header. ``READS`` maps operation codes to them. A watch asked for is set in the
same step that reads, so that no change can fall between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from ottla.keeper.proto.errors import ErrorCode, KeeperError, MarshallingError
from ottla.keeper.proto.jute import INT, NULL, Reader, put_buffer, put_int, put_string, put_strings
from ottla.keeper.proto.opcodes import AddWatchMode, OpCode, Perms, WatcherType
from ottla.keeper.proto.records import (
    MULTI_END,
    REQUESTS,
    TRANSACTIONS,
    Id,
    MultiRequest,
    PathRequest,
    PathTypeRequest,
    PathWatchRequest,
    SetWatchesRequest,
    put_acls,
    put_multi_error,
    put_multi_result,
)
from ottla.keeper.server import acl as acls
from ottla.keeper.server.tree import DataTree, Node, pack_stat
from ottla.keeper.server.watches import Mode, Watcher

R = TypeVar("R")

_HEADER_BYTES: Final = 8
_BODY_AT: Final = _HEADER_BYTES + 4
_READ: Final = Perms.READ.value
_STANDARD: Final = Mode.STANDARD.value
_unpack_int = INT.unpack_from
_pack_int = INT.pack


class Reading(Watcher, Protocol):
    """A client, as far as reads are concerned."""

    ids: tuple[Id, ...]
    session_id: int
    skip_acl: bool


def path_watch(frame: bytes) -> tuple[str, bool]:
    """The request of the four commonest reads, cut out of the frame directly."""
    if len(frame) < _BODY_AT:
        raise MarshallingError("frame ends inside a path")
    stop = _BODY_AT + _unpack_int(frame, _HEADER_BYTES)[0]
    if not _BODY_AT <= stop < len(frame):
        raise MarshallingError("frame ends inside a path")
    return frame[_BODY_AT:stop].decode(errors="replace"), frame[stop] != 0


def readable(tree: DataTree, client: Reading, path: str) -> Node:
    node = tree.find(path)
    if node is None:
        raise KeeperError(ErrorCode.NO_NODE, path)
    if not client.may_read(node.acl):
        raise KeeperError(ErrorCode.NO_AUTH, path)
    return node


def get_data(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    path, watch = path_watch(frame)
    node = readable(tree, client, path)
    if watch:
        tree.watches.data.add(path, client, _STANDARD)
    data = node.data
    if data is None:
        return NULL + pack_stat(node)
    return _pack_int(len(data)) + data + pack_stat(node)


def exists(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    path, watch = path_watch(frame)
    if "\0" in path:
        raise KeeperError(ErrorCode.BAD_ARGUMENTS, path)
    node = tree.find(path)
    if node is not None and not client.may_read(node.acl):
        raise KeeperError(ErrorCode.NO_AUTH, path)
    if watch:
        tree.watches.data.add(path, client, _STANDARD)
    if node is None:
        raise KeeperError(ErrorCode.NO_NODE, path)
    return pack_stat(node)


def get_children(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    return bytes(_children(tree, client, *path_watch(frame))[0])


def get_children2(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    out, node = _children(tree, client, *path_watch(frame))
    return bytes(out) + pack_stat(node)


def _children(tree: DataTree, client: Reading, path: str, watch: bool) -> tuple[bytearray, Node]:
    node = readable(tree, client, path)
    if watch:
        tree.watches.child.add(path, client, _STANDARD)
    out = bytearray()
    put_strings(out, node.children or ())
    return out, node


def get_acl(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    path = _parse(frame, PathRequest).path
    node = tree.find(path)
    if node is None:
        raise KeeperError(ErrorCode.NO_NODE, path)
    acl = node.acl
    if not client.skip_acl:
        acls.require(acl, Perms.READ | Perms.ADMIN, client.ids)
        if not acls.allowed(acl, Perms.ADMIN, client.ids):
            acl = acls.masked(acl)
    out = bytearray()
    put_acls(out, acl)
    return bytes(out) + pack_stat(node)


def get_all_children_number(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    path = _parse(frame, PathRequest).path
    readable(tree, client, path)
    return _pack_int(tree.all_children(path))


def get_ephemerals(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    prefix = _parse(frame, PathRequest).path
    owned = tree.ephemerals.get(client.session_id, set())
    if prefix.strip() not in ("", "/"):
        owned = {path for path in owned if path.startswith(prefix)}
    out = bytearray()
    put_strings(out, owned)
    return bytes(out)


def who_am_i(_tree: DataTree, client: Reading, _frame: bytes) -> bytes:
    out = bytearray()
    put_int(out, len(client.ids))
    for held in client.ids:
        put_string(out, held.scheme)
        put_string(out, acls.user_name(held))
    return bytes(out)


def multi_read(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    """Each read by itself: one that fails reports its error, the others their results. None sets a watch."""
    ops = _parse(frame, MultiRequest).ops
    writes = [op for op in ops if op.type in TRANSACTIONS]
    if writes:
        error = MarshallingError("a multi-read that writes")
        # ZooKeeper refuses a mixture while it reads, but pure writes only when it acts on them, results begun.
        error.body = MULTI_END if len(writes) == len(ops) else b""
        raise error
    out = bytearray()
    for op in ops:
        request = op.request
        assert isinstance(request, PathWatchRequest)
        try:
            body = bytearray()
            if op.type == OpCode.GET_DATA:
                node = readable(tree, client, request.path)
                put_buffer(body, node.data)
                body += pack_stat(node)
            else:
                body, _ = _children(tree, client, request.path, watch=False)
            put_multi_result(out, op.type, body)
        except KeeperError as e:
            put_multi_error(out, e.code)
    return bytes(out) + MULTI_END


def set_watches(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    tree.watches.reset(_parse(frame, SetWatchesRequest), tree.nodes, client)
    return b""


def add_watch(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    request = _parse(frame, PathTypeRequest)
    if request.type not in (AddWatchMode.PERSISTENT, AddWatchMode.PERSISTENT_RECURSIVE):
        raise MarshallingError(f"add watch mode {request.type}")
    tree.watches.add(request.path, client, recursive=request.type == AddWatchMode.PERSISTENT_RECURSIVE)
    return _pack_int(0)


def check_watches(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    request = _watch_type(frame)
    if not tree.watches.has(request.path, request.type, client):
        raise KeeperError(ErrorCode.NO_WATCHER, request.path)
    return b""


def remove_watches(tree: DataTree, client: Reading, frame: bytes) -> bytes:
    request = _watch_type(frame)
    if not tree.watches.remove(request.path, request.type, client):
        raise KeeperError(ErrorCode.NO_WATCHER, request.path)
    return b""


def _watch_type(frame: bytes) -> PathTypeRequest:
    request = _parse(frame, PathTypeRequest)
    if request.type not in WatcherType.__members__.values():
        raise MarshallingError(f"watcher type {request.type}")
    return request


def _parse(frame: bytes, _kind: type[R]) -> R:
    """Read the request of a frame by its operation code; ``_kind`` tells the type checker what comes."""
    r = Reader(frame, _HEADER_BYTES)
    request = REQUESTS[_unpack_int(frame, 4)[0]](r)
    if r.null_seen:
        raise MarshallingError("null where a string is required")
    assert isinstance(request, _kind)
    return request


READS: dict[int, Callable[[DataTree, Reading, bytes], bytes]] = {
    OpCode.EXISTS: exists,
    OpCode.GET_DATA: get_data,
    OpCode.GET_ACL: get_acl,
    OpCode.GET_CHILDREN: get_children,
    OpCode.GET_CHILDREN2: get_children2,
    OpCode.GET_ALL_CHILDREN_NUMBER: get_all_children_number,
    OpCode.GET_EPHEMERALS: get_ephemerals,
    OpCode.MULTI_READ: multi_read,
    OpCode.SET_WATCHES: set_watches,
    OpCode.SET_WATCHES2: set_watches,
    OpCode.ADD_WATCH: add_watch,
    OpCode.CHECK_WATCHES: check_watches,
    OpCode.REMOVE_WATCHES: remove_watches,
    OpCode.WHO_AM_I: who_am_i,
}
