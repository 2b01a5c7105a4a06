"""The leader's first stage: a request becomes a transaction.

Requests arrive faster than transactions commit, so each is judged against the tree *as it will be* once everything
proposed before it has been applied. That state is kept as a thin layer over the tree: for every path touched by an
outstanding transaction, one ``Pending`` with the values it will have. ``committed`` drops what has been applied.

A refused request becomes an ERROR transaction and takes a zxid like any other: the answer "no node" is thus
ordered among the writes that make it true, on every server. A multi is tried op by op; if one fails, the layer is
put back as it was and the transaction says which op failed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.keeper.proto.errors import ErrorCode, KeeperError, MarshallingError
from ottla.keeper.proto.jute import Reader
from ottla.keeper.proto.opcodes import CreateMode, OpCode, Perms
from ottla.keeper.proto.records import (
    ACL,
    REQUESTS,
    CreateRequest,
    Id,
    MultiRequest,
    PathRequest,
    PathVersionRequest,
    Request,
    SessionRequest,
    SetACLRequest,
    SetDataRequest,
)
from ottla.keeper.proto.txns import (
    CheckVersionTxn,
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    Txn,
    TxnBody,
)
from ottla.keeper.server import acl as acls
from ottla.keeper.server import quota
from ottla.keeper.server.paths import parent_of, require_parent, require_valid
from ottla.keeper.server.sessions import NOBODY
from ottla.keeper.server.tree import (
    CONTAINER_OWNER,
    SPECIAL_PATHS,
    TTL_MAX_MS,
    DataTree,
    Node,
    digest_of,
    is_ephemeral,
    signed64,
    ttl_owner,
)

log = logging.getLogger(__name__)


class Submitted(NamedTuple):
    """A request for a write on its way to the leader, from whichever server the client is attached to."""

    session_id: int
    cxid: int
    type: int
    body: bytes
    ids: tuple[Id, ...]
    owner: int
    """The server the session is attached to, as far as that server knows; NOBODY for the ensemble's own requests."""
    parsed: Request | None = None
    """What ``body`` says, where this server has read it already; it does not travel."""


class SessionCheck(Protocol):
    """The leader's view of sessions, as far as preparing transactions needs it."""

    def check(self, session_id: int, owner: int) -> None:
        """Raise SESSION_EXPIRED or SESSION_MOVED unless ``owner`` may act for the session."""

    def opened(self, session_id: int, timeout_ms: int, owner: int) -> None: ...
    def closing(self, session_id: int) -> None: ...


class Rules(NamedTuple):
    """The settings that decide what is refused."""

    skip_acl: bool = False
    enforce_quota: bool = False
    extended_types: bool = False


class Pending:
    """A znode as it will be; ``exists`` is False once its deletion is outstanding."""

    __slots__ = (
        "acl", "aversion", "children", "ctime", "cversion", "czxid", "data", "digest", "ephemeral_owner", "exists",
        "mtime", "mzxid", "pzxid", "version", "zxid",
    )  # fmt: skip
    data: bytes | None
    acl: tuple[ACL, ...]
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    pzxid: int
    digest: int
    children: int

    def __init__(self, node: Node | Pending, zxid: int) -> None:
        self.zxid = zxid
        self.exists = True
        self.data = node.data
        self.acl = node.acl
        self.czxid = node.czxid
        self.mzxid = node.mzxid
        self.ctime = node.ctime
        self.mtime = node.mtime
        self.version = node.version
        self.cversion = node.cversion
        self.aversion = node.aversion
        self.ephemeral_owner = node.ephemeral_owner
        self.pzxid = node.pzxid
        self.digest = node.digest
        children = node.children
        self.children = children if isinstance(children, int) else len(children or ())


