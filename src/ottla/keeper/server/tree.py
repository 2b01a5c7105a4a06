"""The tree of znodes: what every server of an ensemble holds in memory, and how transactions change it.

``DataTree.apply`` is the only mutator. It is deterministic, so servers that applied the same transactions hold the
same tree, and ``digest`` proves it: the sum, modulo 2**64, of a CRC over each znode, compared with the digest that
the leader wrote into each transaction. It is also idempotent: a snapshot is written while transactions go on, so
replaying the log on it repeats some that it already contains. Hence each change sets values instead of adding to
them, an error while replaying is normal, and parent versions only grow.

Stored and shown child versions differ: ``Node.cversion`` counts creations only; clients see twice that minus the
number of children, which counts deletions too.

An ``ephemeral_owner`` tells the kinds of znode apart:

    0                       persistent
    0x8000000000000000      container, removed once it has had children and has none left
    0xff........ttl         with time to live, removed when it has no children and was not set for ``ttl`` ms
    anything else           ephemeral, goes with that session
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import ClassVar, Final
from zlib import crc32

from ottla.base.errors import CorruptionError
from ottla.keeper.proto.errors import ErrorCode
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import ACL, OPEN_ACL_UNSAFE, STAT
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
from ottla.keeper.server import quota
from ottla.keeper.server.acl import READ_ACL_UNSAFE
from ottla.keeper.server.paths import name_of, parent_of
from ottla.keeper.server.watches import Watches

CONTAINER_OWNER: Final = -(1 << 63)
TTL_MASK: Final = -(1 << 56)
TTL_MAX_MS: Final = (1 << 40) - 1
CONFIG_PATH: Final = "/zookeeper/config"
SPECIAL_PATHS: Final = frozenset({"/", "/zookeeper", quota.QUOTA_ROOT, CONFIG_PATH})

_pack_digested = Struct(">qqqqqiiiq").pack
_pack_stat = STAT.pack
DIGEST_LOG_MAX: Final = 1024
_DIGEST_LOG_MASK: Final = 127
_INT_MAX: Final = (1 << 31) - 1
_ERROR: Final = OpCode.ERROR.value
_COPIED_BYTES_MAX: Final = 1024
"""Up to here a copy is cheaper than another call."""


class Node:
    """One znode. ``children`` is None until there is one, which most znodes never have."""

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "ctime",
        "cversion",
        "czxid",
        "data",
        "digest",
        "ephemeral_owner",
        "mtime",
        "mzxid",
        "pzxid",
        "version",
    )

    def __init__(
        self,
        data: bytes | None,
        acl: tuple[ACL, ...],
        czxid: int = 0,
        mzxid: int = 0,
        ctime: int = 0,
        mtime: int = 0,
        version: int = 0,
        cversion: int = 0,
        aversion: int = 0,
        ephemeral_owner: int = 0,
        pzxid: int = 0,
    ) -> None:
        self.data = data
        self.acl = acl
        self.czxid = czxid
        self.mzxid = mzxid
        self.ctime = ctime
        self.mtime = mtime
        self.version = version
        self.cversion = cversion
        self.aversion = aversion
        self.ephemeral_owner = ephemeral_owner
        self.pzxid = pzxid
        self.children: set[str] | None = None
        self.digest = 0

    def child_count(self) -> int:
        return len(self.children) if self.children is not None else 0


class Result(Value):
    """What applying a transaction says to the client that asked for it."""

    _fields: ClassVar[tuple[str, ...]] = ("err", "type", "path", "stat", "results")

    def __init__(self, err: int, type_: int, path: str = "", stat: bytes = b"", results: Sequence[Result] = ()) -> None:
        self.err = err
        self.type = type_
        self.path = path
        self.stat = stat
        self.results = results


def is_ephemeral(owner: int) -> bool:
    return owner not in (0, CONTAINER_OWNER) and not is_ttl(owner)


def is_ttl(owner: int) -> bool:
    return TTL_MASK <= owner < 0


def ttl_owner(ttl_ms: int) -> int:
    return TTL_MASK | ttl_ms


def ttl_of(owner: int) -> int:
    return owner & TTL_MAX_MS


def signed64(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def pack_stat(node: Node) -> bytes:
    children = node.child_count()
    cversion = node.cversion * 2 - children
    if cversion > _INT_MAX:
        cversion -= 1 << 32
    owner = node.ephemeral_owner
    if owner < 0 and not is_ephemeral(owner):
        owner = 0  # that a znode is a container, or has a time to live, is not for clients to see
    return _pack_stat(
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        cversion,
        node.aversion,
        owner,
        len(node.data) if node.data else 0,
        children,
        node.pzxid,
    )


def digest_of(
    path: str,
    data: bytes | None,
    czxid: int,
    mzxid: int,
    pzxid: int,
    ctime: int,
    mtime: int,
    version: int,
    cversion: int,
    aversion: int,
    owner: int,
) -> int:
    """A znode's share of the tree digest.

    Znodes below /zookeeper are changed by each server for itself and do not count.
    """
    if path.startswith("/zookeeper/"):
        return 0
    raw = b"" if path == "/" else path.encode()
    stat: bytes = _pack_digested(czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner)
    if not data:
        return crc32(raw + stat)
    if len(data) < _COPIED_BYTES_MAX:
        return crc32(raw + data + stat)
    return crc32(stat, crc32(data, crc32(raw)))


def node_digest(path: str, node: Node) -> int:
    return digest_of(
        path,
        node.data,
        node.czxid,
        node.mzxid,
        node.pzxid,
        node.ctime,
        node.mtime,
        node.version,
        node.cversion,
        node.aversion,
        node.ephemeral_owner,
    )


class DataTree:
    """All znodes of a server, its sessions, and the indexes kept beside them."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.sessions: dict[int, int] = {}
        self.ephemerals: dict[int, set[str]] = {}
        self.containers: set[str] = set()
        self.ttls: set[str] = set()
        self.quotas: set[str] = set()
        self.watches = Watches()
        self.last_zxid = 0
        self.fuzzy_until = 0
        """Up to this zxid the digest means nothing: the snapshot holds parts of later transactions already."""
        self.data_bytes = 0
        self._digest = 0
        self.digest_log: deque[tuple[int, int]] = deque(maxlen=DIGEST_LOG_MAX)
        """What the digest was at every 128th zxid, so that servers can be compared."""
        self._undigested: dict[str, Node] | None = None
        """While a multi is applied, the znodes it has changed: each is digested once, at its end."""
        for path in ("/", "/zookeeper", quota.QUOTA_ROOT, CONFIG_PATH):
            self._restore(path, Node(b"", READ_ACL_UNSAFE if path == CONFIG_PATH else OPEN_ACL_UNSAFE))
        self.nodes[CONFIG_PATH].aversion = -1

    @classmethod
    def restore(cls, nodes: Iterable[tuple[str, Node]], sessions: dict[int, int], last_zxid: int) -> DataTree:
        """Rebuild a tree from a snapshot, parents before children."""
        tree = cls()
        tree.nodes.clear()
        tree.sessions, tree.last_zxid = sessions, last_zxid
        tree.data_bytes = tree._digest = 0
        for path, node in nodes:
            tree._restore(path, node)
        if "/" not in tree.nodes:
            raise CorruptionError("a snapshot without the root znode")
        # ZooKeeper before 3.5 had no config znode, and its snapshots restore without one.
        if CONFIG_PATH not in tree.nodes and "/zookeeper" in tree.nodes:
            tree._restore(CONFIG_PATH, Node(b"", READ_ACL_UNSAFE, aversion=-1))
        tree._restore_quotas()
        return tree

    @property
    def digest(self) -> int:
        return signed64(self._digest)

    def apply(self, txn: Txn) -> Result:
        result = self._apply(txn.type, txn.body, txn.session_id, txn.zxid, txn.time_ms)
        self.last_zxid = max(self.last_zxid, txn.zxid)
        if not txn.zxid & _DIGEST_LOG_MASK and txn.zxid >= self.fuzzy_until:
            self.digest_log.append((txn.zxid, self.digest))
        return result

    def _apply(self, type_: int, body: TxnBody, session_id: int, zxid: int, time_ms: int) -> Result:
        if isinstance(body, SetDataTxn):
            return self._set_data(type_, body, zxid, time_ms)
        if isinstance(body, CheckVersionTxn):
            return Result(0, type_, body.path)  # nothing to do, it held when the leader looked
        if isinstance(body, CreateTxn):
            return self._create(type_, body, session_id if body.ephemeral else 0, zxid, time_ms)
        if isinstance(body, DeleteTxn):
            return Result(self._delete(body.path, zxid), type_, body.path)
        if isinstance(body, ErrorTxn):
            return Result(body.err, type_)
        if isinstance(body, MultiTxn):
            return self._multi(type_, body, session_id, zxid, time_ms)
        if isinstance(body, CreateContainerTxn):
            return self._create(type_, body, CONTAINER_OWNER, zxid, time_ms)
        if isinstance(body, CreateTTLTxn):
            return self._create(type_, body, ttl_owner(body.ttl), zxid, time_ms)
        if isinstance(body, SetACLTxn):
            return self._set_acl(type_, body)
        if isinstance(body, CreateSessionTxn):
            self.sessions[session_id] = body.timeout_ms
            return Result(0, type_)
        assert isinstance(body, CloseSessionTxn)
        self._close_session(body, session_id, zxid)
        return Result(0, type_)

    def _create(
        self, type_: int, body: CreateTxn | CreateContainerTxn | CreateTTLTxn, owner: int, zxid: int, time_ms: int
    ) -> Result:
        path = body.path
        slash = path.rindex("/")
        parent_path, name = path[:slash] or "/", path[slash + 1 :]
        parent = self.nodes.get(parent_path)
        if parent is None:
            return Result(ErrorCode.NO_NODE, type_, path)
        existing = self.nodes.get(path)
        cversion = body.parent_cversion if body.parent_cversion != -1 else parent.cversion + 1
        if cversion > parent.cversion:
            parent.cversion = cversion
            parent.pzxid = zxid
            self._redigest(parent_path, parent)
        if existing is not None:
            # Only while replaying: a snapshot may hold the znode already, with an ACL it could not yet name.
            if name in (parent.children or ()):
                existing.acl = self._intern(body.acl)
                return Result(ErrorCode.NODE_EXISTS, type_, path)
            # Or it was left over when replaying deleted its parent, which the snapshot held in a later life.
            self._forget(path, existing)
        node = Node(body.data, self._intern(body.acl), zxid, zxid, time_ms, time_ms, ephemeral_owner=owner, pzxid=zxid)
        self._insert(path, node, parent, name)
        stat = pack_stat(node)
        self._quota_created(path, len(body.data or b""))
        self.watches.created(path, zxid, node.acl, parent.acl)
        return Result(0, type_, path, stat)

    def _delete(self, path: str, zxid: int) -> int:
        parent_path = parent_of(path)
        parent = self.nodes.get(parent_path)
        if parent is None:
            return ErrorCode.NO_NODE
        # Before the znode itself is looked for: while replaying it may be gone already, its parent not yet touched.
        if zxid > parent.pzxid:
            parent.pzxid = zxid
            self._redigest(parent_path, parent)
        node = self.nodes.get(path)
        if node is None:
            return ErrorCode.NO_NODE
        if parent.children:
            parent.children.discard(name_of(path))
        self._forget(path, node)
        self._quota_deleted(path, len(node.data or b""))
        self.watches.deleted(path, zxid, node.acl, parent.acl)
        return 0

    def _set_data(self, type_: int, body: SetDataTxn, zxid: int, time_ms: int) -> Result:
        path = body.path
        node = self.nodes.get(path)
        if node is None:
            return Result(ErrorCode.NO_NODE, type_, path)
        grown = len(body.data or b"") - len(node.data or b"")
        node.data = body.data
        node.mtime = time_ms
        node.mzxid = zxid
        node.version = body.version
        self._redigest(path, node)
        self.data_bytes += grown
        if self.quotas:
            self._count(path, 0, grown)
        self.watches.data_changed(path, zxid, node.acl)
        return Result(0, type_, path, pack_stat(node))

    def _set_acl(self, type_: int, body: SetACLTxn) -> Result:
        node = self.nodes.get(body.path)
        if node is None:
            return Result(ErrorCode.NO_NODE, type_, body.path)
        node.acl = self._intern(body.acl)
        node.aversion = body.version
        self._redigest(body.path, node)
        return Result(0, type_, body.path, pack_stat(node))

    def _multi(self, type_: int, body: MultiTxn, session_id: int, zxid: int, time_ms: int) -> Result:
        """All or nothing: with one error among them, none is applied and each reports why."""
        if any(isinstance(sub, ErrorTxn) for _, sub in body.txns):
            errors = [sub.err if isinstance(sub, ErrorTxn) else 0 for _, sub in body.txns]
            first = next((e for e in errors if e), 0)
            return Result(first, type_, results=[Result(e, _ERROR) for e in errors])
        changed: dict[str, Node] = {}
        self._undigested = changed
        results = [self._apply(sub_type, sub, session_id, zxid, time_ms) for sub_type, sub in body.txns]
        self._undigested = None
        for path, node in changed.items():
            self._redigest(path, node)
        return Result(next((r.err for r in results if r.err), 0), type_, results=results)

    def _close_session(self, body: CloseSessionTxn, session_id: int, zxid: int) -> None:
        self.sessions.pop(session_id, None)
        owned = self.ephemerals.get(session_id, set())
        # Logs of older servers name no paths; then the index, equal on all servers, is the list.
        for path in [*(body.paths or ()), *sorted(owned.difference(body.paths or ()))]:
            self._delete(path, zxid)
        self.ephemerals.pop(session_id, None)

    def find(self, path: str) -> Node | None:
        """A znode as reads see it: the empty path is the root, too."""
        return self.nodes.get(path or "/")

    def set_config(self, data: bytes, version: int) -> None:
        """What /zookeeper/config shows; each server writes it for itself when it joins an ensemble."""
        node = self.nodes[CONFIG_PATH]
        self.data_bytes += len(data) - len(node.data or b"")
        node.data, node.mzxid, node.version = data, version, -1

    def all_children(self, path: str) -> int:
        """How many znodes lie below ``path``; the root lies below the empty path."""
        if path in ("", "/"):
            return len(self.nodes) - len(path)
        count, stack = 0, [path]
        while stack:
            at = stack.pop()
            children = self.nodes[at].children or ()
            count += len(children)
            stack += [f"{at}/{child}" for child in children]
        return count

    def _restore(self, path: str, node: Node) -> None:
        if path == "/":
            self._insert(path, node, None, "")
            return
        parent = self.nodes.get(parent_of(path))
        if parent is None:
            raise CorruptionError(f"znode {path} has no parent")
        self._insert(path, node, parent, name_of(path))

    def _insert(self, path: str, node: Node, parent: Node | None, name: str) -> None:
        if parent is not None:
            if parent.children is None:
                parent.children = set()
            parent.children.add(name)
        self.nodes[path] = node
        self._redigest(path, node)
        self.data_bytes += len(path) + len(node.data or b"")
        owner = node.ephemeral_owner
        if owner == 0:
            return
        if owner == CONTAINER_OWNER:
            self.containers.add(path)
        elif is_ttl(owner):
            self.ttls.add(path)
        else:
            self.ephemerals.setdefault(owner, set()).add(path)

    def _forget(self, path: str, node: Node) -> None:
        del self.nodes[path]
        self._digest -= node.digest
        if self._undigested is not None:
            self._undigested.pop(path, None)
        self.data_bytes -= len(path) + len(node.data or b"")
        self._unindex(path, node.ephemeral_owner)

    def _unindex(self, path: str, owner: int) -> None:
        if owner == 0:
            return
        if owner == CONTAINER_OWNER:
            self.containers.discard(path)
        elif is_ttl(owner):
            self.ttls.discard(path)
        elif (owned := self.ephemerals.get(owner)) is not None:
            owned.discard(path)
            if not owned:
                del self.ephemerals[owner]

    def _redigest(self, path: str, node: Node) -> None:
        if self._undigested is not None:
            self._undigested[path] = node
            return
        digest = node_digest(path, node)
        self._digest += digest - node.digest
        node.digest = digest

    def _intern(self, acl: tuple[ACL, ...]) -> tuple[ACL, ...]:
        """One tuple for the ACL that nearly every znode has."""
        return OPEN_ACL_UNSAFE if acl == OPEN_ACL_UNSAFE else acl

    def quota_for(self, path: str) -> str | None:
        """The nearest path at or above ``path`` that has a quota."""
        if not self.quotas:
            return None
        while path != "/":
            if path in self.quotas:
                return path
            path = parent_of(path)
        return None

    def _quota_created(self, path: str, size: int) -> None:
        if path.startswith(quota.QUOTA_ROOT):
            of = parent_of(path)[len(quota.QUOTA_ROOT) :]
            name = name_of(path)
            if name == quota.LIMITS_NODE:
                self.quotas.add(of)
            elif name == quota.STATS_NODE:
                self._recount(of)
        if self.quotas:
            self._count(path, 1, size)

    def _quota_deleted(self, path: str, size: int) -> None:
        if path.startswith(quota.QUOTA_ROOT) and name_of(path) == quota.LIMITS_NODE:
            self.quotas.discard(parent_of(path)[len(quota.QUOTA_ROOT) :])
        if self.quotas:
            self._count(path, -1, -size)

    def _count(self, path: str, count: int, size: int) -> None:
        of = self.quota_for(path)
        node = self.nodes.get(quota.stats_path(of)) if of else None
        if node is not None:
            usage = quota.parse(node.data)
            node.data = quota.render(usage.nodes + count, usage.size + size)

    def _recount(self, of: str) -> None:
        node = self.nodes.get(quota.stats_path(of))
        if node is None:
            return
        count = size = 0
        if of in self.nodes:
            below = f"{of}/"
            counted = [n for p, n in self.nodes.items() if p == of or p.startswith(below)]
            count, size = len(counted), sum(len(n.data or b"") for n in counted)
        node.data = quota.render(count, size)

    def _restore_quotas(self) -> None:
        suffix = f"/{quota.LIMITS_NODE}"
        for path in [p for p in self.nodes if p.startswith(quota.QUOTA_ROOT) and p.endswith(suffix)]:
            of = path[len(quota.QUOTA_ROOT) : -len(suffix)]
            self.quotas.add(of)
            self._recount(of)
