"""Directories that real ZooKeeper 3.9.5 servers left behind, recovered to the very tree their clients saw."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ottla.keeper.proto.records import STAT, Stat
from ottla.keeper.server.acl import masked
from ottla.keeper.server.tree import CONFIG_PATH, DataTree, pack_stat
from ottla.keeper.store import DataDir, Recovered
from ottla.keeper.store.snapshot import encode, is_whole
from tests.unit.keeper.store.histories import History, seen

GOLDEN = Path(__file__).parents[3] / "golden"
STANDALONE = GOLDEN / "zookeeper-3.9.5-data"
ENSEMBLE = GOLDEN / "zookeeper-3.9.5-ensemble"
SERVERS = {
    STANDALONE: STANDALONE / "tree.json",
    ENSEMBLE / "server-1": ENSEMBLE / "tree.json",
    ENSEMBLE / "server-2": ENSEMBLE / "tree.json",
}


def recover(directory: Path) -> Recovered:
    store = DataDir(directory)
    try:
        return store.recover()
    finally:
        store.close()


def as_clients_see(tree: DataTree, like: dict[str, Any]) -> dict[str, Any]:
    shown = {}
    for path, node in tree.nodes.items():
        stat = Stat._make(STAT.unpack(pack_stat(node)))
        acl = node.acl
        if any(":x" in who for _, _, who in like.get(path, {}).get("acl", ())):
            acl = masked(acl)  # the client that wrote tree.json had no right to see more
        shown[path] = {
            "acl": [list(entry) for entry in acl],
            "data": (node.data or b"").hex(),
            "stat": {
                "czxid": stat.czxid,
                "mzxid": stat.mzxid,
                "ctime": stat.ctime,
                "mtime": stat.mtime,
                "version": stat.version,
                "cversion": stat.cversion,
                "aversion": stat.aversion,
                "ephemeralOwner": stat.ephemeral_owner,
                "dataLength": stat.data_length,
                "numChildren": stat.num_children,
                "pzxid": stat.pzxid,
            },
        }
    return shown


@pytest.fixture(params=SERVERS, ids=lambda path: path.name)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    copy = tmp_path / "data"
    shutil.copytree(request.param, copy)
    expected: dict[str, Any] = json.loads(SERVERS[request.param].read_text())
    if request.param.name == "server-1":
        # Each server writes this znode for itself when it starts; tree.json shows that of server 2.
        expected[CONFIG_PATH]["stat"]["mtime"] = 1794784246494
    return copy, expected


def test_recovers_the_very_tree(server: tuple[Path, dict[str, Any]]) -> None:
    directory, expected = server
    recovered = recover(directory)
    assert as_clients_see(recovered.tree, expected) == expected
    assert recovered.digest_mismatches == 0
    assert recovered.last_zxid == max(e["stat"]["pzxid"] for e in expected.values())


@pytest.mark.parametrize("dropped", range(1, 5))
def test_every_older_snapshot_leads_to_the_same_tree(server: tuple[Path, dict[str, Any]], dropped: int) -> None:
    directory, expected = server
    snapshots = sorted((directory / "version-2").glob("snapshot.*"), key=lambda p: int(p.name.split(".")[1], 16))
    for path in snapshots[1:][-dropped:]:
        path.unlink()
    recovered = recover(directory)
    expected[CONFIG_PATH]["stat"]["mtime"] = recovered.tree.nodes[CONFIG_PATH].mtime  # is in no transaction
    assert as_clients_see(recovered.tree, expected) == expected
    assert recovered.digest_mismatches == 0


def test_epochs_come_from_the_files(tmp_path: Path) -> None:
    shutil.copytree(ENSEMBLE / "server-1", tmp_path / "data")
    recovered = recover(tmp_path / "data")
    assert (recovered.accepted_epoch, recovered.current_epoch) == (2, 2)
    assert recovered.last_zxid == 0x200000024
    assert recovered.recent[-1].zxid == recovered.last_zxid


def test_the_session_that_was_open_still_is(tmp_path: Path) -> None:
    shutil.copytree(STANDALONE, tmp_path / "data")
    tree = recover(tmp_path / "data").tree
    owner = tree.nodes["/eph"].ephemeral_owner
    assert owner in tree.sessions
    assert tree.ephemerals[owner] == {"/eph"}


def test_what_is_written_on_it_is_found_again(server: tuple[Path, dict[str, Any]]) -> None:
    directory, _ = server
    store = DataDir(directory)
    recovered = store.recover()
    history = History(recovered.tree)
    history.create("/new", b"value")
    history.fill(20)
    recovered.log.append(history.entries)
    recovered.log.sync()
    store.save_snapshot(history.tree)
    expected = seen(history.tree)
    store.close()
    again = recover(directory)
    assert seen(again.tree) == expected
    assert again.digest_mismatches == 0
    assert again.replayed == 0


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("**/snapshot.*")), ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_the_golden_snapshots_are_whole(path: Path) -> None:
    assert is_whole(path)


def test_a_blank_snapshot_has_the_form_of_zookeepers() -> None:
    ours = b"".join(encode(DataTree()))
    golden = (STANDALONE / "version-2" / "snapshot.0").read_bytes()
    assert ours[:20] == golden[:20]
    assert ours[-46:-25] == golden[-46:-25][:8] + ours[-38:-25]  # an empty digest, but for the checksum
    assert len(ours) - len(golden) == 8 + 4 + 4 + 4 + len("world") + 4 + len("anyone")  # the ACL that admits nobody
