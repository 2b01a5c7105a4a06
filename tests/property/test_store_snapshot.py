"""Fuzzy snapshots of arbitrary histories, and decoders that meet arbitrary bytes."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import ACL, OPEN_ACL_UNSAFE
from ottla.keeper.proto.txns import CloseSessionTxn, CreateSessionTxn, CreateTxn, MultiTxn, SetDataTxn, decode_txn
from ottla.keeper.store import decode_snapshot, encode_snapshot
from tests.unit.keeper.store.histories import History, rich_history, seen

WHOLE = b"".join(encode_snapshot(rich_history().tree))


def step(history: History, luck: Random) -> None:
    """One random transaction."""
    tree = history.tree
    paths = [path for path in tree.nodes if not path.startswith("/zookeeper") and path != "/"]
    persistent = ["/", *(path for path in paths if tree.nodes[path].ephemeral_owner == 0)]
    parent = luck.choice(persistent)
    path = f"{'' if parent == '/' else parent}/n{luck.randrange(6)}"
    acl = luck.choice((OPEN_ACL_UNSAFE, (ACL(31, "digest", f"u:{luck.randrange(40)}"),)))
    kind = luck.randrange(9)
    if kind <= 3 and path not in tree.nodes:
        if kind == 0:
            history.create_ephemeral(path)
        elif kind == 1:
            history.create_container(path)
        else:
            history.create(path, luck.randbytes(luck.randrange(30)), acl)
    elif kind == 4 and paths:
        leaves = [leaf for leaf in paths if not tree.nodes[leaf].children]
        history.delete(luck.choice(leaves))
    elif kind == 5 and paths:
        history.set_acl(luck.choice(paths), acl)
    elif kind == 6 and path not in tree.nodes:
        body = CreateTxn(path, b"", acl, False, tree.nodes[parent].cversion + 1)
        history.add(MultiTxn([(OpCode.CREATE, body), (OpCode.SET_DATA, SetDataTxn(path, b"m", 1))]))
    elif kind == 7:
        owned = sorted(tree.ephemerals.get(history.session_id, ()))
        history.add(CloseSessionTxn(owned))
        history.session_id += 1
        history.add(CreateSessionTxn(4000))
    elif paths:
        history.set(luck.choice(paths), luck.randbytes(luck.randrange(30)))


@given(seed=st.integers(0, 1 << 64), slice_nodes=st.integers(1, 9), pace=st.integers(0, 6))
@settings(max_examples=300, deadline=None)
def test_a_fuzzy_snapshot_and_the_log_behind_it_are_the_tree(seed: int, slice_nodes: int, pace: int) -> None:
    luck = Random(seed)
    history = History()
    for _ in range(60):
        step(history, luck)
    start = history.tree.last_zxid
    image = b""
    for chunk in encode_snapshot(history.tree, slice_nodes=slice_nodes):
        image += chunk
        for _ in range(pace):
            step(history, luck)
    snapshot = decode_snapshot([image], start, size=len(image))
    tree = snapshot.tree
    for entry in history.entries:
        if entry.zxid > start:
            tree.apply(decode_txn(entry.raw))
        if entry.zxid == snapshot.digest_zxid > start:
            assert tree.digest == snapshot.digest
    assert seen(tree) == seen(history.tree)


@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_no_snapshot(data: bytes) -> None:
    for prefix in (b"", WHOLE[:16]):
        with pytest.raises(CorruptionError):
            decode_snapshot([prefix + data], 1, size=len(prefix + data))


@given(at=st.integers(0, len(WHOLE) - 1), patch=st.binary(min_size=1, max_size=40))
@settings(max_examples=300)
def test_a_patched_snapshot_is_refused(at: int, patch: bytes) -> None:
    damaged = WHOLE[:at] + patch + WHOLE[at + len(patch) :]
    if damaged == WHOLE:
        return
    with pytest.raises(CorruptionError):
        decode_snapshot([damaged], 1, size=len(damaged))


@given(seed=st.integers(0, 1 << 64), behind=st.integers(0, 40))
@settings(max_examples=200, deadline=None)
def test_so_are_a_snapshot_that_is_all_ahead_and_the_log_behind_it(seed: int, behind: int) -> None:
    """As a ZooKeeper's may be: it writes znodes that are newer than the zxid the snapshot is named after."""
    luck = Random(seed)
    history = History()
    for _ in range(60):
        step(history, luck)
    start = history.entries[-behind - 1].zxid
    tree = decode_snapshot(encode_snapshot(history.tree), start).tree
    for entry in history.entries:
        if entry.zxid > start:
            tree.apply(decode_txn(entry.raw))
    assert seen(tree) == seen(history.tree)
