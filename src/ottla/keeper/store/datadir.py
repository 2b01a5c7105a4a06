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
    3. lower the sync mark, delete the logs, newest first, then the snapshots, newest first
    4. rename it to ``snapshot.<hex zxid>``, sync the directory

Recovery throws away a file of step 1 and carries on from step 3 where it finds one of step 2, so nothing is ever
replayed across the seam. Newest first, because what a ZooKeeper would find in between is then a prefix of the old
history and no mixture.

Shortening the history
----------------------
``truncate_to`` first builds the tree it is to end with, in memory, from a snapshot that shows nothing behind the zxid.
Only if that works are newer snapshots deleted, then the log behind the zxid, newest file first; at every point in
between, what is on disk is a prefix of the old history.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from ottla.base.errors import ConfigError, CorruptionError
from ottla.keeper.proto.txns import Entry
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
from ottla.keeper.store.recovery import Loaded, load_snapshot, needed_logs, read_snapshot, replay
from ottla.keeper.store.snapshot import SNAPSHOT_PREFIX, Snapshot, encode, is_whole, snapshot_name
from ottla.keeper.store.synced import Mark, lower_mark, read_mark
from ottla.keeper.store.txnlog import PRE_ALLOC_SIZE_KIB, TxnLog
from ottla.keeper.store.writing import Installation, SnapshotWriting

logger = logging.getLogger(__name__)

