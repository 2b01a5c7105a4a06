"""What servers leave behind: their data directories, recovered as a server would and read as plain values."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.keeper.proto.records import STAT, Stat
from ottla.keeper.proto.txns import Txn, decode_txn
from ottla.keeper.server.tree import DataTree, pack_stat
from ottla.keeper.store import DataDir
from ottla.keeper.store.logreader import LogReader
from tests.chaos.model import text

Nodes = Mapping[str, tuple[str, Stat]]


class Remains(NamedTuple):
    """One server at the end."""

    name: str
    txns: list[Txn]
    """Its log, oldest first; what lies before may have come as a snapshot."""
    last_zxid: int
    nodes: Nodes | None
    """Its tree; None if only the log is to be judged."""


def read_remains(name: str, data: Path, scratch: Path) -> Remains:
    """Recover a copy of a data directory: recovery repairs, and the original is evidence."""
    copy = scratch / f"remains-{name}"
    shutil.copytree(data, copy)
    store = DataDir(copy)
    try:
        found = store.recover()
        files = sorted((int(path.suffix[1:], 16), path) for path in store.logs.glob("log.*"))
    finally:
        store.close()
    txns = [decode_txn(entry.raw) for _, path in files for entry in LogReader(path)]
    return Remains(name, txns, found.last_zxid, nodes_of(found.tree))


def nodes_of(tree: DataTree) -> Nodes:
    return {path: (text(node.data), Stat._make(STAT.unpack(pack_stat(node)))) for path, node in tree.nodes.items()}
