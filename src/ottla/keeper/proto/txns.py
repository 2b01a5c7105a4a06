"""Transactions: what the leader orders, every server logs and every server applies.

The encoding is ZooKeeper's own, so that its transaction logs and ours are one format:

    TxnHeader   long clientId, int cxid, long zxid, long time, int type
    body        by type; none for CREATE_SESSION's counterpart written before 3.7 (an empty CLOSE_SESSION)
    TxnDigest   int version, long treeDigest; absent behind ERROR and in logs written before 3.6

A body says what *is* after it, never how to get there (a SET_DATA carries the new version, a CREATE the
parent's new child version), which is what makes applying one twice harmless.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from ottla.keeper.proto.errors import MarshallingError
from ottla.keeper.proto.jute import Reader, put_boolean, put_buffer, put_int, put_long, put_string, put_strings
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import ACL, put_acls, read_acls

TXN_HEADER = Struct(">qiqqi")
TXN_DIGEST = Struct(">iq")
DIGEST_VERSION = 2


class CreateTxn(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    ephemeral: bool
    parent_cversion: int


class CreateContainerTxn(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    parent_cversion: int


class CreateTTLTxn(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    parent_cversion: int
    ttl: int


class DeleteTxn(NamedTuple):
    path: str


class SetDataTxn(NamedTuple):
    path: str
    data: bytes | None
    version: int


class CheckVersionTxn(NamedTuple):
    path: str
    version: int


class SetACLTxn(NamedTuple):
    path: str
    acl: tuple[ACL, ...]
    version: int


class CreateSessionTxn(NamedTuple):
    timeout_ms: int


class CloseSessionTxn(NamedTuple):
    paths: list[str] | None
    """The ephemerals that go with the session; None in logs of servers that did not write them down."""


class ErrorTxn(NamedTuple):
    err: int


class MultiTxn(NamedTuple):
    txns: list[tuple[int, TxnBody]]


TxnBody = (
    CreateTxn
    | CreateContainerTxn
    | CreateTTLTxn
    | DeleteTxn
    | SetDataTxn
    | CheckVersionTxn
    | SetACLTxn
    | CreateSessionTxn
    | CloseSessionTxn
    | ErrorTxn
    | MultiTxn
)


class Txn(NamedTuple):
    session_id: int
    cxid: int
    zxid: int
    time_ms: int
    type: int
    body: TxnBody
    digest: int | None
    """The digest of the whole tree once this is applied; None where the writer recorded none."""
    digest_version: int = DIGEST_VERSION


class Entry(NamedTuple):
    """A transaction as the ensemble and the log carry it: opaque but for its zxid."""

    zxid: int
    raw: bytes


def encode_txn(txn: Txn) -> bytes:
    out = bytearray(TXN_HEADER.pack(txn.session_id, txn.cxid, txn.zxid, txn.time_ms, txn.type))
    put_body(out, txn.body)
    if txn.digest is not None:
        out += TXN_DIGEST.pack(txn.digest_version, txn.digest)
    return bytes(out)


def decode_txn(raw: bytes) -> Txn:
    if len(raw) < TXN_HEADER.size:
        raise MarshallingError(f"a transaction of {len(raw)} bytes")
    session_id, cxid, zxid, time_ms, type_ = TXN_HEADER.unpack_from(raw)
    r = Reader(raw, TXN_HEADER.size)
    body = read_body(r, type_)
    digest, version = None, DIGEST_VERSION
    if r.remaining() >= TXN_DIGEST.size:
        version, digest = TXN_DIGEST.unpack_from(raw, r.pos)
    return Txn(session_id, cxid, zxid, time_ms, type_, body, digest, version)


def zxid_of(raw: bytes) -> int:
    """The zxid of an encoded transaction, without decoding the rest."""
    zxid: int = TXN_HEADER.unpack_from(raw)[2]
    return zxid


def read_body(r: Reader, type_: int) -> TxnBody:
    reader = _READERS.get(type_)
    if reader is None:
        raise MarshallingError(f"a transaction of unknown type {type_}")
    return reader(r)


def put_body(out: bytearray, body: TxnBody) -> None:
    _WRITERS[type(body)](out, body)


def _create(r: Reader) -> CreateTxn:
    path, data, acl, ephemeral = r.string(), r.buffer(), read_acls(r), r.boolean()
    # ZooKeeper before 3.4 wrote no parent version; its servers read that as "one more than what is there".
    return CreateTxn(path, data, acl, ephemeral, r.int32() if r.remaining() >= 4 else -1)


def _create_container(r: Reader) -> CreateContainerTxn:
    return CreateContainerTxn(r.string(), r.buffer(), read_acls(r), r.int32())


def _create_ttl(r: Reader) -> CreateTTLTxn:
    return CreateTTLTxn(r.string(), r.buffer(), read_acls(r), r.int32(), r.int64())


def _delete(r: Reader) -> DeleteTxn:
    return DeleteTxn(r.string())


def _set_data(r: Reader) -> SetDataTxn:
    return SetDataTxn(r.string(), r.buffer(), r.int32())


def _check(r: Reader) -> CheckVersionTxn:
    return CheckVersionTxn(r.string(), r.int32())


def _set_acl(r: Reader) -> SetACLTxn:
    return SetACLTxn(r.string(), read_acls(r), r.int32())


def _create_session(r: Reader) -> CreateSessionTxn:
    return CreateSessionTxn(r.int32())


def _close_session(r: Reader) -> CloseSessionTxn:
    # Behind an empty body there may still be a 12-byte digest, whose first int is the small digest version:
    # a vector of paths that long would not fit into what follows.
    if r.remaining() in (0, TXN_DIGEST.size):
        return CloseSessionTxn(None)
    return CloseSessionTxn(r.strings())


def _error(r: Reader) -> ErrorTxn:
    return ErrorTxn(r.int32())


def _sub_txn(r: Reader) -> tuple[int, TxnBody]:
    type_, raw = r.int32(), r.buffer()
    return type_, read_body(Reader(raw or b""), type_)


def _multi(r: Reader) -> MultiTxn:
    return MultiTxn(r.vector(_sub_txn, 8))


_READERS: dict[int, Callable[[Reader], TxnBody]] = {
    OpCode.CREATE: _create,
    OpCode.CREATE2: _create,
    OpCode.CREATE_CONTAINER: _create_container,
    OpCode.CREATE_TTL: _create_ttl,
    OpCode.DELETE: _delete,
    OpCode.DELETE_CONTAINER: _delete,
    OpCode.SET_DATA: _set_data,
    OpCode.RECONFIG: _set_data,
    OpCode.CHECK: _check,
    OpCode.SET_ACL: _set_acl,
    OpCode.CREATE_SESSION: _create_session,
    OpCode.CLOSE_SESSION: _close_session,
    OpCode.ERROR: _error,
    OpCode.MULTI: _multi,
}


def _put_create(out: bytearray, t: CreateTxn) -> None:
    _put_node(out, t.path, t.data, t.acl)
    put_boolean(out, t.ephemeral)
    put_int(out, t.parent_cversion)


def _put_create_container(out: bytearray, t: CreateContainerTxn) -> None:
    _put_node(out, t.path, t.data, t.acl)
    put_int(out, t.parent_cversion)


def _put_create_ttl(out: bytearray, t: CreateTTLTxn) -> None:
    _put_node(out, t.path, t.data, t.acl)
    put_int(out, t.parent_cversion)
    put_long(out, t.ttl)


def _put_node(out: bytearray, path: str, data: bytes | None, acl: tuple[ACL, ...]) -> None:
    put_string(out, path)
    put_buffer(out, data)
    put_acls(out, acl)


def _put_delete(out: bytearray, t: DeleteTxn) -> None:
    put_string(out, t.path)


def _put_set_data(out: bytearray, t: SetDataTxn) -> None:
    put_string(out, t.path)
    put_buffer(out, t.data)
    put_int(out, t.version)


def _put_check(out: bytearray, t: CheckVersionTxn) -> None:
    put_string(out, t.path)
    put_int(out, t.version)


def _put_set_acl(out: bytearray, t: SetACLTxn) -> None:
    put_string(out, t.path)
    put_acls(out, t.acl)
    put_int(out, t.version)


def _put_int_only(out: bytearray, t: CreateSessionTxn | ErrorTxn) -> None:
    put_int(out, t[0])


def _put_close_session(out: bytearray, t: CloseSessionTxn) -> None:
    if t.paths is not None:
        put_strings(out, t.paths)


def _put_multi(out: bytearray, t: MultiTxn) -> None:
    put_int(out, len(t.txns))
    for type_, body in t.txns:
        raw = bytearray()
        put_body(raw, body)
        put_int(out, type_)
        put_buffer(out, bytes(raw))


_WRITERS: dict[type, Callable[[bytearray, TxnBody], None]] = {
    CreateTxn: _put_create,  # type: ignore[dict-item]
    CreateContainerTxn: _put_create_container,  # type: ignore[dict-item]
    CreateTTLTxn: _put_create_ttl,  # type: ignore[dict-item]
    DeleteTxn: _put_delete,  # type: ignore[dict-item]
    SetDataTxn: _put_set_data,  # type: ignore[dict-item]
    CheckVersionTxn: _put_check,  # type: ignore[dict-item]
    SetACLTxn: _put_set_acl,  # type: ignore[dict-item]
    CreateSessionTxn: _put_int_only,  # type: ignore[dict-item]
    CloseSessionTxn: _put_close_session,  # type: ignore[dict-item]
    ErrorTxn: _put_int_only,  # type: ignore[dict-item]
    MultiTxn: _put_multi,  # type: ignore[dict-item]
}
