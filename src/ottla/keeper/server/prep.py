"""The leader's first stage: a request becomes a transaction.

Requests arrive faster than transactions commit, so each is judged against the tree *as it will be* once everything
proposed before it has been applied. That state is kept as a thin layer over the tree: for every path touched by an
outstanding transaction, one ``Pending`` with the values it will have. ``committed`` drops what has been applied.
However often one request changes a path, it lays one ``Pending`` over it, and reckons its digest once, at the end.

A refused request becomes an ERROR transaction and takes a zxid like any other: the answer "no node" is thus
ordered among the writes that make it true, on every server. A multi is tried op by op; if one fails, the layer is
put back as it was and the transaction says which op failed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol

from ottla.keeper.proto.errors import ErrorCode, KeeperError, MarshallingError
from ottla.keeper.proto.jute import Reader
from ottla.keeper.proto.opcodes import EPHEMERAL_MODES, SEQUENTIAL_MODES, TTL_MODES, CreateMode, OpCode, Perms
from ottla.keeper.proto.records import (
    ACL,
    OPEN_ACL_UNSAFE,
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
from ottla.keeper.proto.values import Value
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
    is_ephemeral,
    node_digest,
    signed64,
    ttl_owner,
)

log = logging.getLogger(__name__)

TELL_OF_QUOTA_MS: Final = 10_000
"""A writer that goes on over its quota is not told of with every write."""
TOLD_OF_QUOTA_MAX: Final = 1000

# Attributes of an enumeration are looked up each time, even by compiled code.
_CHECK: Final = OpCode.CHECK.value
_CREATE_CONTAINER: Final = OpCode.CREATE_CONTAINER.value
_CREATE_TTL: Final = OpCode.CREATE_TTL.value
_MODE_MAX: Final = max(CreateMode).value
_READ: Final = Perms.READ.value
_WRITE: Final = Perms.WRITE.value
_CREATE: Final = Perms.CREATE.value
_DELETE: Final = Perms.DELETE.value
_ADMIN: Final = Perms.ADMIN.value


class Submitted(Value):
    """A request for a write on its way to the leader, from whichever server the client is attached to."""

    _fields: ClassVar[tuple[str, ...]] = ("session_id", "cxid", "type", "body", "ids", "owner", "parsed")

    def __init__(
        self,
        session_id: int,
        cxid: int,
        type_: int,
        body: bytes,
        ids: tuple[Id, ...],
        owner: int,
        parsed: Request | None = None,
    ) -> None:
        self.session_id = session_id
        self.cxid = cxid
        self.type = type_
        self.body = body
        self.ids = ids
        self.owner = owner
        """The server the session is attached to, as far as that server knows; NOBODY for the ensemble's own requests."""
        self.parsed = parsed
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
    digests: bool = True


class Pending(Node):
    """A znode as it will be; ``exists`` is False once its deletion is outstanding."""

    __slots__ = ("count", "covered", "digest_before", "exists", "path", "zxid")

    def __init__(self, path: str, node: Node, zxid: int) -> None:
        super().__init__(
            node.data,
            node.acl,
            node.czxid,
            node.mzxid,
            node.ctime,
            node.mtime,
            node.version,
            node.cversion,
            node.aversion,
            node.ephemeral_owner,
            node.pzxid,
        )
        self.digest = self.digest_before = node.digest
        """Before: what the path counts with until the request is prepared."""
        self.covered: Pending | None = None
        """While the request is prepared, what it would have to uncover again."""
        self.path = path
        self.zxid = zxid
        self.exists = True
        self.count = node.child_count()
        """How many children there will be; which, only the tree knows."""

    def child_count(self) -> int:
        return self.count


