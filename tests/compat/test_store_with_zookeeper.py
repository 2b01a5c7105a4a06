"""Directories that change hands: written here, opened by a real ZooKeeper 3.9.5, and taken back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.records import ACL, OPEN_ACL_UNSAFE
from ottla.keeper.proto.txns import (
    CheckVersionTxn,
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetDataTxn,
)
from ottla.keeper.server.acl import digest_of
from ottla.keeper.server.tree import CONFIG_PATH, DataTree, is_ephemeral
from ottla.keeper.store import DataDir, Recovered
from tests.peers import RealZooKeeper, mntr
from tests.unit.keeper.store.faults import kill
from tests.unit.keeper.store.histories import ROOM_ACL, SESSION, History, seen

PROPERTIES = {"zookeeper.extendedTypesEnabled": "true"}
SECRET_ACL = (ACL(31, "digest", digest_of("u:p")),)
LONG_TTL_MS = 10**11
COMPLAINTS = ("not matching", "mismatch", "not covering", "problem reading", "ACL not available", "CRC", "IOException")

pytestmark = pytest.mark.usefixtures("zookeeper_libs")


def write_everything(store: DataDir, tree: DataTree, *, prefix: str) -> History:
    """Transactions of every kind, with a fuzzy snapshot among them, and death without a word."""
    history = History(tree)
    logged = 0

    def flush() -> None:
        nonlocal logged
        store.log.append(history.entries[logged:])
        logged = len(history.entries)

    history.add(CreateSessionTxn(40_000))
    history.create(prefix, b"one")
    for number in range(40):
        history.create(f"{prefix}/n{number:03}", b"d%d" % number, SECRET_ACL if number % 9 == 0 else OPEN_ACL_UNSAFE)
    history.create_ephemeral(f"{prefix}/eph")
    history.create_container(f"{prefix}/container")
    history.create(f"{prefix}/container/child")
    history.create_ttl(f"{prefix}/ttl", LONG_TTL_MS)
    history.create(f"{prefix}/null", None)
    history.create(f"{prefix}/ünï", b"\x00\xff")
    flush()
    store.log.sync()
    with store.begin_snapshot(history.tree) as writing:
        for number, chunk in enumerate(writing.chunks):
            writing.write(chunk)
            history.create(f"{prefix}/during{number}", b"", (ACL(31, "digest", digest_of(f"u{number}:p")), *SECRET_ACL))
            history.create(f"{prefix}/during{number}/below")
            flush()
        history.set_acl(f"{prefix}/n001", ROOM_ACL)
        writing.commit()
    store.log.roll()
    again = history.tree.nodes[prefix].cversion + 1
    history.add(
        MultiTxn(
            [
                (OpCode.CHECK, CheckVersionTxn(prefix, 0)),
                (OpCode.CREATE, CreateTxn(f"{prefix}/multi", b"m", SECRET_ACL, False, again)),
                (OpCode.SET_DATA, SetDataTxn(f"{prefix}/n002", b"by multi", 1)),
                (OpCode.DELETE, DeleteTxn(f"{prefix}/n003")),
            ]
        )
    )
    history.add(MultiTxn([(OpCode.ERROR, ErrorTxn(0)), (OpCode.ERROR, ErrorTxn(-101))]))
    history.add(ErrorTxn(-110))
    history.add(CreateSessionTxn(4_000), session_id=SESSION + 1)
    parent = history.tree.nodes[prefix].cversion + 1
    history.add(CreateTxn(f"{prefix}/gone", b"", OPEN_ACL_UNSAFE, True, parent), session_id=SESSION + 1)
    history.add(CloseSessionTxn([f"{prefix}/gone"]), session_id=SESSION + 1)
    history.delete(f"{prefix}/n004")
    history.set(prefix, b"two")
    history.next_epoch()
    history.set(prefix, b"three")
    flush()
    store.log.sync()
    kill(store)
    return history


def shown(tree: DataTree) -> dict[str, Any]:
    """A tree as clients see it, by the rules of ZooKeeper rather than by our code for it."""
    return {
        path: (
            node.data,
            sorted(node.acl),
            node.czxid,
            node.mzxid,
            node.ctime,
            node.mtime,
            node.version,
            2 * node.cversion - len(node.children or ()),
            node.aversion,
            node.ephemeral_owner if is_ephemeral(node.ephemeral_owner) else 0,
            len(node.data or b""),
            len(node.children or ()),
            node.pzxid,
        )
        for path, node in tree.nodes.items()
    }


def shown_by(client: Any) -> dict[str, Any]:
    """The tree as ZooKeeper shows it."""
    found: dict[str, Any] = {}
    paths = ["/"]
    while paths:
        path = paths.pop()
        data, stat = client.get(path)
        acls, _ = client.get_acls(path)
        found[path] = (
            data,
            sorted((acl.perms, acl.id.scheme, acl.id.id) for acl in acls),
            *(getattr(stat, name) for name in ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion")),
            stat.ephemeralOwner,
            stat.dataLength,
            stat.numChildren,
            stat.pzxid,
        )
        paths += [f"{path.rstrip('/')}/{child}" for child in client.get_children(path)]
    return found


@contextmanager
def client_of(port: int) -> Iterator[Any]:
    client = KazooClient(hosts=f"127.0.0.1:{port}", timeout=10, auth_data=[("digest", "u:p")])
    client.start(timeout=120)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def assert_no_complaint(zookeeper: RealZooKeeper, index: int = 0) -> None:
    assert mntr(zookeeper.client_ports[index])["zk_digest_mismatches_count"] == "0"
    complaints = [line for line in zookeeper.log(index).splitlines() if any(word in line for word in COMPLAINTS)]
    assert complaints == []


def recover(directory: Path) -> Recovered:
    store = DataDir(directory)
    try:
        return store.recover()
    finally:
        store.close()


def change_through(client: Any, path: str) -> None:
    client.create(path, b"theirs", makepath=True)
    for number in range(30):
        client.create(f"{path}/s-", b"x" * number, sequence=True)
    client.set(path, b"changed")
    with client.transaction() as transaction:
        transaction.create(f"{path}/t", b"1")
        transaction.set_data(f"{path}/t", b"2")
    client.delete(f"{path}/s-0000000003")


def test_back_and_forth(tmp_path: Path) -> None:
    zookeeper = RealZooKeeper(
        1, tmp_path, settings={"preAllocSize": "64"}, properties={**PROPERTIES, "zookeeper.snapCount": "40"}
    )
    data = zookeeper.data(0)
    for turn in range(2):
        store = DataDir(data)
        recovered = store.recover()
        store.write_accepted_epoch(turn + 1)
        ours = write_everything(store, recovered.tree, prefix=f"/ours{turn}")
        with zookeeper:
            with client_of(zookeeper.client_ports[0]) as client:
                assert shown_by(client) == shown(ours.tree)
                change_through(client, f"/theirs{turn}")
                theirs = shown_by(client)
            assert_no_complaint(zookeeper)
        recovered = recover(data)
        assert shown(recovered.tree) == theirs
        assert recovered.digest_mismatches == 0


def test_an_ensemble_takes_over(tmp_path: Path) -> None:
    zookeeper = RealZooKeeper(3, tmp_path, properties=PROPERTIES)
    master = tmp_path / "master"
    store = DataDir(master)
    tree = store.recover().tree
    store.write_accepted_epoch(3)
    store.write_current_epoch(1)
    ours = write_everything(store, tree, prefix="/ours")
    for index in range(3):
        shutil.copytree(master / "version-2", zookeeper.data(index) / "version-2")
    with zookeeper:
        for port in zookeeper.client_ports:
            with client_of(port) as client:
                client.sync("/")
                found = shown_by(client)
            expected = shown(ours.tree)
            del found[CONFIG_PATH], expected[CONFIG_PATH]  # an ensemble writes its members there
            assert found == expected
        with client_of(zookeeper.client_ports[0]) as client:
            change_through(client, "/theirs")
            client.sync("/")
            theirs = shown_by(client)
        for port in zookeeper.client_ports:
            with client_of(port) as client:
                client.sync("/")
        for index in range(3):
            assert_no_complaint(zookeeper, index)
    for index in range(3):
        recovered = recover(zookeeper.data(index))
        found = shown(recovered.tree)
        found[CONFIG_PATH] = theirs[CONFIG_PATH]
        assert found == theirs
        assert (recovered.accepted_epoch, recovered.current_epoch) == (4, 4)
        assert recovered.digest_mismatches == 0


def test_a_torn_tail_of_ours_is_one_of_theirs(tmp_path: Path) -> None:
    """What a crash of ours leaves is read the same way on both sides."""
    zookeeper = RealZooKeeper(1, tmp_path, properties=PROPERTIES)
    data = zookeeper.data(0)
    store = DataDir(data)
    history = History(store.recover().tree)
    history.create("/kept", b"1")
    store.log.append(history.entries)
    expected = seen(history.tree)
    history.set("/kept", b"2" * 100)
    store.log.append(history.entries[-1:])
    kill(store)
    log = data / "version-2" / "log.1"
    log.write_bytes(log.read_bytes().rstrip(b"\0")[:-30])
    with zookeeper, client_of(zookeeper.client_ports[0]) as client:
        assert client.get("/kept")[0] == b"1"
    recovered = recover(data)
    assert seen(recovered.tree)["nodes"] == expected["nodes"]


def test_snapshots_of_theirs_that_gzip_packed(tmp_path: Path) -> None:
    packing = {"zookeeper.snapshot.compression.method": "gz", "zookeeper.snapCount": "10"}
    zookeeper = RealZooKeeper(1, tmp_path, properties={**PROPERTIES, **packing})
    data = zookeeper.data(0)
    with zookeeper, client_of(zookeeper.client_ports[0]) as client:
        change_through(client, "/theirs")
        theirs = shown_by(client)
    names = [path.name for path in (data / "version-2").glob("snapshot.*")]
    assert names
    assert all(name.endswith(".gz") for name in names)
    recovered = recover(data)
    assert shown(recovered.tree) == theirs
    assert recovered.snapshot_zxid > 0
    assert recovered.digest_mismatches == 0