class Prep:
    """Turns requests into transactions over one tree, and remembers what is outstanding."""

    def __init__(self, tree: DataTree, sessions: SessionCheck, rules: Rules) -> None:
        self.tree = tree
        self.sessions = sessions
        self.rules = rules
        self._pending: dict[str, Pending] = {}
        self._outstanding: deque[tuple[str, Pending]] = deque()
        self._digest = tree.digest

    def prepare(self, request: Submitted, zxid: int, now_ms: int) -> Txn:
        """The transaction for ``request``. Never fails: a refusal is a transaction too."""
        if not self._outstanding:
            self._digest = self.tree.digest
        step = _Step(self, request, zxid, now_ms)
        mark = len(self._outstanding)
        type_ = request.type
        body: TxnBody
        try:
            parsed = request.parsed or _parse(request)
            body = self._multi(step, parsed) if isinstance(parsed, MultiRequest) else step.run(type_, parsed)
        except KeeperError as e:
            self._roll_back(mark, step)
            return Txn(request.session_id, request.cxid, zxid, now_ms, OpCode.ERROR, ErrorTxn(e.code), None)
        except Exception:
            # The zxid is given away already; without a transaction there would be a hole.
            log.exception("operation %d of session 0x%x could not be prepared", type_, request.session_id)
            self._roll_back(mark, step)
            err = ErrorTxn(ErrorCode.SYSTEM_ERROR)
            return Txn(request.session_id, request.cxid, zxid, now_ms, OpCode.ERROR, err, None)
        return Txn(request.session_id, request.cxid, zxid, now_ms, type_, body, signed64(self._digest))

    def _multi(self, step: _Step, multi: MultiRequest) -> MultiTxn:
        mark = len(self._outstanding)
        done: list[tuple[int, TxnBody]] = []
        failed = False
        for op in multi.ops:
            if failed:
                done.append((OpCode.ERROR, ErrorTxn(ErrorCode.RUNTIME_INCONSISTENCY)))
                continue
            try:
                done.append((op.type, step.run(op.type, op.request)))
            except MarshallingError:
                raise
            except KeeperError as e:
                failed = True
                self._roll_back(mark, step)
                done.append((OpCode.ERROR, ErrorTxn(e.code)))
        return MultiTxn(done)

    def committed(self, zxid: int) -> None:
        """Everything up to ``zxid`` is in the tree now."""
        outstanding = self._outstanding
        while outstanding and outstanding[0][1].zxid <= zxid:
            path, record = outstanding.popleft()
            if self._pending.get(path) is record:
                del self._pending[path]

    def find(self, path: str) -> Node | Pending | None:
        record = self._pending.get(path)
        if record is not None:
            return record if record.exists else None
        return self.tree.nodes.get(path)

    def change(self, path: str, record: Pending, digest_before: int) -> None:
        self._pending[path] = record
        self._outstanding.append((path, record))
        self._digest += record.digest - digest_before

    def ephemerals_of(self, session_id: int) -> list[str]:
        """What the session owns, outstanding creations and deletions included."""
        owned = set(self.tree.ephemerals.get(session_id, ()))
        for path, record in self._outstanding:
            if not record.exists:
                owned.discard(path)
            elif record.ephemeral_owner == session_id:
                owned.add(path)
        return sorted(owned)

    def _roll_back(self, mark: int, step: _Step) -> None:
        """Undo what this request put into the layer, newest first."""
        while len(self._outstanding) > mark:
            path, record = self._outstanding.pop()
            before = step.shadowed.pop()
            self._digest -= record.digest - before.digest_before
            if before.record is None:
                del self._pending[path]
            else:
                self._pending[path] = before.record


class _Shadowed(NamedTuple):
    """What one change covered, so that a refused multi can uncover it."""

    record: Pending | None
    digest_before: int


