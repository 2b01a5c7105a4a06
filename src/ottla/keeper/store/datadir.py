"""A server's data directories: opened by one process at a time, recovered, and replaced or trimmed as a whole.

    dataDir/version-2/       snapshot.<hex zxid>   acceptedEpoch   currentEpoch   ottla.lock
    dataLogDir/version-2/    log.<hex zxid>        synced          ottla.lock

Both may be one directory. The lock files hold an advisory lock that ends with the process, however it ends.

Starting
--------
An empty pair of directories is a blank server: ``snapshot.0`` is written before anything else, so that from then on
logs without a snapshot mean that a snapshot was lost. That is refused, as is a directory that remembers an epoch but
no data (ZOOKEEPER-3056: a server that silently starts empty can vote acknowledged writes away);
``snapshot.trust.empty`` overrides it. Everything that recovery believes is synced before it returns: what a killed
process left in the page cache would otherwise be promised to the ensemble and lost with the next power cut.

Replacing the history
---------------------
A snapshot received from a leader replaces snapshots and logs, also newer ones that the ensemble never agreed on:

    1. write ``tmp.installed.<hex zxid>``, sync it and read it back         still the old history
    2. rename it to ``installed.<hex zxid>``, sync the directory            from here on the new one
    3. delete the logs, newest first, then the snapshots, newest first
    4. rename it to ``snapshot.<hex zxid>``, sync the directory

Recovery throws away a file of step 1 and carries on from step 3 where it finds one of step 2, so nothing is ever
replayed across the seam. Newest first, because what a ZooKeeper would find in between is then a prefix of the old
history and no mixture.

Shortening the history
----------------------
``truncate_to`` first builds the tree it is to end with, in memory. Only if that works are the snapshots that show
too much deleted, then the log behind the zxid; at every point in between the old history is still whole.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ottla.base.errors import ConfigError, CorruptionError, Error
from ottla.keeper.proto.txns import DIGEST_VERSION, Entry
from ottla.keeper.server.tree import DataTree
from ottla.keeper.store.durable import (
    AtomicFile,
    Numbered,
    cut,
    fsync_directory,
    fsync_file,
    lock_directory,
    make_directory,
    numbered,
    remove_in_order,
    remove_temporaries,
    rename,
)
from ottla.keeper.store.entries import LOG_PREFIX
from ottla.keeper.store.epochs import ACCEPTED_EPOCH, CURRENT_EPOCH, read_epoch, settle_epochs, write_epoch
from ottla.keeper.store.recovery import Loaded, Recent, load_snapshot, needed_logs, read_snapshot, replay
from ottla.keeper.store.snapshot import SNAPSHOT_PREFIX, Snapshot, encode, is_whole, snapshot_name
from ottla.keeper.store.synced import Mark, read_mark
from ottla.keeper.store.txnlog import PRE_ALLOC_SIZE_KIB, TxnLog

logger = logging.getLogger(__name__)

VERSION_DIRECTORY = "version-2"
INSTALLED_PREFIX = "installed"
RECENT_COUNT = 500
RECENT_BYTES = 16 << 20


class TruncationError(Error):
    """The history cannot be shortened to the zxid asked for; nothing was changed. A snapshot has to replace it."""


class Recovered(NamedTuple):
    """A server's state as its disk has it."""

    tree: DataTree
    log: TxnLog
    last_zxid: int
    """Of the last logged transaction, or of the snapshot if none follows it."""
    accepted_epoch: int
    current_epoch: int
    recent: list[Entry]
    """The last entries without a gap, up to ``last_zxid``: what lagging followers are brought up to date with."""
    snapshot_zxid: int
    replayed: int
    """How many transactions lie behind the snapshot."""
    digest_mismatches: int

    @property
    def blank(self) -> bool:
        """True if this server has never held any history."""
        return self.last_zxid == 0 and self.current_epoch == 0


