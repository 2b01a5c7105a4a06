from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from zlib import adler32

import pytest

from ottla.base.errors import CorruptionError
from ottla.keeper.proto.jute import INT, LONG
from ottla.keeper.proto.records import ACL, OPEN_ACL_UNSAFE
from ottla.keeper.proto.txns import decode_txn
from ottla.keeper.server.tree import DataTree
from ottla.keeper.store import decode_snapshot, encode_snapshot
from ottla.keeper.store.snapshot import CLOSED_ACL, is_whole
from tests.unit.keeper.store.histories import ROOM_ACL, SECRET_ACL, History, rich_history, seen

HEADER = b"ZKSN" + INT.pack(2) + LONG.pack(-1)


@pytest.fixture
def tree() -> DataTree:
    return rich_history().tree


def image(tree: DataTree) -> bytes:
    return b"".join(encode_snapshot(tree))


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def sealed(body: bytes) -> bytes:
    return body + LONG.pack(adler32(body)) + INT.pack(1) + b"/"


@pytest.mark.parametrize("slice_nodes", [1, 2, 1000])
def test_what_is_written_is_read(tree: DataTree, slice_nodes: int) -> None:
    data = b"".join(encode_snapshot(tree, slice_nodes=slice_nodes))
    snapshot = decode_snapshot([data], tree.last_zxid)
    assert seen(snapshot.tree) == seen(tree)
    assert (snapshot.end_zxid, snapshot.digest_zxid, snapshot.digest) == (tree.last_zxid, tree.last_zxid, tree.digest)


@pytest.mark.parametrize("size", [1, 3, 17, 100, 1 << 20])
def test_chunks_may_be_cut_anywhere(tree: DataTree, size: int) -> None:
    data = image(tree)
    for known in (None, len(data)):
        assert seen(decode_snapshot(in_pieces(data, size), tree.last_zxid, size=known).tree) == seen(tree)


def test_acls_are_shared(tree: DataTree) -> None:
    read = decode_snapshot([image(tree)], 1).tree
    assert read.nodes["/a"].acl is OPEN_ACL_UNSAFE
    assert read.nodes["/a/b"].acl == SECRET_ACL
    assert read.nodes["/c"].acl == ROOM_ACL


def test_a_cut_at_any_byte_is_noticed(tree: DataTree, tmp_path: Path) -> None:
    data = image(tree)
    # Where the later sections begin, the rest is a whole file of an older ZooKeeper, with every znode in it.
    older = {len(data) - 21, len(data) - 21 - 33}
    file = tmp_path / "snapshot.1"
    for size in range(len(data)):
        if size in older:
            assert seen(decode_snapshot([data[:size]], tree.last_zxid).tree) == seen(tree)
            continue
        with pytest.raises(CorruptionError):
            decode_snapshot([data[:size]], 1)
        with pytest.raises(CorruptionError):
            decode_snapshot([data[:size]], 1, size=size)
        file.write_bytes(data[:size])
        assert not is_whole(file)
    file.write_bytes(data)
    assert is_whole(file)


@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_is_noticed_wherever_it_is(tree: DataTree, tmp_path: Path, bit: int) -> None:
    data = image(tree)
    file = tmp_path / "snapshot.1"
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << bit
        with pytest.raises(CorruptionError):
            decode_snapshot([bytes(flipped)], 1, size=len(flipped))
        file.write_bytes(flipped)
        assert not is_whole(file)


def test_bytes_behind_the_end_are_noticed(tree: DataTree) -> None:
    with pytest.raises(CorruptionError):
        decode_snapshot([image(tree), b"\0"], 1)


@pytest.mark.parametrize(
    "body",
    [
        HEADER + INT.pack(0x7FFFFFFF),
        HEADER + INT.pack(-7),
        HEADER + INT.pack(0) + INT.pack(0x7FFFFFFF),
        HEADER + INT.pack(0) + INT.pack(1) + LONG.pack(1) + INT.pack(0x7FFFFFFF),
        HEADER + INT.pack(0) + INT.pack(0) + INT.pack(0x7FFFFFFF),
        HEADER + INT.pack(0) + INT.pack(0) + INT.pack(0) + INT.pack(0x7FFFFFFF),
        HEADER + INT.pack(0) + INT.pack(0) + INT.pack(0) + INT.pack(-5),
    ],
    ids=["sessions", "negative", "acls", "acl", "path", "data", "negative data"],
)
@pytest.mark.parametrize("known", [False, True])
def test_a_length_is_not_believed(body: bytes, known: bool) -> None:
    data = body + b"\0" * 100
    tracemalloc.start()
    try:
        with pytest.raises(CorruptionError):
            decode_snapshot([data], 1, size=len(data) if known else None)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_node_twice_or_without_parent_is_refused() -> None:
    acl = INT.pack(0) + INT.pack(0)
    stat = b"\0" * 60
    root = INT.pack(0) + INT.pack(-1) + LONG.pack(-1) + stat
    orphan = INT.pack(4) + b"/a/b" + INT.pack(-1) + LONG.pack(-1) + stat
    for nodes in (root + root, root + orphan, orphan):
        with pytest.raises(CorruptionError):
            decode_snapshot([sealed(HEADER + acl + nodes + INT.pack(1) + b"/")], 1)
    assert list(decode_snapshot([sealed(HEADER + acl + root + INT.pack(1) + b"/")], 1).tree.nodes) == ["/"]