class _Step:
    """One request (or one multi) being prepared: all its ops share zxid, time and requester."""

    def __init__(self, prep: Prep, request: Submitted, zxid: int, now_ms: int) -> None:
        self.prep = prep
        self.request = request
        self.zxid = zxid
        self.now_ms = now_ms
        self.shadowed: list[_Shadowed] = []

    def run(self, type_: int, parsed: Request) -> TxnBody:
        body: TxnBody = _HANDLERS[type_](self, type_, parsed)
        return body

    # What every handler needs.

    def need(self, path: str) -> Node | Pending:
        record = self.prep.find(path)
        if record is None:
            raise KeeperError(ErrorCode.NO_NODE, path)
        return record

    def check_session(self) -> None:
        self.prep.sessions.check(self.request.session_id, self.request.owner)

    def check_acl(self, acl: tuple[ACL, ...], perm: int) -> None:
        if not self.prep.rules.skip_acl:
            acls.require(acl, perm, self.request.ids)

    def check_quota(self, path: str, count: int, size: int) -> None:
        if not self.prep.rules.enforce_quota:
            return
        tree = self.prep.tree
        of = tree.quota_for(path)
        if of is None:
            return
        limits, stats = tree.nodes.get(quota.limits_path(of)), tree.nodes.get(quota.stats_path(of))
        if limits is None or not quota.bounds(quota.parse_strictly(limits.data), count, size) or stats is None:
            return
        if quota.exceeded(quota.parse_strictly(limits.data), quota.parse_strictly(stats.data), count, size):
            raise KeeperError(ErrorCode.QUOTA_EXCEEDED, of)

    def put(self, path: str, record: Pending, digest_before: int) -> None:
        """Lay ``record`` over ``path``."""
        record.digest = (
            digest_of(
                path,
                record.data,
                (
                    record.czxid,
                    record.mzxid,
                    record.pzxid,
                    record.ctime,
                    record.mtime,
                    record.version,
                    record.cversion,
                    record.aversion,
                    record.ephemeral_owner,
                ),
            )
            if record.exists
            else 0
        )
        self.shadowed.append(_Shadowed(self.prep._pending.get(path), digest_before))
        self.prep.change(path, record, digest_before)

    # One handler an operation, in ZooKeeper's order of checks, which decides the error a client sees.

    def create(self, type_: int, parsed: CreateRequest) -> TxnBody:
        prep, zxid = self.prep, self.zxid
        try:
            mode = CreateMode(parsed.flags)
        except ValueError:
            raise KeeperError(ErrorCode.BAD_ARGUMENTS, f"create flags {parsed.flags}") from None
        self._validate_mode(mode, parsed)
        path = parsed.path
        parent_path = require_parent(path)
        acl = acls.fixup(parsed.acl, self.request.ids)
        parent = self.need(parent_path)
        self.check_acl(parent.acl, Perms.CREATE)
        if mode.is_sequential:
            path = f"{path}{parent.cversion:010d}"
        require_valid(path)
        if prep.find(path) is not None:
            raise KeeperError(ErrorCode.NODE_EXISTS, path)
        if is_ephemeral(parent.ephemeral_owner):
            raise KeeperError(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS, path)
        self.check_quota(path, 1, len(parsed.data or b""))

        above = Pending(parent, zxid)
        above.children += 1
        above.cversion = _next_int(parent.cversion)
        above.pzxid = zxid
        owner = 0
        if type_ == OpCode.CREATE_CONTAINER:
            owner = CONTAINER_OWNER
        elif type_ == OpCode.CREATE_TTL:
            owner = ttl_owner(parsed.ttl)
        elif mode.is_ephemeral:
            owner = self.request.session_id
        node = Node(parsed.data, acl, zxid, zxid, self.now_ms, self.now_ms, ephemeral_owner=owner, pzxid=zxid)
        self.put(parent_path, above, parent.digest)
        self.put(path, Pending(node, zxid), 0)
        if type_ == OpCode.CREATE_CONTAINER:
            return CreateContainerTxn(path, parsed.data, acl, above.cversion)
        if type_ == OpCode.CREATE_TTL:
            return CreateTTLTxn(path, parsed.data, acl, above.cversion, parsed.ttl)
        return CreateTxn(path, parsed.data, acl, mode.is_ephemeral, above.cversion)

    def _validate_mode(self, mode: CreateMode, parsed: CreateRequest) -> None:
        if mode.is_ttl and not self.prep.rules.extended_types:
            raise KeeperError(ErrorCode.UNIMPLEMENTED, "TTL nodes need extendedTypesEnabled=true")
        if mode.is_ttl:
            if not 0 < parsed.ttl <= TTL_MAX_MS:
                raise KeeperError(ErrorCode.BAD_ARGUMENTS, f"a ttl of {parsed.ttl} ms")
        elif parsed.ttl >= 0:
            raise KeeperError(ErrorCode.BAD_ARGUMENTS, f"a ttl with create mode {mode.name}")
        self.check_session()

    def delete(self, _type: int, parsed: PathVersionRequest) -> TxnBody:
        self.check_session()
        path = parsed.path
        parent_path = _parent_of_deletable(path)
        parent = self.need(parent_path)
        self.check_acl(parent.acl, Perms.DELETE)
        node = self.need(path)
        _check_version(node.version, parsed.version)
        self._remove(path, node, parent_path, parent)
        return DeleteTxn(path)

    def delete_container(self, _type: int, parsed: PathRequest) -> TxnBody:
        """For the ensemble itself, but clients may ask too; unlike ZooKeeper's, ours must be allowed to delete."""
        path = parsed.path
        parent_path = _parent_of_deletable(path)
        node = self.need(path)
        if _child_count(node):
            raise KeeperError(ErrorCode.NOT_EMPTY, path)
        if is_ephemeral(node.ephemeral_owner):
            raise KeeperError(ErrorCode.BAD_VERSION, path)
        parent = self.need(parent_path)
        if self.request.owner != NOBODY:
            self.check_session()
            self.check_acl(parent.acl, Perms.DELETE)
        self._remove(path, node, parent_path, parent)
        return DeleteTxn(path)

    def _remove(self, path: str, node: Node | Pending, parent_path: str, parent: Node | Pending) -> None:
        if _child_count(node):
            raise KeeperError(ErrorCode.NOT_EMPTY, path)
        above = Pending(parent, self.zxid)
        above.children -= 1
        above.pzxid = self.zxid
        gone = Pending(node, self.zxid)
        gone.exists = False
        self.put(parent_path, above, parent.digest)
        self.put(path, gone, node.digest)

    def set_data(self, _type: int, parsed: SetDataRequest) -> TxnBody:
        self.check_session()
        path = parsed.path
        require_valid(path)
        node = self.need(path)
        self.check_acl(node.acl, Perms.WRITE)
        self.check_quota(path, 0, len(parsed.data or b"") - len(node.data or b""))
        version = _check_version(node.version, parsed.version)
        record = Pending(node, self.zxid)
        record.version = version
        record.mtime = self.now_ms
        record.mzxid = self.zxid
        record.data = parsed.data
        self.put(path, record, node.digest)
        return SetDataTxn(path, parsed.data, version)

    def set_acl(self, _type: int, parsed: SetACLRequest) -> TxnBody:
        self.check_session()
        path = parsed.path
        require_valid(path)
        acl = acls.fixup(parsed.acl, self.request.ids)
        node = self.need(path)
        self.check_acl(node.acl, Perms.ADMIN)
        version = _check_version(node.aversion, parsed.version)
        record = Pending(node, self.zxid)
        record.aversion = version
        # ZooKeeper leaves the old ACL in its outstanding record; a pipelined check against it would be a hole.
        record.acl = acl
        self.put(path, record, node.digest)
        return SetACLTxn(path, acl, version)

    def check(self, _type: int, parsed: PathVersionRequest) -> TxnBody:
        self.check_session()
        require_valid(parsed.path)
        node = self.need(parsed.path)
        self.check_acl(node.acl, Perms.READ)
        return CheckVersionTxn(parsed.path, _check_version(node.version, parsed.version))

    def reconfig(self, _type: int, _parsed: Request) -> TxnBody:
        raise KeeperError(ErrorCode.RECONFIG_DISABLED)

    def create_session(self, _type: int, parsed: SessionRequest) -> TxnBody:
        self.prep.sessions.opened(self.request.session_id, parsed.timeout_ms, self.request.owner)
        return CreateSessionTxn(parsed.timeout_ms)

    def close_session(self, _type: int, _parsed: Request) -> TxnBody:
        session_id = self.request.session_id
        owned = self.prep.ephemerals_of(session_id)
        for path in owned:
            parent_path = parent_of(path)
            parent, node = self.need(parent_path), self.need(path)
            self._remove(path, node, parent_path, parent)
        self.prep.sessions.closing(session_id)
        return CloseSessionTxn(owned)