class DataDir:
    """The data directories of one server, locked. Blocking; one call at a time but for ``TxnLog``'s own rules."""

    def __init__(
        self,
        data_dir: Path,
        data_log_dir: Path | None = None,
        *,
        pre_alloc_size: int = PRE_ALLOC_SIZE_KIB,
        trust_empty_snapshot: bool = False,
        recent_count: int = RECENT_COUNT,
        recent_bytes: int = RECENT_BYTES,
    ) -> None:
        self.snapshots = data_dir / VERSION_DIRECTORY
        self.logs = (data_log_dir or data_dir) / VERSION_DIRECTORY
        self._directories = tuple(dict.fromkeys((self.snapshots, self.logs)))
        self._pre_alloc_size = pre_alloc_size
        self._trust_empty_snapshot = trust_empty_snapshot
        self._recent_bounds = recent_count, recent_bytes
        self._log: TxnLog | None = None
        self._locks: list[int] = []
        try:
            for directory in self._directories:
                make_directory(directory)
                self._locks.append(lock_directory(directory))
            self._check_places()
        except BaseException:
            self.close()
            raise

    def recover(self) -> Recovered:
        """Read the directories, repair what a crash explains, and open the log for appending."""
        assert self._log is None, "recovered already"
        for directory in self._directories:
            remove_temporaries(directory)
        self._resume_install()
        if self._is_blank():
            self.save_snapshot(DataTree())
        loaded = self._load(self._snapshot_files(), mark=read_mark(self.logs))
        self._make_true(loaded)
        self._log = TxnLog(
            self.logs,
            base_zxid=loaded.snapshot_zxid,
            last_zxid=loaded.last_zxid,
            pre_alloc_size=self._pre_alloc_size,
        )
        return self._recovered(loaded)

    def snapshot_writer(self, zxid: int) -> AtomicFile:
        """Where the chunks of ``encode`` go; to be committed when they are through.

        The log is synced before the file gets its name: a fuzzy snapshot shows effects of transactions up to its
        end, and must never be found with a log that does not reach as far.
        """
        before = None if self._log is None else self._log.sync
        return AtomicFile(self.snapshots / snapshot_name(zxid), before_rename=before)

    def save_snapshot(self, tree: DataTree) -> Path:
        """Write a snapshot in one go."""
        with self.snapshot_writer(tree.last_zxid) as file:
            for chunk in encode(tree):
                file.write(chunk)
            file.commit()
        return file.path

    def receive_snapshot(self, zxid: int) -> AtomicFile:
        """Where the chunks of a snapshot from another server go, for ``install``."""
        return AtomicFile(self.snapshots / f"{INSTALLED_PREFIX}.{zxid:x}")

    def install(self, received: AtomicFile, zxid: int) -> DataTree:
        """Replace the history by a received snapshot, or raise and keep the old one."""
        assert self._log is not None, "recover first"
        received.flush()
        tree = read_snapshot(received.temporary, zxid).tree
        try:
            received.commit()
            self._log.reset(zxid)
            self._finish_install(received.path, zxid)
        except OSError as error:
            self._log.break_off(error)
            raise
        return tree

    def install_snapshot(self, chunks: Iterable[bytes], zxid: int) -> DataTree:
        with self.receive_snapshot(zxid) as received:
            for chunk in chunks:
                received.write(chunk)
            return self.install(received, zxid)

    def truncate_to(self, zxid: int) -> Recovered:
        """Undo everything behind ``zxid``, or raise ``TruncationError``. The old tree is not to be used any more."""
        assert self._log is not None, "recover first"
        files = self._snapshot_files()
        try:
            loaded = self._load([file for file in files if file.zxid <= zxid], mark=None, limit=zxid)
        except CorruptionError as error:
            raise TruncationError(f"cannot truncate to 0x{zxid:x}: {error}") from error
        if loaded.last_zxid != zxid:
            raise TruncationError(f"cannot truncate to 0x{zxid:x}: the log has 0x{loaded.last_zxid:x} before it")
        try:
            remove_in_order(file.path for file in reversed(files) if file.zxid > loaded.snapshot_zxid)
        except OSError as error:
            self._log.break_off(error)
            raise
        self._log.base_zxid = loaded.snapshot_zxid
        left = self._log.truncate_to(zxid)
        assert left == zxid, f"0x{left:x} left of a log truncated to 0x{zxid:x}"
        return self._recovered(loaded)

    def set_accepted_epoch(self, epoch: int) -> None:
        write_epoch(self.snapshots, ACCEPTED_EPOCH, epoch)

    def set_current_epoch(self, epoch: int) -> None:
        write_epoch(self.snapshots, CURRENT_EPOCH, epoch)

    def purge(self, retain: int) -> list[Path]:
        """Delete all but the newest ``retain`` whole snapshots, and the logs that none of those needs."""
        assert retain >= 1, "the last snapshot is never purged"
        files = self._snapshot_files()
        kept: list[Numbered] = []
        for file in reversed(files):
            if len(kept) < retain and is_whole(file.path):
                kept.append(file)
        if not kept:
            return []
        oldest = kept[-1].zxid
        logs = numbered(self.logs, LOG_PREFIX)
        needed = needed_logs(logs, oldest)
        # Snapshots first: one that is left without its logs would be of no use to fall back on.
        doomed = [file.path for file in (*files, *logs) if file.zxid < oldest and file not in needed]
        remove_in_order(doomed)
        return doomed

    def close(self) -> None:
        try:
            if self._log is not None:
                self._log.close()
        finally:
            while self._locks:
                os.close(self._locks.pop())

    def _load(self, files: list[Numbered], *, mark: Mark | None, limit: int | None = None) -> Loaded:
        found = load_snapshot(files, end_zxid_max=limit)
        if found is None:
            if not self._trust_empty_snapshot or limit is not None:
                raise CorruptionError(
                    f"{self.snapshots}: no usable snapshot, but this server has had data. Restore one from a backup; "
                    f"or, if other servers of the ensemble hold the data, empty the data directories. With "
                    f"snapshot.trust.empty=true the log alone is believed"
                )
            logger.warning("%s: no snapshot; the log alone is believed, as snapshot.trust.empty asks", self.snapshots)
            found = 0, Snapshot(DataTree(), 0, 0, 0, DIGEST_VERSION)
        return replay(*found, self.logs, mark, Recent(*self._recent_bounds), limit)

    def _make_true(self, loaded: Loaded) -> None:
        """Carry out the repair, and put on disk what was only in the page cache."""
        repair = loaded.repair
        assert repair is not None
        for file in self._snapshot_files():
            if file.zxid == loaded.snapshot_zxid:
                fsync_file(file.path)
        for path in repair.scanned:
            fsync_file(path)
        for directory in self._directories:
            fsync_directory(directory)
        remove_in_order(repair.delete)
        if repair.cut is not None:
            cut(*repair.cut)

    def _recovered(self, loaded: Loaded) -> Recovered:
        assert self._log is not None
        return Recovered(
            loaded.tree,
            self._log,
            loaded.last_zxid,
            *settle_epochs(self.snapshots, loaded.last_zxid),
            loaded.recent,
            loaded.snapshot_zxid,
            loaded.replayed,
            loaded.digest_mismatches,
        )

    def _is_blank(self) -> bool:
        if self._snapshot_files() or numbered(self.logs, LOG_PREFIX):
            return False
        epochs = [read_epoch(self.snapshots, name) for name in (ACCEPTED_EPOCH, CURRENT_EPOCH)]
        return self._trust_empty_snapshot or not any(epochs)

    def _snapshot_files(self) -> list[Numbered]:
        return numbered(self.snapshots, SNAPSHOT_PREFIX)

    def _resume_install(self) -> None:
        installed = numbered(self.snapshots, INSTALLED_PREFIX)
        assert len(installed) <= 1, f"{self.snapshots}: two snapshots were being installed"
        for file in installed:
            logger.warning("finishing the installation of snapshot 0x%x", file.zxid)
            read_snapshot(file.path, file.zxid)
            remove_in_order(log.path for log in reversed(numbered(self.logs, LOG_PREFIX)))
            self._finish_install(file.path, file.zxid)

    def _finish_install(self, path: Path, zxid: int) -> None:
        remove_in_order(file.path for file in reversed(self._snapshot_files()))
        rename(path, self.snapshots / snapshot_name(zxid))

    def _check_places(self) -> None:
        if self.logs == self.snapshots:
            return
        for directory, prefix, key in (
            (self.logs, SNAPSHOT_PREFIX, "dataDir"),
            (self.snapshots, LOG_PREFIX, "dataLogDir"),
        ):
            if found := numbered(directory, prefix):
                raise ConfigError(f"{found[0].path} lies in the wrong directory; check dataDir and dataLogDir ({key})")