def test_an_acl_that_is_not_in_the_map_admits_nobody() -> None:
    """ZooKeeper writes such ids when an ACL comes up while the snapshot is being written."""
    stat = b"\0" * 60
    root = INT.pack(0) + INT.pack(-1) + LONG.pack(-1) + stat
    late = INT.pack(5) + b"/late" + INT.pack(-1) + LONG.pack(99) + stat
    tree = decode_snapshot([sealed(HEADER + INT.pack(0) * 2 + root + late + INT.pack(1) + b"/")], 1).tree
    assert tree.nodes["/late"].acl == CLOSED_ACL == (ACL(0, "world", "anyone"),)


class TestFuzzy:
    """Transactions between the chunks; then the snapshot, with what came after its start replayed, is the tree."""

    def replayed(self, data: bytes, zxid: int, history: History) -> DataTree:
        tree = decode_snapshot([data], zxid).tree
        for entry in history.entries:
            if entry.zxid > zxid:
                tree.apply(decode_txn(entry.raw))
        return tree

    def test_everything_may_change_meanwhile(self) -> None:
        history = History()
        history.fill(60)
        start = history.tree.last_zxid
        data = b""
        for number, chunk in enumerate(encode_snapshot(history.tree, slice_nodes=2)):
            data += chunk
            history.create(f"/new{number}", b"n", (ACL(31, "digest", f"u{number}:x"),))
            history.create(f"/new{number}/below")
            if number % 2:
                victim = next(path for path in history.tree.nodes if path.startswith("/fill/"))
                history.delete(victim)
            history.set_acl("/fill", (ACL(number % 32, "world", "anyone"),))
            if number > 5:
                history.set("/fill", b"changed")
        assert seen(self.replayed(data, start, history)) == seen(history.tree)

    def test_a_snapshot_of_a_fuzzy_tree_is_as_fuzzy(self) -> None:
        history = History()
        history.create("/a")
        start = history.tree.last_zxid
        chunks = encode_snapshot(history.tree, slice_nodes=1)
        data = next(chunks)
        history.set("/a", b"later")
        data += b"".join(chunks)
        fuzzy = decode_snapshot([data], start).tree
        again = decode_snapshot(encode_snapshot(fuzzy), start)
        assert (again.end_zxid, again.tree.fuzzy_until) == (history.tree.last_zxid, history.tree.last_zxid)
        assert (again.digest_zxid, again.digest) == (0, 0)

    def test_an_acl_set_after_the_map_is_closed_until_the_log_says(self) -> None:
        history = History()
        history.create("/a")
        history.create("/b")
        start = history.tree.last_zxid
        chunks = encode_snapshot(history.tree, slice_nodes=1)
        # The last of the pauses in which ACLs are collected has passed when the first path shows up.
        data = b""
        while b"/zookeeper" not in data and b"/a" not in data and b"/b" not in data:
            data += next(chunks)
        late = "/b" if b"/b" not in data else "/a"
        history.set_acl(late, SECRET_ACL)
        history.create("/secret", b"", (ACL(31, "digest", "s:s"),))
        history.create("/secret/below")
        data += b"".join(chunks)
        fuzzy = decode_snapshot([data], start).tree
        assert fuzzy.nodes[late].acl == CLOSED_ACL
        assert "/secret" not in fuzzy.nodes
        assert seen(self.replayed(data, start, history)) == seen(history.tree)

    def test_the_end_says_how_far_it_goes(self) -> None:
        history = History()
        history.fill(10)
        chunks = encode_snapshot(history.tree)
        first = next(chunks)
        history.fill(5)
        snapshot = decode_snapshot([first, *chunks], 10)
        assert snapshot.tree.last_zxid == 10
        assert snapshot.end_zxid == snapshot.digest_zxid == 15
        assert snapshot.digest == history.tree.digest

    def test_it_starts_with_the_call_not_with_the_first_chunk(self) -> None:
        history = History()
        history.create("/early")
        chunks = encode_snapshot(history.tree, slice_nodes=1)
        history.create("/late", b"", (ACL(31, "digest", "s:s"),))
        assert seen(self.replayed(b"".join(chunks), 1, history)) == seen(history.tree)

    def test_chunks_are_small(self) -> None:
        history = History()
        history.create("/big")
        for number in range(20):
            history.create(f"/big/{number}", bytes(500_000))
        sizes = [len(chunk) for chunk in encode_snapshot(history.tree)]
        assert max(sizes) < 2 << 20
        assert len(sizes) > 8


def test_reading_needs_memory_for_the_tree_and_a_window() -> None:
    history = History()
    history.create("/d")
    for number in range(2000):
        history.create(f"/d/{number}")
    for number in range(30):
        history.set(f"/d/{number}", bytes(100_000))
    data = image(history.tree)

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(data), 65536):
            yield data[start : start + 65536]

    tracemalloc.start()
    try:
        tree = decode_snapshot(chunks(), 1).tree
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(tree.nodes) == len(history.tree.nodes)
    assert peak - now < 1 << 20
