"""Histories to store: real transactions with digests, and trees as values that can be compared."""

from __future__ import annotations

from typing import Any

from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import ACL, OPEN_ACL_UNSAFE, STAT
from ottla.keeper.proto.txns import (
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    DeleteTxn,
    Entry,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
    Txn,
    TxnBody,
    encode_txn,
)
from ottla.keeper.server.paths import parent_of
from ottla.keeper.server.tree import DataTree, pack_stat
from tests.values import replaced

TIME_MS = 1_700_000_000_000
SECRET_ACL = (ACL(31, "digest", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="),)
ROOM_ACL = (ACL(1, "world", "anyone"), ACL(31, "ip", "10.0.0.0/8"))
SESSION = 0x0100_0000_0000_0001

_TYPES: dict[type, OpCode] = {
    CreateTxn: OpCode.CREATE,
    CreateContainerTxn: OpCode.CREATE_CONTAINER,
    CreateTTLTxn: OpCode.CREATE_TTL,
    DeleteTxn: OpCode.DELETE,
    SetDataTxn: OpCode.SET_DATA,
    SetACLTxn: OpCode.SET_ACL,
    CreateSessionTxn: OpCode.CREATE_SESSION,
    CloseSessionTxn: OpCode.CLOSE_SESSION,
    ErrorTxn: OpCode.ERROR,
    MultiTxn: OpCode.MULTI,
}


class History:
    """Writes transactions as a leader would: applied to a tree, the digest recorded in each."""

    def __init__(self, tree: DataTree | None = None) -> None:
        self.tree = tree or DataTree()
        self.entries: list[Entry] = []
        self.session_id = SESSION
        self._epoch_zxid: int | None = None

    def next_epoch(self) -> None:
        """Let the next transaction be the first of a new epoch."""
        self._epoch_zxid = ((self.tree.last_zxid >> 32) + 1 << 32) + 1

    def add(self, body: TxnBody, session_id: int | None = None) -> Entry:
        zxid = self._epoch_zxid or self.tree.last_zxid + 1
        self._epoch_zxid = None
        txn = Txn(session_id or self.session_id, 7, zxid, TIME_MS + zxid % 1000, _TYPES[type(body)], body, None)
        self.tree.apply(txn)
        if not isinstance(body, ErrorTxn):
            txn = replaced(txn, digest=self.tree.digest)
        entry = Entry(zxid, encode_txn(txn))
        self.entries.append(entry)
        return entry

    def create(self, path: str, data: bytes | None = b"", acl: tuple[ACL, ...] = OPEN_ACL_UNSAFE) -> Entry:
        return self.add(CreateTxn(path, data, acl, False, self._cversion(path)))

    def create_ephemeral(self, path: str) -> Entry:
        return self.add(CreateTxn(path, b"mine", OPEN_ACL_UNSAFE, True, self._cversion(path)))

    def create_container(self, path: str) -> Entry:
        return self.add(CreateContainerTxn(path, b"", OPEN_ACL_UNSAFE, self._cversion(path)))

    def create_ttl(self, path: str, ttl: int) -> Entry:
        return self.add(CreateTTLTxn(path, b"", OPEN_ACL_UNSAFE, self._cversion(path), ttl))

    def set(self, path: str, data: bytes) -> Entry:
        return self.add(SetDataTxn(path, data, self.tree.nodes[path].version + 1))

    def set_acl(self, path: str, acl: tuple[ACL, ...]) -> Entry:
        return self.add(SetACLTxn(path, acl, self.tree.nodes[path].aversion + 1))

    def delete(self, path: str) -> Entry:
        return self.add(DeleteTxn(path))

    def fill(self, count: int) -> list[Entry]:
        """``count`` transactions of various kinds below ``/fill``."""
        first = len(self.entries)
        if "/fill" not in self.tree.nodes:
            self.create("/fill")
        while len(self.entries) - first < count:
            number = len(self.entries)
            if number % 3 == 0:
                self.set("/fill", b"%d" % number)
            elif number % 7 == 0:
                self.add(ErrorTxn(-101))
            else:
                self.create(f"/fill/n{number}", b"x" * (number % 50))
        return self.entries[first:]

    def _cversion(self, path: str) -> int:
        return self.tree.nodes[parent_of(path)].cversion + 1


def rich_history() -> History:
    """One of everything."""
    history = History()
    history.add(CreateSessionTxn(30_000))
    history.create("/a", b"one")
    history.create("/a/b", None, SECRET_ACL)
    history.create_ephemeral("/a/eph")
    history.create_container("/c")
    history.create_ttl("/ttl", 60_000)
    history.next_epoch()
    history.set("/a", b"two")
    history.set_acl("/c", ROOM_ACL)
    history.add(
        MultiTxn(
            [
                (OpCode.CREATE, CreateTxn("/m", b"m", OPEN_ACL_UNSAFE, False, history.tree.nodes["/"].cversion + 1)),
                (OpCode.SET_DATA, SetDataTxn("/a", b"three", 2)),
            ]
        )
    )
    history.add(MultiTxn([(OpCode.ERROR, ErrorTxn(0)), (OpCode.ERROR, ErrorTxn(-101))]))
    history.add(CreateSessionTxn(4_000), session_id=SESSION + 1)
    history.add(CloseSessionTxn([]), session_id=SESSION + 1)
    history.create("/gone")
    history.delete("/gone")
    history.add(ErrorTxn(-110))
    return history


def seen(tree: DataTree) -> dict[str, Any]:
    """Everything a tree holds, as plain values."""
    return {
        "nodes": {
            path: (node.data, node.acl, STAT.unpack(pack_stat(node)), sorted(node.children or ()))
            for path, node in tree.nodes.items()
        },
        "sessions": dict(tree.sessions),
        "last_zxid": tree.last_zxid,
        "digest": tree.digest,
        "ephemerals": {owner: sorted(paths) for owner, paths in tree.ephemerals.items() if paths},
        "containers": sorted(tree.containers),
        "ttls": sorted(tree.ttls),
    }
