"""Snapshots: the whole tree as a stream of bytes, in the format of ZooKeeper 3.9.5.

    header      "ZKSN", int version 2, long -1
    sessions    int count, then count x (long session id, int timeout)
    ACL map     int count, then count x (long id, vector of ACL)
    znodes      depth first, parents before children, each:
                    ustring path        "" for the root
                    buffer data
                    long ACL id         -1 for the open ACL, else an id of the map
                    StatPersisted       czxid mzxid ctime mtime version cversion aversion owner pzxid
                ustring "/"             ends them
    seal        long Adler-32 of every byte before, ustring "/"
    digest      long zxid, int version, long tree digest at that zxid; then a seal
    last zxid   long; then a seal

A file of ZooKeeper 3.5 ends after the first seal, one of 3.6 to 3.8 after the second. A ZooKeeper with
``snapshot.compression.method=gz`` writes all of it through gzip; such files are read, and never written.

Fuzzy
-----
``encode`` is a generator, and transactions go on between its chunks. What it yields is the tree at no single moment,
but with every transaction after the starting zxid applied again it becomes the tree at the end: applying is
idempotent. So a snapshot is named after the zxid at its *start*, its last sections carry the zxid and digest at its
*end*, and until the log has been replayed that far nothing about it can be compared.

Znodes created after the start are left out with all below them: the replay creates them. Were one written that
took the place of an older one, the replay would first delete it for the older one's sake, under whatever it has below
it by then.

The ACL map is written before the znodes, so a znode may show up with an ACL that is not in the map. A setACL after the
start gave it that ACL and will be replayed; until then the znode has one that admits nobody. An id that is not in the
map would do worse in ZooKeeper: it is numbered anew there, and may come to mean another ACL.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct, error
from typing import NamedTuple, Protocol
from zlib import adler32

from ottla.base.errors import CorruptionError
from ottla.keeper.proto.jute import INT, LONG, put_buffer, put_int, put_string
from ottla.keeper.proto.records import ACL, OPEN_ACL_UNSAFE, put_acls
from ottla.keeper.proto.txns import DIGEST_VERSION
from ottla.keeper.server.tree import DataTree, Node
from ottla.keeper.store.source import Source

SNAPSHOT_PREFIX = "snapshot"
GZ_SUFFIX = ".gz"
SLICE_NODES = 1000
SLICE_BYTES = 1 << 20
CLOSED_ACL: tuple[ACL, ...] = (ACL(0, "world", "anyone"),)

_HEADER = Struct(">4siq")
_SNAPSHOT_HEADER = _HEADER.pack(b"ZKSN", 2, -1)
_SESSION = Struct(">qi")
_NODE_TAIL = Struct(">qqqqqiiiqq")
_DIGEST = Struct(">qiq")
_DIGEST_HEAD = Struct(">qi")
_ROOT_MARK = INT.pack(1) + b"/"
_SEAL_BYTES = LONG.size + len(_ROOT_MARK)
_READ_BYTES = 1 << 20
_OPEN_ACL_ID = -1
_CLOSED_ACL_ID = 1

AclIds = dict[tuple[ACL, ...], int]


class Snapshot(NamedTuple):
    """A snapshot read back."""

    tree: DataTree
    end_zxid: int
    """The last transaction of which the tree may show effects."""
    digest_zxid: int
    """Replayed up to here, the tree has ``digest``; 0 if the snapshot has none."""
    digest: int
    digest_version: int


def snapshot_name(zxid: int) -> str:
    return f"{SNAPSHOT_PREFIX}.{zxid:x}"


def encode(tree: DataTree, *, slice_nodes: int = SLICE_NODES) -> Iterator[bytes]:
    """A snapshot at ``tree.last_zxid``, in chunks of at most ``slice_nodes`` znodes and not much above a mebibyte.

    The tree may change between chunks, some of which are empty: nothing but a chance to do so. The starting zxid is that
    of this call, not of the first chunk.
    """
    return _sealed(_encode_tree(tree, dict(tree.sessions), list(tree.nodes.values()), slice_nodes), tree)


class Reads(Protocol):
    """A file, or what unpacks one."""

    def read(self, size: int, /) -> bytes: ...


def decode(chunks: Iterable[bytes], zxid: int, *, size: int | None = None) -> Snapshot:
    """Read a snapshot that started at ``zxid``, or raise ``CorruptionError``.

    Lengths and counts are checked against what is left of ``size``, where it is known, and never believed beyond the
    bytes that arrive; a chunk may be dropped as soon as the next is asked for.
    """
    source = Source(chunks, size)
    try:
        return _decode(source, zxid)
    except (error, UnicodeDecodeError, ValueError) as e:
        raise CorruptionError(f"offset {source.offset}: {e}") from e


@contextmanager
def opened(path: Path) -> Iterator[Reads]:
    """A snapshot file to read from, unpacked where it is packed; what of gzip's cannot be unpacked is corrupt."""
    if path.suffix != GZ_SUFFIX:
        with path.open("rb", buffering=0) as file:
            yield file
        return
    import gzip  # few directories hold one, and it costs start-up a little

    with gzip.open(path, "rb") as unpacked:
        try:
            yield unpacked
        except (EOFError, gzip.BadGzipFile, zlib.error) as e:
            raise CorruptionError(f"not what gzip wrote: {e}") from e


