"""What the tree must be: a dictionary, and the rules of ZooKeeper written down a second time.

``Model.apply`` takes the transactions of a log one by one. It trusts none of them: a version that does not follow, a
creation of what exists, a session closed twice come back as ``problems``. ``refusal`` says which error a request had
to get in the state as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.keeper.proto.errors import ErrorCode
from ottla.keeper.proto.opcodes import CreateMode, EventType
from ottla.keeper.proto.records import Stat
from ottla.keeper.proto.txns import (
    CheckVersionTxn,
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetDataTxn,
    Txn,
    TxnBody,
)

BUILT_IN = ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")


class Znode:
    """One node; ``creates`` counts its children ever made, ``deletes`` those gone again."""

    __slots__ = (
        "children",
        "creates",
        "ctime",
        "czxid",
        "data",
        "deletes",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: str, zxid: int, time_ms: int, owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time_ms
        self.owner = owner
        self.version = self.creates = self.deletes = 0
        self.children: set[str] = set()

    @property
    def stat(self) -> Stat:
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            self.creates + self.deletes,
            0,
            self.owner,
            len(self.data),
            len(self.children),
            self.pzxid,
        )


class Change(NamedTuple):
    """What a transaction did to one node, as a watch on it would tell."""

    type: EventType
    path: str


class Effect(NamedTuple):
    """What applying one operation gives: its answer, and the node as of then."""

    path: str
    stat: Stat | None


class Applied(NamedTuple):
    effects: list[Effect]
    """One for a plain request, one an operation for a multi; none for an error."""
    changes: list[Change]
    problems: list[str]


class Model:
    def __init__(self) -> None:
        self.nodes = {path: Znode("", 0, 0, 0) for path in BUILT_IN}
        for path in BUILT_IN[1:]:
            self.nodes[parent_of(path)].children.add(name_of(path))
        self.sessions: dict[int, int] = {}
        """Open sessions and their timeouts in milliseconds."""
        self.closed: set[int] = set()

    def apply(self, txn: Txn) -> Applied:
        applied = Applied([], [], [])
        if txn.session_id in self.closed and not isinstance(txn.body, ErrorTxn):
            applied.problems.append(f"session 0x{txn.session_id:x} was closed before")
        body = txn.body
        if isinstance(body, CreateSessionTxn):
            if txn.session_id in self.sessions:
                applied.problems.append(f"session 0x{txn.session_id:x} is opened twice")
            self.sessions[txn.session_id] = body.timeout_ms
        elif isinstance(body, CloseSessionTxn):
            self._close_session(txn, body, applied)
        elif isinstance(body, MultiTxn):
            if not any(isinstance(sub, ErrorTxn) for _, sub in body.txns):
                for _, sub in body.txns:
                    self._apply(txn, sub, applied)
        elif not isinstance(body, ErrorTxn):
            self._apply(txn, body, applied)
        return applied

    def _apply(self, txn: Txn, body: TxnBody, applied: Applied) -> None:
        if isinstance(body, CreateTxn):
            self._create(txn, body, applied)
        elif isinstance(body, DeleteTxn):
            self._delete(txn, body.path, applied)
            applied.effects.append(Effect(body.path, None))
        elif isinstance(body, SetDataTxn):
            self._set(txn, body, applied)
        elif isinstance(body, CheckVersionTxn):
            applied.effects.append(Effect(body.path, None))
        else:
            applied.problems.append(f"a transaction that no client of the test asks for: {body}")

    def _create(self, txn: Txn, body: CreateTxn, applied: Applied) -> None:
        parent = self.nodes.get(parent_of(body.path))
        if parent is None or body.path in self.nodes:
            applied.problems.append(f"{body.path} is created {'twice' if parent else 'without a parent'}")
            return
        if body.parent_cversion != parent.creates + 1:
            applied.problems.append(f"{body.path}: child {body.parent_cversion} after {parent.creates} of its parent")
        node = Znode(text(body.data), txn.zxid, txn.time_ms, txn.session_id if body.ephemeral else 0)
        if node.owner and node.owner not in self.sessions:
            applied.problems.append(f"{body.path}: an ephemeral of session 0x{node.owner:x}, which is not open")
        parent.children.add(name_of(body.path))
        parent.creates += 1
        parent.pzxid = txn.zxid
        self.nodes[body.path] = node
        applied.effects.append(Effect(body.path, node.stat))
        applied.changes.append(Change(EventType.NODE_CREATED, body.path))

    def _delete(self, txn: Txn, path: str, applied: Applied) -> None:
        node = self.nodes.pop(path, None)
        if node is None or node.children:
            applied.problems.append(f"{path} is deleted {'with children' if node else 'though it is not there'}")
            return
        parent = self.nodes[parent_of(path)]
        parent.children.discard(name_of(path))
        parent.deletes += 1
        parent.pzxid = txn.zxid
        applied.changes.append(Change(EventType.NODE_DELETED, path))

    def _set(self, txn: Txn, body: SetDataTxn, applied: Applied) -> None:
        node = self.nodes.get(body.path)
        if node is None:
            applied.problems.append(f"{body.path} is set though it is not there")
            return
        if body.version != node.version + 1:
            applied.problems.append(f"{body.path}: version {body.version} after {node.version}")
        node.data, node.version, node.mzxid, node.mtime = text(body.data), body.version, txn.zxid, txn.time_ms
        applied.effects.append(Effect(body.path, node.stat))
        applied.changes.append(Change(EventType.NODE_DATA_CHANGED, body.path))

    def _close_session(self, txn: Txn, body: CloseSessionTxn, applied: Applied) -> None:
        if self.sessions.pop(txn.session_id, None) is None:
            applied.problems.append(f"session 0x{txn.session_id:x} is closed though it is not open")
        self.closed.add(txn.session_id)
        owned = {path for path, node in self.nodes.items() if node.owner == txn.session_id}
        if body.paths is not None and (set(body.paths) != owned or len(body.paths) != len(owned)):
            applied.problems.append(f"session 0x{txn.session_id:x} owns {sorted(owned)}, and {body.paths} go with it")
        for path in sorted(owned):
            self._delete(txn, path, applied)

    def refusal(self, f: str, args: dict[str, Any]) -> ErrorCode:
        """The error a request gets now; OK if it gets none."""
        if f == "close":
            return ErrorCode.OK
        if f == "multi":
            return next((err for op in args["ops"] if (err := self.refusal(op["f"], op))), ErrorCode.OK)
        path = args["path"]
        node = self.nodes.get(path)
        if f == "create":
            parent = self.nodes.get(parent_of(path))
            if parent is None:
                return ErrorCode.NO_NODE
            if node is not None and not CreateMode(args["flags"]).is_sequential:
                return ErrorCode.NODE_EXISTS
            return ErrorCode.NO_CHILDREN_FOR_EPHEMERALS if parent.owner else ErrorCode.OK
        if node is None:
            return ErrorCode.NO_NODE
        if args["version"] not in (-1, node.version):
            return ErrorCode.BAD_VERSION
        return ErrorCode.NOT_EMPTY if f == "delete" and node.children else ErrorCode.OK


def text(data: bytes | None) -> str:
    return (data or b"").decode()


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    return path.rpartition("/")[2]