class Prep:
    """Turns requests into transactions over one tree, and remembers what is outstanding."""

    def __init__(self, tree: DataTree, sessions: SessionCheck, rules: Rules) -> None:
        self.tree = tree
        self.sessions = sessions
        self.rules = rules
        self._pending: dict[str, Pending] = {}
        self._outstanding: deque[Pending] = deque()
        self._digest = tree.digest
        self._told_of_quota_ms: dict[str, int] = {}
        """By path with a quota: when it was last said that it is exceeded."""

    def prepare(self, request: Submitted, zxid: int, now_ms: int) -> Txn:
        """The transaction for ``request``. Never fails: a refusal is a transaction too."""
        if not self._outstanding:
            self._digest = self.tree.digest
        step = _Step(self, request, zxid, now_ms)
        mark = len(self._outstanding)
        type_ = request.type
        body: TxnBody
        try:
            parsed = request.parsed or step.parse()
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
        self._redigest(step)
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
        while outstanding and outstanding[0].zxid <= zxid:
            record = outstanding.popleft()
            if self._pending.get(record.path) is record:
                del self._pending[record.path]

    def find(self, path: str) -> Node | None:
        record = self._pending.get(path)
        if record is not None:
            return record if record.exists else None
        return self.tree.nodes.get(path)

    def cover(self, record: Pending) -> None:
        """Lay ``record`` over its path."""
        covered = self._pending.get(record.path)
        if covered is not None and covered.zxid == record.zxid:
            record.digest_before = covered.digest_before  # a path deleted and created again by one multi
        record.covered = covered
        self._pending[record.path] = record
        self._outstanding.append(record)

    def ephemerals_of(self, session_id: int) -> list[str]:
        """What the session owns, outstanding creations and deletions included."""
        owned = set(self.tree.ephemerals.get(session_id, ()))
        for record in self._outstanding:
            if not record.exists:
                owned.discard(record.path)
            elif record.ephemeral_owner == session_id:
                owned.add(record.path)
        return sorted(owned)

    def tell_of_quota(self, path: str, what: str, now_ms: int) -> None:
        if abs(now_ms - self._told_of_quota_ms.get(path, 0)) >= TELL_OF_QUOTA_MS:
            if len(self._told_of_quota_ms) >= TOLD_OF_QUOTA_MAX:
                self._told_of_quota_ms.clear()
            self._told_of_quota_ms[path] = now_ms
            log.warning("quota exceeded: %s [%s]", path, what)

    def _redigest(self, step: _Step) -> None:
        """What the request changed counts with its new values from here on."""
        for record in step.laid:
            record.covered = None
            if self._pending[record.path] is record:
                record.digest = node_digest(record.path, record) if record.exists else 0
                self._digest += record.digest - record.digest_before

    def _roll_back(self, mark: int, step: _Step) -> None:
        """Undo what this request put into the layer, newest first."""
        while len(self._outstanding) > mark:
            record = self._outstanding.pop()
            if record.covered is None:
                del self._pending[record.path]
            else:
                self._pending[record.path] = record.covered
        step.laid.clear()