def _is_whole_gz(path: Path) -> bool:
    """The same of a packed one, by gzip's own checksum."""
    try:
        with opened(path) as file:
            begins_well = file.read(8) == _SNAPSHOT_HEADER[:8]
            while file.read(_READ_BYTES):
                pass
            return begins_well
    except (CorruptionError, FileNotFoundError):
        return False


def is_whole(path: Path) -> bool:
    """True if every byte of a snapshot file is what was written: the last seal covers all before it."""
    if path.suffix == GZ_SUFFIX:
        return _is_whole_gz(path)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return False
    with file:
        left = os.fstat(file.fileno()).st_size - _SEAL_BYTES
        if left < len(_SNAPSHOT_HEADER) or file.read(8) != _SNAPSHOT_HEADER[:8]:
            return False
        file.seek(0)
        checksum = 1
        while left and (chunk := file.read(min(left, _READ_BYTES))):
            checksum = adler32(chunk, checksum)
            left -= len(chunk)
        return file.read() == LONG.pack(checksum) + _ROOT_MARK


def _sealed(body: Iterator[bytes], tree: DataTree) -> Iterator[bytes]:
    checksum = 1
    for chunk in body:
        checksum = adler32(chunk, checksum)
        yield chunk
    # No chunk is yielded between these sections, so the zxid, the digest and the tree are of one moment.
    end_zxid = max(tree.last_zxid, tree.fuzzy_until)
    digest_zxid = end_zxid if end_zxid == tree.last_zxid else 0  # a tree that is still fuzzy has no digest
    tail = bytearray()
    for section in (
        b"",
        _DIGEST.pack(digest_zxid, DIGEST_VERSION, tree.digest if digest_zxid else 0),
        LONG.pack(end_zxid),
    ):
        checksum = adler32(section, checksum)
        seal = LONG.pack(checksum) + _ROOT_MARK
        checksum = adler32(seal, checksum)
        tail += section + seal
    yield bytes(tail)


def _encode_tree(tree: DataTree, sessions: dict[int, int], nodes: list[Node], slice_nodes: int) -> Iterator[bytes]:
    out = bytearray(_SNAPSHOT_HEADER)
    put_int(out, len(sessions))
    for session_id, timeout_ms in sessions.items():
        out += _SESSION.pack(session_id, timeout_ms)
    yield bytes(out)
    acl_ids: AclIds = {OPEN_ACL_UNSAFE: _OPEN_ACL_ID, CLOSED_ACL: _CLOSED_ACL_ID}
    newest_czxid = 0
    for start in range(0, len(nodes), slice_nodes):
        newest_czxid = max(newest_czxid, _collect_acls(nodes[start : start + slice_nodes], acl_ids))
        yield b""
    nodes.clear()
    out = bytearray()
    put_int(out, len(acl_ids) - 1)
    for acl, acl_id in acl_ids.items():
        if acl_id != _OPEN_ACL_ID:
            out += LONG.pack(acl_id)
            put_acls(out, acl)
    count = 0
    for path, node in _walk(tree, newest_czxid):
        _put_node(out, path, node, acl_ids)
        count += 1
        if count >= slice_nodes or len(out) >= SLICE_BYTES:
            yield bytes(out)
            out, count = bytearray(), 0
    yield bytes(out) + _ROOT_MARK


