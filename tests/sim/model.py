"""The tree as the simplest thing that could be right: for every path, the states it has had.

It replays what the ensemble committed and judges it on the way: a version that skips, a deletion of what is not there,
an operation of a session that has ended. Being told the zxid of any answer, it knows what the answer had to be.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from typing import NamedTuple

from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import Stat
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
from ottla.keeper.server.tree import CONTAINER_OWNER, DataTree, digest_of, is_ephemeral, signed64, ttl_owner
from tests.sim.loop import Violation


class Znode(NamedTuple):
    data: bytes | None
    czxid: int = 0
    mzxid: int = 0
    pzxid: int = 0
    ctime: int = 0
    mtime: int = 0
    version: int = 0
    cversion: int = 0
    """Creations below it, ever."""
    aversion: int = 0
    owner: int = 0
    children: frozenset[str] = frozenset()

    @property
    def stat(self) -> Stat:
        shown = 2 * self.cversion - len(self.children)
        size = len(self.data or b"")
        owner = self.owner if is_ephemeral(self.owner) else 0
        return Stat(
            self.czxid, self.mzxid, self.ctime, self.mtime, self.version, shown, self.aversion, owner, size,
            len(self.children), self.pzxid,
        )  # fmt: skip

    def with_child(self, name: str, zxid: int) -> Znode:
        return self._replace(children=self.children | {name}, cversion=self.cversion + 1, pzxid=zxid)

    def without_child(self, name: str, zxid: int) -> Znode:
        return self._replace(children=self.children - {name}, pzxid=zxid)


class Change(Enum):
    CREATED = "created"
    DELETED = "deleted"
    SET = "set"


class Changed(NamedTuple):
    """What a transaction did that somebody may watch."""

    change: Change
    path: str


class Past:
    """The states of one path, each with the zxid that brought it."""

    __slots__ = ("states", "zxids")

    def __init__(self) -> None:
        self.zxids: list[int] = []
        self.states: list[Znode | None] = []

    def at(self, zxid: int) -> Znode | None:
        index = bisect_right(self.zxids, zxid)
        return self.states[index - 1] if index else None


def split(path: str) -> tuple[str, str]:
    """Parent and name."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name