class _Step:
    """One request (or one multi) being prepared: all its ops share zxid, time and requester."""

    def __init__(self, prep: Prep, request: Submitted, zxid: int, now_ms: int) -> None:
        self.prep = prep
        self.request = request
        self.zxid = zxid
        self.now_ms = now_ms
        self.laid: list[Pending] = []
        self._session_checked = False

    def run(self, type_: int, parsed: Request) -> TxnBody:
        if isinstance(parsed, SetDataRequest):
            return self.set_data(parsed)
        if isinstance(parsed, CreateRequest):
            return self.create(type_, parsed)
        if isinstance(parsed, PathVersionRequest):
            return self.check(parsed) if type_ == _CHECK else self.delete(parsed)
        body: TxnBody = _HANDLERS[type_](self, type_, parsed)
        return body

    def parse(self) -> Request:
        reader = REQUESTS.get(self.request.type)
        if reader is None:
            raise KeeperError(ErrorCode.UNIMPLEMENTED)
        r = Reader(self.request.body)
        parsed = reader(r)
        if r.null_seen:
            if isinstance(parsed, CreateRequest):
                self._validate_mode(parsed)  # as ZooKeeper does before it looks at the path
            raise MarshallingError("null where a string is required")
        return parsed

    # What every handler needs.

    def need(self, path: str) -> Node:
        record = self.prep.find(path)
        if record is None:
            raise KeeperError(ErrorCode.NO_NODE, path)
        return record

    def need_valid(self, path: str) -> Node:
        """The same for a path that has to be one: what there is has a valid path."""
        record = self.prep.find(path)
        if record is None:
            require_valid(path)
            raise KeeperError(ErrorCode.NO_NODE, path)
        return record

    def check_session(self) -> None:
        """Once a request: the ops of a multi are all of one session, and none of them ends it."""
        if not self._session_checked:
            self.prep.sessions.check(self.request.session_id, self.request.owner)
            self._session_checked = True

    def check_acl(self, acl: tuple[ACL, ...], perm: int) -> None:
        if acl is not OPEN_ACL_UNSAFE and not self.prep.rules.skip_acl:
            acls.require(acl, perm, self.request.ids)

    def fixed(self, acl: Sequence[ACL] | None) -> tuple[ACL, ...]:
        return acls.fixup(acl, self.request.ids, digests=self.prep.rules.digests)

    def check_quota(self, path: str, count: int, size: int) -> None:
        tree = self.prep.tree
        of = tree.quota_for(path)
        if of is None:
            return
        enforced = self.prep.rules.enforce_quota
        parse = quota.parse_strictly if enforced else quota.parse
        limits, stats = tree.nodes.get(quota.limits_path(of)), tree.nodes.get(quota.stats_path(of))
        if limits is None or not quota.bounds(parse(limits.data), count, size) or stats is None:
            return
        for excess in quota.excesses(parse(limits.data), parse(stats.data), count, size):
            self.prep.tell_of_quota(of, excess.what, self.now_ms)
            if excess.is_hard and enforced:
                raise KeeperError(ErrorCode.QUOTA_EXCEEDED, of)

    def changing(self, path: str, node: Node) -> Pending:
        """The record to write the new values of ``node`` into: one for each path a request changes."""
        if isinstance(node, Pending) and node.zxid == self.zxid:
            return node
        return self.lay(Pending(path, node, self.zxid))

    def lay(self, record: Pending) -> Pending:
        self.prep.cover(record)
        self.laid.append(record)
        return record

    # One handler an operation, in ZooKeeper's order of checks, which decides the error a client sees.

    def create(self, type_: int, parsed: CreateRequest) -> TxnBody:
        prep, zxid, flags = self.prep, self.zxid, parsed.flags
        self._validate_mode(parsed)
        path = parsed.path
        parent_path = require_parent(path)
        acl = self.fixed(parsed.acl)
        parent = self.need(parent_path)
        self.check_acl(parent.acl, _CREATE)
        if flags in SEQUENTIAL_MODES:
            path = f"{path}{parent.cversion:010d}"
        require_valid(path)
        if prep.find(path) is not None:
            raise KeeperError(ErrorCode.NODE_EXISTS, path)
        if is_ephemeral(parent.ephemeral_owner):
            raise KeeperError(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS, path)
        self.check_quota(path, 1, len(parsed.data or b""))

        above = self.changing(parent_path, parent)
        above.count += 1
        above.cversion = _next_int(above.cversion)
        above.pzxid = zxid
        ephemeral = flags in EPHEMERAL_MODES
        owner = 0
        if type_ == _CREATE_CONTAINER:
            owner = CONTAINER_OWNER
        elif type_ == _CREATE_TTL:
            owner = ttl_owner(parsed.ttl)
        elif ephemeral:
            owner = self.request.session_id
        node = Node(parsed.data, acl, zxid, zxid, self.now_ms, self.now_ms, ephemeral_owner=owner, pzxid=zxid)
        self.lay(Pending(path, node, zxid))
        if type_ == _CREATE_CONTAINER:
            return CreateContainerTxn(path, parsed.data, acl, above.cversion)
        if type_ == _CREATE_TTL:
            return CreateTTLTxn(path, parsed.data, acl, above.cversion, parsed.ttl)
        return CreateTxn(path, parsed.data, acl, ephemeral, above.cversion)

    def _validate_mode(self, parsed: CreateRequest) -> None:
        flags = parsed.flags
        if not 0 <= flags <= _MODE_MAX:
            raise KeeperError(ErrorCode.BAD_ARGUMENTS, f"create flags {flags}")
        if flags in TTL_MODES:
            if not self.prep.rules.extended_types:
                raise KeeperError(ErrorCode.UNIMPLEMENTED, "TTL nodes need extendedTypesEnabled=true")
            if not 0 < parsed.ttl <= TTL_MAX_MS:
                raise KeeperError(ErrorCode.BAD_ARGUMENTS, f"a ttl of {parsed.ttl} ms")
        elif parsed.ttl >= 0:
            raise KeeperError(ErrorCode.BAD_ARGUMENTS, f"a ttl with create mode {CreateMode(flags).name}")
        self.check_session()

    def delete(self, parsed: PathVersionRequest) -> TxnBody:
        self.check_session()
        path = parsed.path
        parent_path = _parent_of_deletable(path)
        parent = self.need(parent_path)
        self.check_acl(parent.acl, _DELETE)
        node = self.need(path)
        _check_version(node.version, parsed.version)
        self._remove(path, node, parent_path, parent)
        return DeleteTxn(path)

    def delete_container(self, _type: int, parsed: PathRequest) -> TxnBody:
        """For the ensemble itself, but clients may ask too; unlike ZooKeeper's, ours must be allowed to delete."""
        path = parsed.path
        parent_path = _parent_of_deletable(path)
        node = self.need(path)
        if node.child_count():
            raise KeeperError(ErrorCode.NOT_EMPTY, path)
        if is_ephemeral(node.ephemeral_owner):
            raise KeeperError(ErrorCode.BAD_VERSION, path)
        parent = self.need(parent_path)
        if self.request.owner != NOBODY:
            self.check_session()
            self.check_acl(parent.acl, _DELETE)
        self._remove(path, node, parent_path, parent)
        return DeleteTxn(path)

    def _remove(self, path: str, node: Node, parent_path: str, parent: Node) -> None:
        if node.child_count():
            raise KeeperError(ErrorCode.NOT_EMPTY, path)
        above = self.changing(parent_path, parent)
        above.count -= 1
        above.pzxid = self.zxid
        self.changing(path, node).exists = False

    def set_data(self, parsed: SetDataRequest) -> TxnBody:
        self.check_session()
        path, data = parsed.path, parsed.data
        node = self.need_valid(path)
        self.check_acl(node.acl, _WRITE)
        self.check_quota(path, 0, len(data or b"") - len(node.data or b""))
        version = _check_version(node.version, parsed.version)
        record = self.changing(path, node)
        record.version = version
        record.mtime = self.now_ms
        record.mzxid = self.zxid
        record.data = data
        return SetDataTxn(path, data, version)

    def set_acl(self, _type: int, parsed: SetACLRequest) -> TxnBody:
        self.check_session()
        path = parsed.path
        require_valid(path)
        acl = self.fixed(parsed.acl)
        node = self.need(path)
        self.check_acl(node.acl, _ADMIN)
        version = _check_version(node.aversion, parsed.version)
        record = self.changing(path, node)
        record.aversion = version
        # ZooKeeper leaves the old ACL in its outstanding record; a pipelined check against it would be a hole.
        record.acl = acl
        return SetACLTxn(path, acl, version)

    def check(self, parsed: PathVersionRequest) -> TxnBody:
        self.check_session()
        node = self.need_valid(parsed.path)
        self.check_acl(node.acl, _READ)
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


def _parent_of_deletable(path: str) -> str:
    parent = require_parent(path)
    if path in SPECIAL_PATHS:
        raise KeeperError(ErrorCode.BAD_ARGUMENTS, f"{path} cannot be deleted")
    return parent


def _next_int(value: int) -> int:
    """The int after ``value`` in Java's arithmetic, which the stored versions follow."""
    return value + 1 if value != (1 << 31) - 1 else -(1 << 31)


def _check_version(current: int, expected: int) -> int:
    if expected not in (-1, current):
        raise KeeperError(ErrorCode.BAD_VERSION)
    return _next_int(current)


_HANDLERS: dict[int, Callable[..., TxnBody]] = {
    OpCode.DELETE_CONTAINER: _Step.delete_container,
    OpCode.SET_ACL: _Step.set_acl,
    OpCode.RECONFIG: _Step.reconfig,
    OpCode.CREATE_SESSION: _Step.create_session,
    OpCode.CLOSE_SESSION: _Step.close_session,
}
"""The operations that only their code tells apart, and the rarer ones."""