def _parse(request: Submitted) -> Request:
    reader = REQUESTS.get(request.type)
    if reader is None:
        raise KeeperError(ErrorCode.UNIMPLEMENTED)
    r = Reader(request.body)
    parsed = reader(r)
    if r.null_seen:
        raise MarshallingError("null where a string is required")
    return parsed


def _parent_of_deletable(path: str) -> str:
    parent = require_parent(path)
    if path in SPECIAL_PATHS:
        raise KeeperError(ErrorCode.BAD_ARGUMENTS, f"{path} cannot be deleted")
    return parent


def _child_count(node: Node | Pending) -> int:
    children = node.children
    return children if isinstance(children, int) else len(children or ())


def _next_int(value: int) -> int:
    """The int after ``value`` in Java's arithmetic, which the stored versions follow."""
    return value + 1 if value != (1 << 31) - 1 else -(1 << 31)


def _check_version(current: int, expected: int) -> int:
    if expected not in (-1, current):
        raise KeeperError(ErrorCode.BAD_VERSION)
    return _next_int(current)


_HANDLERS: dict[int, Callable[..., TxnBody]] = {
    OpCode.CREATE: _Step.create,
    OpCode.CREATE2: _Step.create,
    OpCode.CREATE_CONTAINER: _Step.create,
    OpCode.CREATE_TTL: _Step.create,
    OpCode.DELETE: _Step.delete,
    OpCode.DELETE_CONTAINER: _Step.delete_container,
    OpCode.SET_DATA: _Step.set_data,
    OpCode.SET_ACL: _Step.set_acl,
    OpCode.CHECK: _Step.check,
    OpCode.RECONFIG: _Step.reconfig,
    OpCode.CREATE_SESSION: _Step.create_session,
    OpCode.CLOSE_SESSION: _Step.close_session,
}