def _collect_acls(nodes: list[Node], acl_ids: AclIds) -> int:
    """Number the ACLs of some znodes; return the newest zxid that created one of them."""
    newest = 0
    for node in nodes:
        if node.acl not in acl_ids:
            acl_ids[node.acl] = len(acl_ids)
        newest = max(newest, node.czxid)
    return newest


def _walk(tree: DataTree, newest_czxid: int) -> Iterator[tuple[str, Node]]:
    """The znodes that are as old as the snapshot, parents first; a child only below a parent that was yielded."""
    nodes = tree.nodes
    root = nodes["/"]
    yield "", root
    stack = [("", iter(list(root.children or ())))]
    while stack:
        parent, names = stack[-1]
        name = next(names, None)
        if name is None:
            stack.pop()
            continue
        path = f"{parent}/{name}"
        node = nodes.get(path)
        if node is None or node.czxid > newest_czxid:
            continue
        yield path, node
        if node.children:
            stack.append((path, iter(list(node.children))))


def _put_node(out: bytearray, path: str, node: Node, acl_ids: AclIds) -> None:
    put_string(out, path)
    put_buffer(out, node.data)
    out += _NODE_TAIL.pack(
        acl_ids.get(node.acl, _CLOSED_ACL_ID),
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


def _decode(source: Source, zxid: int) -> Snapshot:
    if source.take(_HEADER.size)[:8] != _SNAPSHOT_HEADER[:8]:
        raise CorruptionError("not the header of a snapshot")
    sessions: dict[int, int] = {}
    for _ in range(source.count(_SESSION.size)):
        session_id, timeout_ms = source.unpack(_SESSION)
        sessions[session_id] = timeout_ms
    acls = _read_acls(source)
    nodes = _Nodes(source, acls)
    tree = DataTree.restore(nodes, sessions, zxid)
    if len(tree.nodes) < nodes.count:
        raise CorruptionError("a znode twice")
    source.check_seal()
    end_zxid, digest_zxid, digest, version = zxid, 0, 0, DIGEST_VERSION
    if not source.at_end():
        digest_zxid, version = source.unpack(_DIGEST_HEAD)
        # Version 1 was a hexadecimal string.
        digest = source.int64() if version >= DIGEST_VERSION else int(source.string() or "0", 16)
        source.check_seal()
        end_zxid = max(end_zxid, digest_zxid)
    if not source.at_end():
        end_zxid = max(end_zxid, source.int64())
        source.check_seal()
    if not source.at_end():
        raise CorruptionError("more bytes behind the last section")
    tree.fuzzy_until = end_zxid
    return Snapshot(tree, end_zxid, digest_zxid, digest, version)


def _read_acls(source: Source) -> dict[int, tuple[ACL, ...]]:
    acls = {_OPEN_ACL_ID: OPEN_ACL_UNSAFE}
    for _ in range(source.count(12)):
        acl_id = source.int64()
        acl = tuple(ACL(source.int32(), source.string(), source.string()) for _ in range(source.count(12)))
        # The open ACL is told by identity on every check, and most znodes of a ZooKeeper have it by number.
        acls[acl_id] = OPEN_ACL_UNSAFE if acl == OPEN_ACL_UNSAFE else acl
    return acls


class _Nodes:
    """The znodes of a snapshot, read as they are asked for, and counted."""

    def __init__(self, source: Source, acls: dict[int, tuple[ACL, ...]]) -> None:
        self._source = source
        self._acls = acls
        self.count = 0

    def __iter__(self) -> Iterator[tuple[str, Node]]:
        source, acls = self._source, self._acls
        while (path := source.string()) != "/":
            self.count += 1
            data = source.buffer()
            acl_id, *stat = source.unpack(_NODE_TAIL)
            # ZooKeeper writes ids that are not in the map when the ACL came up meanwhile. Closed, until the log says.
            yield path or "/", Node(data, acls.get(acl_id, CLOSED_ACL), *stat)