class Model:
    """``apply`` is called for every committed transaction, in order."""

    def __init__(self) -> None:
        self.now: dict[str, Znode] = {}
        self.past: dict[str, Past] = {}
        self.zxids: list[int] = []
        self.changes: list[list[Changed]] = []
        """For each of ``zxids``, what changed."""
        self.sessions: dict[int, int] = {}
        self.closed: dict[int, int] = {}
        """Sessions that have ended, and the zxid that ended them."""
        self.digests: dict[int, int] = {}
        self._digest = 0
        for path, node in DataTree().nodes.items():
            self._put(path, Znode(node.data, aversion=node.aversion, children=frozenset(node.children or ())), 0)
        self.digests[0] = signed64(self._digest)

    def at(self, path: str, zxid: int) -> Znode | None:
        """The znode as it was when ``zxid`` had been applied, and nothing after it."""
        past = self.past.get(path)
        return past.at(zxid) if past is not None else None

    def apply(self, txn: Txn) -> None:
        self._changed: list[Changed] = []
        self._do(txn, txn.type, txn.body)
        self.zxids.append(txn.zxid)
        self.changes.append(self._changed)
        self.digests[txn.zxid] = signed64(self._digest)
        if txn.digest is not None and txn.digest != self.digests[txn.zxid]:
            raise Violation(f"Z4: the leader took the tree after 0x{txn.zxid:x} for another one")

    def _do(self, txn: Txn, type_: int, body: TxnBody) -> None:
        match body:
            case ErrorTxn():
                return
            case MultiTxn():
                if not any(isinstance(sub, ErrorTxn) for _, sub in body.txns):
                    for sub_type, sub in body.txns:
                        self._do(txn, sub_type, sub)
                return
            case CreateSessionTxn():
                self._open_session(txn.session_id, body.timeout_ms)
                return
            case CloseSessionTxn():
                self._close_session(txn, body)
                return
        if type_ != OpCode.DELETE_CONTAINER and txn.session_id not in self.sessions:
            raise Violation(f"Z9: 0x{txn.zxid:x} is of session 0x{txn.session_id:x}, which is not open")
        match body:
            case CreateTxn():
                self._create(txn, body, txn.session_id if body.ephemeral else 0)
            case CreateContainerTxn():
                self._create(txn, body, CONTAINER_OWNER)
            case CreateTTLTxn():
                self._create(txn, body, ttl_owner(body.ttl))
            case DeleteTxn():
                self._delete(body.path, txn.zxid)
            case SetDataTxn():
                node = self._version(txn, body.path, body.version)
                self._put(body.path, node._replace(data=body.data, mzxid=txn.zxid, mtime=txn.time_ms), txn.zxid)
                self._changed.append(Changed(Change.SET, body.path))
            case SetACLTxn():
                node = self._existing(body.path, txn.zxid)
                self._put(body.path, node._replace(aversion=body.version), txn.zxid)
            case CheckVersionTxn():
                self._version(txn, body.path, body.version)

    def _create(self, txn: Txn, body: CreateTxn | CreateContainerTxn | CreateTTLTxn, owner: int) -> None:
        zxid, time_ms = txn.zxid, txn.time_ms
        parent_path, name = split(body.path)
        parent = self._existing(parent_path, zxid)
        if body.path in self.now:
            raise Violation(f"Z1: 0x{zxid:x} creates {body.path}, which exists")
        above = parent.with_child(name, zxid)
        if body.parent_cversion != above.cversion:
            raise Violation(
                f"Z10: 0x{zxid:x} counts {body.parent_cversion} creations below {parent_path}, not one more"
            )
        self._put(parent_path, above, zxid)
        self._put(body.path, Znode(body.data, zxid, zxid, zxid, time_ms, time_ms, owner=owner), zxid)
        self._changed.append(Changed(Change.CREATED, body.path))

    def _delete(self, path: str, zxid: int) -> None:
        if self._existing(path, zxid).children:
            raise Violation(f"Z1: 0x{zxid:x} deletes {path}, which has children")
        parent_path, name = split(path)
        self._put(parent_path, self.now[parent_path].without_child(name, zxid), zxid)
        self._put(path, None, zxid)
        self._changed.append(Changed(Change.DELETED, path))

    def _existing(self, path: str, zxid: int) -> Znode:
        node = self.now.get(path)
        if node is None:
            raise Violation(f"Z1: 0x{zxid:x} changes {path}, which does not exist")
        return node

    def _version(self, txn: Txn, path: str, version: int) -> Znode:
        node = self._existing(path, txn.zxid)
        if version != node.version + 1:
            raise Violation(f"Z1: 0x{txn.zxid:x} makes version {version} of {path} out of {node.version}")
        return node._replace(version=version)

    def _open_session(self, session_id: int, timeout_ms: int) -> None:
        if session_id in self.sessions or session_id in self.closed:
            raise Violation(f"Z9: session 0x{session_id:x} is created twice")
        self.sessions[session_id] = timeout_ms

    def _close_session(self, txn: Txn, body: CloseSessionTxn) -> None:
        session_id = txn.session_id
        owned = self.ephemerals_of(session_id)
        if (body.paths or []) != owned:
            raise Violation(f"Z9: the end of session 0x{session_id:x} takes {body.paths} and not {owned}")
        for path in owned:
            self._delete(path, txn.zxid)
        if self.sessions.pop(session_id, None) is not None:
            self.closed[session_id] = txn.zxid

    def ephemerals_of(self, session_id: int) -> list[str]:
        return sorted(path for path, node in self.now.items() if node.owner == session_id)

    def _put(self, path: str, node: Znode | None, zxid: int) -> None:
        before = self.now.get(path)
        if before is not None:
            self._digest -= _digest(path, before)
        past = self.past.get(path)
        if past is None:
            past = self.past[path] = Past()
        past.zxids.append(zxid)
        past.states.append(node)
        if node is None:
            del self.now[path]
        else:
            self.now[path] = node
            self._digest += _digest(path, node)


def _digest(path: str, n: Znode) -> int:
    return digest_of(
        path, n.data, n.czxid, n.mzxid, n.pzxid, n.ctime, n.mtime, n.version, n.cversion, n.aversion, n.owner
    )
