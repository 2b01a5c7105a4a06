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
from typing import ClassVar, Final, NamedTuple

from ottla.keeper.proto.errors import MarshallingError
from ottla.keeper.proto.jute import Reader, put_boolean, put_buffer, put_int, put_long, put_string, put_strings
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import ACL, put_acls, read_acls
from ottla.keeper.proto.values import Value

TXN_HEADER: Final = Struct(">qiqqi")
TXN_DIGEST: Final = Struct(">iq")
_pack_sub = Struct(">ii").pack
DIGEST_VERSION: Final = 2


class TxnBody(Value):
    """What a transaction does; the subclasses below are all there are."""

    def put(self, out: bytearray) -> None:
        raise NotImplementedError


class CreateTxn(TxnBody):
    _fields: ClassVar[tuple[str, ...]] = ("path", "data", "acl", "ephemeral", "parent_cversion")

    def __init__(
        self, path: str, data: bytes | None, acl: tuple[ACL, ...], ephemeral: bool, parent_cversion: int
    ) -> None:
        self.path = path
        self.data = data
        self.acl = acl
        self.ephemeral = ephemeral
        self.parent_cversion = parent_cversion

    def put(self, out: bytearray) -> None:
        _put_node(out, self.path, self.data, self.acl)
        put_boolean(out, self.ephemeral)
        put_int(out, self.parent_cversion)


class CreateContainerTxn(TxnBody):
    _fields: ClassVar[tuple[str, ...]] = ("path", "data", "acl", "parent_cversion")

    def __init__(self, path: str, data: bytes | None, acl: tuple[ACL, ...], parent_cversion: int) -> None:
        self.path = path
        self.data = data
        self.acl = acl
        self.parent_cversion = parent_cversion

    def put(self, out: bytearray) -> None:
        _put_node(out, self.path, self.data, self.acl)
        put_int(out, self.parent_cversion)


class CreateTTLTxn(TxnBody):
    _fields: ClassVar[tuple[str, ...]] = ("path", "data", "acl", "parent_cversion", "ttl")

    def __init__(self, path: str, data: bytes | None, acl: tuple[ACL, ...], parent_cversion: int, ttl: int) -> None:
        self.path = path
        self.data = data
        self.acl = acl
        self.parent_cversion = parent_cversion
        self.ttl = ttl

    def put(self, out: bytearray) -> None:
        _put_node(out, self.path, self.data, self.acl)
        put_int(out, self.parent_cversion)
        put_long(out, self.ttl)


class DeleteTxn(TxnBody):
    _fields: ClassVar[tuple[str, ...]] = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def put(self, out: bytearray) -> None:
        put_string(out, self.path)


class SetDataTxn(TxnBody):
    _fields: ClassVar[tuple[str, ...]] = ("path", "data", "version")

    def __init__(self, path: str, data: bytes | None, version: int) -> None:
        self.path = path
        self.data = data
        self.version = version

    def put(self, out: bytearray) -> None:
        put_string(out, self.path)
        put_buffer(out, self.data)
        put_int(out, self.version)


class CheckVersionTxn(TxnBody):
    _fields: ClassVar[tuple[str, ...]] = ("path", "version")

    def __init__(self, path: str, version: int) -> None:
        self.path = path
        self.version = version

    def put(self, out: bytearray) -> None:
        put_string(out, self.path)
        put_int(out, self.version)


class SetACLTxn(TxnBody):
    _fields: ClassVar[tuple[str, ...]] = ("path", "acl", "version")

    def __init__(self, path: str, acl: tuple[ACL, ...], version: int) -> None:
        self.path = path
        self.acl = acl
        self.version = version

    def put(self, out: bytearray) -> None:
        put_string(out, self.path)
        put_acls(out, self.acl)
        put_int(out, self.version)


class CreateSessionTxn(TxnBody):
    _fields: ClassVar[tuple[str, ...]] = ("timeout_ms",)

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms

    def put(self, out: bytearray) -> None:
        put_int(out, self.timeout_ms)


class CloseSessionTxn(TxnBody):
    """``paths`` are the ephemerals that go with the session; None in logs of servers that did not write them down."""

    _fields: ClassVar[tuple[str, ...]] = ("paths",)

    def __init__(self, paths: list[str] | None) -> None:
        self.paths = paths

    def put(self, out: bytearray) -> None:
        if self.paths is not None:
            put_strings(out, self.paths)


class ErrorTxn(TxnBody):
    _fields: ClassVar[tuple[str, ...]] = ("err",)

    def __init__(self, err: int) -> None:
        self.err = err

    def put(self, out: bytearray) -> None:
        put_int(out, self.err)


class MultiTxn(TxnBody):
    _fields: ClassVar[tuple[str, ...]] = ("txns",)

    def __init__(self, txns: list[tuple[int, TxnBody]]) -> None:
        self.txns = txns

    def put(self, out: bytearray) -> None:
        put_int(out, len(self.txns))
        for type_, body in self.txns:
            raw = bytearray()
            body.put(raw)
            out += _pack_sub(type_, len(raw))
            out += raw


class Txn(Value):
    """``digest`` is that of the whole tree once this is applied; None where the writer recorded none."""

    _fields: ClassVar[tuple[str, ...]] = (
        "session_id", "cxid", "zxid", "time_ms", "type", "body", "digest", "digest_version",
    )  # fmt: skip

    def __init__(
        self,
        session_id: int,
        cxid: int,
        zxid: int,
        time_ms: int,
        type_: int,
        body: TxnBody,
        digest: int | None,
        digest_version: int = DIGEST_VERSION,
    ) -> None:
        self.session_id = session_id
        self.cxid = cxid
        self.zxid = zxid
        self.time_ms = time_ms
        self.type = type_
        self.body = body
        self.digest = digest
        self.digest_version = digest_version


class Entry(NamedTuple):
    """A transaction as the ensemble and the log carry it: opaque but for its zxid."""

    zxid: int
    raw: bytes


def encode_txn(txn: Txn) -> bytes:
    out = bytearray(TXN_HEADER.pack(txn.session_id, txn.cxid, txn.zxid, txn.time_ms, txn.type))
    txn.body.put(out)
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


def _multi(r: Reader) -> MultiTxn:
    txns: list[tuple[int, TxnBody]] = []
    end = r.end
    for _ in range(r.count(8)):
        type_ = r.int32()
        r.end = r.pos_behind(r.int32())
        txns.append((type_, read_body(r, type_)))
        r.pos, r.end = r.end, end
    return MultiTxn(txns)


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


def _put_node(out: bytearray, path: str, data: bytes | None, acl: tuple[ACL, ...]) -> None:
    put_string(out, path)
    put_buffer(out, data)
    put_acls(out, acl)