VERSION_DIRECTORY = "version-2"
INSTALLED_PREFIX = "installed"
RECENT_COUNT = 500
RECENT_BYTES = 16 << 20


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
    recent_base: int
    """The zxid in front of the first of them; part of the history, too."""
    snapshot_zxid: int
    replayed: int
    """How many transactions lie behind the snapshot."""
    digest_mismatches: int


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
        self.snapshots = data_dir.resolve() / VERSION_DIRECTORY
        self.logs = (data_log_dir or data_dir).resolve() / VERSION_DIRECTORY
        self._directories = tuple(dict.fromkeys((self.snapshots, self.logs)))
        self._pre_alloc_size = pre_alloc_size
        self._trust_empty_snapshot = trust_empty_snapshot
        self._recent_count = recent_count
        self._recent_bytes = recent_bytes
        self._log: TxnLog | None = None
        self._generation = 0  # how often the history was replaced or shortened
        self._change = Lock()  # held by whoever adds or removes a snapshot
        self._locks: list[int] = []
        try:
            for directory in self._directories:
                self._make(directory)
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
        loaded = self._replay(self._start(), mark=read_mark(self.logs))
        self._make_true(loaded)
        accepted, current = settle_epochs(self.snapshots, loaded.last_zxid)
        self._log = TxnLog(
            self.logs,
            base_zxid=loaded.snapshot_zxid,
            last_zxid=loaded.last_zxid,
            pre_alloc_size=self._pre_alloc_size,
        )
        return Recovered(
            loaded.tree,
            self._log,
            loaded.last_zxid,
            accepted,
            current,
            loaded.recent,
            loaded.recent_base,
            loaded.snapshot_zxid,
            loaded.replayed,
            loaded.digest_mismatches,
        )

    @property
    def log(self) -> TxnLog:
        assert self._log is not None, "recover first"
        return self._log

    def begin_snapshot(self, tree: DataTree) -> SnapshotWriting:
        """A snapshot at the last zxid of ``tree``, which may go on changing between its chunks."""
        file = AtomicFile(self.snapshots / snapshot_name(tree.last_zxid))
        return SnapshotWriting(file, encode(tree), partial(self._publish, self._generation))

    def save_snapshot(self, tree: DataTree) -> int:
        """Write a snapshot in one go; its zxid."""
        zxid = tree.last_zxid
        with self.begin_snapshot(tree) as writing:
            for chunk in writing.chunks:
                writing.write(chunk)
            writing.commit()
        return zxid

    def begin_install(self, zxid: int) -> Installation:
        """A snapshot from another server, to replace the history."""
        return Installation(AtomicFile(self.snapshots / f"{INSTALLED_PREFIX}.{zxid:x}"), zxid, self._install)

    def install_snapshot(self, chunks: Iterable[bytes], zxid: int) -> DataTree:
        """Replace the history by a snapshot in one go."""
        with self.begin_install(zxid) as installation:
            for chunk in chunks:
                installation.write(chunk)
            return installation.commit()[1]

    def truncate_to(self, zxid: int) -> tuple[int, DataTree]:
        """Undo everything behind ``zxid``; where the history ends now, and the tree as of there.

        It ends earlier where the history has no such zxid, and stays as it is where no snapshot is old enough.
        """
        with self._change:
            self._generation += 1
            files = self._snapshot_files()
            found = load_snapshot([file for file in files if file.zxid <= zxid], end_zxid_max=zxid)
            if found is None:
                loaded = self._replay(self._start(), mark=None)
                return loaded.last_zxid, loaded.tree
            loaded = self._replay(found, mark=None, limit=zxid)
            with self._breaking():
                remove_in_order(file.path for file in reversed(files) if file.zxid > loaded.snapshot_zxid)
                self.log.base_zxid = loaded.snapshot_zxid
                left = self.log.truncate_to(loaded.last_zxid)
            assert left == loaded.last_zxid, f"0x{left:x} left of a log truncated to 0x{loaded.last_zxid:x}"
            return left, loaded.tree

    def write_accepted_epoch(self, epoch: int) -> None:
        write_epoch(self.snapshots, ACCEPTED_EPOCH, epoch)

    def write_current_epoch(self, epoch: int) -> None:
        write_epoch(self.snapshots, CURRENT_EPOCH, epoch)

    def purge(self, retain: int) -> list[Path]:
        """Delete all but the newest ``retain`` whole snapshots, and the logs that none of those needs."""
        assert retain >= 1, "the last snapshot is never purged"
        generation = self._generation
        whole = (file for file in reversed(self._snapshot_files()) if is_whole(file.path))
        kept = list(islice(whole, retain))
        with self._change:
            if not kept or generation != self._generation:
                return []
            oldest = kept[-1].zxid
            logs = numbered(self.logs, LOG_PREFIX)
            needed = needed_logs(logs, oldest)
            # Snapshots first: one that is left without its logs would be of no use to fall back on.
            doomed = [f.path for f in (*self._snapshot_files(), *logs) if f.zxid < oldest and f not in needed]
            remove_in_order(doomed)
            return doomed

    def close(self) -> None:
        try:
            if self._log is not None:
                self._log.close()
        finally:
            while self._locks:
                os.close(self._locks.pop())

    def _publish(self, generation: int, file: AtomicFile) -> bool:
        # A fuzzy snapshot shows effects of transactions up to its end; never may a crash leave it with a log that
        # does not reach as far.
        if self._log is not None:
            self._log.sync()
        with self._change:
            if generation == self._generation:
                file.commit()
            return generation == self._generation

    def _install(self, received: AtomicFile, zxid: int) -> None:
        """Steps 2 to 4 of replacing the history."""
        with self._change, self._breaking():
            self._generation += 1
            received.commit()
            self.log.reset(zxid)
            self._finish_install(received.path, zxid)

    def _start(self) -> tuple[int, Snapshot]:
        """The snapshot to start from; a blank server gets one."""
        found = load_snapshot(self._snapshot_files())
        if found is None:
            if self._trust_empty_snapshot:
                logger.warning("%s: no usable snapshot; snapshot.trust.empty says to do without", self.snapshots)
            elif not self._is_blank():
                raise CorruptionError(
                    f"{self.snapshots}: no usable snapshot, but this server has had data. Restore one from a backup; "
                    f"or, if other servers of the ensemble hold the data, empty the data directories. With "
                    f"snapshot.trust.empty=true the log alone is believed"
                )
            self.save_snapshot(DataTree())
            found = 0, read_snapshot(self.snapshots / snapshot_name(0), 0)
        return found

    def _replay(self, found: tuple[int, Snapshot], *, mark: Mark | None, limit: int | None = None) -> Loaded:
        return replay(
            *found,
            self.logs,
            mark=mark,
            recent_count=self._recent_count,
            recent_bytes=self._recent_bytes,
            limit=limit,
        )

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
        lower_mark(self.logs, *repair.end)
        for path in repair.delete:
            logger.warning("%s: deleting it, since nothing in it continues 0x%x", path, loaded.last_zxid)
        remove_in_order(repair.delete)
        if repair.cut is not None:
            if repair.damage is not None:
                logger.warning(
                    "%s: offset %d: cutting off what follows 0x%x: %s", *repair.cut, loaded.last_zxid, repair.damage
                )
            cut(*repair.cut)

    def _make(self, directory: Path) -> None:
        try:
            make_directory(directory)
        except OSError as error:
            key = "dataDir" if directory == self.snapshots else "dataLogDir"
            why = error.strerror or error
            raise ConfigError(f"{key}={directory.parent}: {directory} cannot be made: {why}") from error

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Steps after whose failure the log does not know what it continues."""
        try:
            yield
        except OSError as error:
            self.log.break_off(error)
            raise

    def _is_blank(self) -> bool:
        if self._snapshot_files() or numbered(self.logs, LOG_PREFIX):
            return False
        return not any(read_epoch(self.snapshots, name) for name in (ACCEPTED_EPOCH, CURRENT_EPOCH))

    def _snapshot_files(self) -> list[Numbered]:
        return numbered(self.snapshots, SNAPSHOT_PREFIX)

    def _resume_install(self) -> None:
        installed = numbered(self.snapshots, INSTALLED_PREFIX)
        if len(installed) > 1:
            raise CorruptionError(f"{self.snapshots}: two snapshots were being installed at once; which one is unknown")
        for file in installed:
            logger.warning("finishing the installation of snapshot 0x%x", file.zxid)
            read_snapshot(file.path, file.zxid)
            lower_mark(self.logs, 0, 0)
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
