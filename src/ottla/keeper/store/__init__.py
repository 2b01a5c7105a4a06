"""What a keeper remembers: transaction log, snapshots and epochs, in ZooKeeper's own files.

    DataDir            opens and recovers the directories, and changes them as a whole
      ├── recovery     which snapshot counts, which entries follow it, what is damage
      ├── TxnLog       append and sync (entries: the file format; synced: the sync mark)
      ├── snapshot     the tree as bytes and back (source: the cursor it reads with)
      ├── writing      snapshots on their way to disk
      ├── epochs       acceptedEpoch and currentEpoch
      └── durable      write, rename, delete, cut: each on disk before it returns

Everything here blocks. ``TxnLog.append`` and ``encode_snapshot`` are for the event loop, the rest for a worker.
"""

from ottla.keeper.store.datadir import DataDir, Recovered
from ottla.keeper.store.entries import follows
from ottla.keeper.store.epochs import epoch_of
from ottla.keeper.store.snapshot import Snapshot
from ottla.keeper.store.snapshot import decode as decode_snapshot
from ottla.keeper.store.snapshot import encode as encode_snapshot
from ottla.keeper.store.txnlog import TxnLog
from ottla.keeper.store.writing import Installation, SnapshotWriting

__all__ = [
    "DataDir",
    "Installation",
    "Recovered",
    "Snapshot",
    "SnapshotWriting",
    "TxnLog",
    "decode_snapshot",
    "encode_snapshot",
    "epoch_of",
    "follows",
]
