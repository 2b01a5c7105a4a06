"""A member's disk: the store, and when to sync it.

Entries are written and synced when the loop has sent what it had to send: a leader's proposals are on their way while
its own disk works. Whatever arrives during a sync is covered by the next, so under load one write and one fsync serve
many transactions.

Syncs run in a thread, so that a slow disk delays writes and nothing else. Where a sync takes less than the switch to a
thread and back is worth, and has done so for a while, it runs on the loop instead; the first slow one ends that. What
is large goes to the thread in any case: a multi of a mebibyte holds the loop while it is prepared and while it is applied,
and between the two the other clients are heard. Only one sync is under way at a time, and reports come in order. A
truncation or an installation makes everything durable itself and then counts up the *generation*, so that no report of
an older one is ever believed.

Snapshots are taken on the loop in slices of a few milliseconds, between which transactions go on; the file is written
by the loop's executor.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from time import perf_counter
from typing import Final

from ottla.base.errors import DiskError, RemoteProtocolError
from ottla.base.scope import TaskScope
from ottla.keeper.config import KeeperConfig
from ottla.keeper.member import Recovered
from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.history import Recent
from ottla.keeper.server.stats import Stats
from ottla.keeper.server.tree import DataTree
from ottla.keeper.store import DataDir, Installation

log = logging.getLogger(__name__)

QUICK_SYNC_S: Final = 0.004
QUICK_SYNCS_MIN: Final = 16
"""So many quick syncs in a row, and the next runs on the loop."""
QUICK_BYTES_MAX: Final = 256 << 10
"""More than this is not synced there."""
_NO_LIMIT: Final = 1 << 62


class StoreDisk:
    """The ``Disk`` of a real keeper."""

    def __init__(
        self,
        store: DataDir,
        config: KeeperConfig,
        loop: asyncio.AbstractEventLoop,
        scope: TaskScope,
        on_appended: Callable[[], None],
        on_synced: Callable[[int], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        self.stats = Stats()
        self._store = store
        self._log = store.log
        self._config = config
        self._loop = loop
        self._scope = scope
        self._on_appended = on_appended
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._generation = 0
        self._queued: list[Entry] = []
        self._unsynced = False
        self._in_thread = False
        self._quick_syncs = 0
        self._requests: SimpleQueue[int | None] = SimpleQueue()
        self._syncer = threading.Thread(target=self._sync_forever, name="keeper-sync", daemon=True)
        self._syncer.start()
        self._since_snapshot = 0
        self._snapshot_after = _threshold(config.snap_count)
        self._bytes_since_snapshot = 0
        self._snapshot_after_bytes = _threshold(config.snap_size_limit_kib * 1024)
        self._file_bytes = 0
        self._file_bytes_max = _or_any(config.txn_log_size_limit_kib * 1024)
        self._snapshotting: asyncio.Task[None] | None = None
        self._installing: tuple[int, Installation] | None = None
        if config.purge_interval_hours > 0:
            scope.spawn(self._purge_forever(), name="purge")

    @property
    def is_quick(self) -> bool:
        """The next sync is expected to take no longer than it takes to switch threads."""
        return self._quick_syncs >= QUICK_SYNCS_MIN

    # What Member asks for.

    def write_accepted_epoch(self, epoch: int) -> None:
        with self._fatal():
            self._store.write_accepted_epoch(epoch)

    def write_current_epoch(self, epoch: int) -> None:
        with self._fatal():
            self._store.write_current_epoch(epoch)

    def append(self, entries: list[Entry]) -> None:
        self._queued += entries
        self._unsynced = True
        self._on_appended()

    def truncate_to(self, zxid: int) -> tuple[int, DataTree]:
        self._write()
        self._generation += 1
        with self._fatal():
            return self._store.truncate_to(zxid)

    @contextmanager
    def _fatal(self) -> Iterator[None]:
        """An error here ends the server, and at once whatever it was about to do with the result."""
        try:
            yield
        except OSError as e:
            raise self._failed(e) from e

    def _failed(self, error: OSError) -> DiskError:
        self._on_failed(error)
        return DiskError(str(error))

    def maybe_snapshot(self, tree: DataTree, applied: int) -> None:
        self._since_snapshot += applied
        due = self._since_snapshot >= self._snapshot_after or self._bytes_since_snapshot >= self._snapshot_after_bytes
        if not due or self._snapshotting is not None:
            return
        self._write()
        self._since_snapshot = self._bytes_since_snapshot = 0
        self._snapshot_after = _threshold(self._config.snap_count)
        self._snapshot_after_bytes = _threshold(self._config.snap_size_limit_kib * 1024)
        self._roll()
        self._snapshotting = self._scope.spawn(self._snapshot(tree), name="snapshot")

    def _roll(self) -> None:
        self._file_bytes = 0
        self._log.roll()

    # Syncing.

    def _write(self) -> int:
        """Hand what was appended to the log; how many bytes that was."""
        if not self._queued:
            return 0
        entries, self._queued = self._queued, []
        try:  # every write comes by here: no generator is made for it
            written = self._log.append(entries)
        except OSError as e:
            raise self._failed(e) from e
        self._bytes_since_snapshot += written
        self._file_bytes += written
        if self._file_bytes > self._file_bytes_max:
            self._roll()
        return written

    def sync(self) -> None:
        """Write what was appended and make it durable, or see to it that this happens; called when a turn is over."""
        if self._in_thread or not self._unsynced:
            return  # the report of a sync under way comes back here
        self._unsynced = False
        try:
            written = self._write()
            if not self.is_quick or written > QUICK_BYTES_MAX:
                self._in_thread = True
                self._requests.put(self._generation)
                return
            started = perf_counter()
            zxid = self._log.sync()
        except DiskError:
            return  # the server stops
        except OSError as e:
            self._on_failed(e)
            return
        self._synced(self._generation, zxid, perf_counter() - started)

    def _sync_forever(self) -> None:
        """Runs in the thread."""
        while (generation := self._requests.get()) is not None:
            started = perf_counter()
            try:
                zxid = self._log.sync()
            except OSError as e:
                self._tell(self._on_failed, e)
                return
            self._tell(self._reported, generation, zxid, perf_counter() - started)

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)

    def _reported(self, generation: int, zxid: int, seconds: float) -> None:
        self._in_thread = False
        self._synced(generation, zxid, seconds)
        self.sync()

    def _synced(self, generation: int, zxid: int, seconds: float) -> None:
        self._quick_syncs = self._quick_syncs + 1 if seconds < QUICK_SYNC_S else 0
        self.stats.fsync_time.add(seconds * 1000)
        if seconds * 1000 > self._config.fsync_warning_ms:
            log.warning("syncing the transaction log took %d ms", seconds * 1000)
        if generation == self._generation:
            self._on_synced(zxid)

    # Snapshots.

    async def _snapshot(self, tree: DataTree) -> None:
        started = self._loop.time()
        try:
            with self._store.begin_snapshot(tree) as writing:
                for chunk in writing.chunks:
                    await self._loop.run_in_executor(None, writing.write, chunk)
                await self._loop.run_in_executor(None, writing.commit)
        except OSError as e:
            self.stats.snapshot_errors += 1
            log.error("no snapshot could be written: %s", e)  # noqa: TRY400
            return
        finally:
            self._snapshotting = None
        self.stats.snapshot_time.add((self._loop.time() - started) * 1000)
        log.info("snapshot in %.3f s", self._loop.time() - started)

    async def _purge_forever(self) -> None:
        while True:
            try:
                await self._loop.run_in_executor(None, self._store.purge, self._config.snap_retain_count)
            except OSError as e:
                log.error("old snapshots and logs could not be purged: %s", e)  # noqa: TRY400
            await asyncio.sleep(self._config.purge_interval_hours * 3600)

    # A snapshot from the leader.

    def begin_install(self, link: int, zxid: int) -> None:
        with self._fatal():
            self.abort_install()
            self._installing = link, self._store.begin_install(zxid)

    def write_install(self, link: int, data: bytes) -> None:
        with self._fatal():
            self._installation(link).write(data)

    def finish_install(self, link: int) -> tuple[int, DataTree]:
        installation = self._installation(link)
        self._installing = None
        self._write()
        self._generation += 1
        with self._fatal():
            return installation.commit()

    def abort_install(self) -> None:
        if self._installing is not None:
            self._installing[1].abort()
            self._installing = None

    def _installation(self, link: int) -> Installation:
        if self._installing is None or self._installing[0] != link:
            raise RemoteProtocolError("a piece of a snapshot that was never begun")
        return self._installing[1]

    async def close(self) -> None:
        self.abort_install()
        with suppress(DiskError):
            self._write()
        self._requests.put(None)
        await self._loop.run_in_executor(None, self._syncer.join)
        self._store.close()


def _threshold(limit: int) -> int:
    """Between half and all of it, so that the servers of an ensemble do not stop to write together."""
    half = _or_any(limit) // 2
    return half + random.randint(0, half)


def _or_any(limit: int) -> int:
    """A limit of nothing is none."""
    return limit if limit > 0 else _NO_LIMIT


def open_disk(
    config: KeeperConfig,
    loop: asyncio.AbstractEventLoop,
    scope: TaskScope,
    on_appended: Callable[[], None],
    on_synced: Callable[[int], None],
    on_failed: Callable[[BaseException], None],
) -> tuple[StoreDisk, Recovered]:
    """Recover what is on disk, and keep it open."""
    store = DataDir(
        config.data_dir,
        config.data_log_dir,
        pre_alloc_size=config.pre_alloc_kib,
        trust_empty_snapshot=config.trust_empty_snapshot,
        recent_count=config.commit_log_count,
    )
    try:
        found = store.recover()
    except BaseException:
        store.close()
        raise
    log.info(
        "recovered up to 0x%x: snapshot 0x%x, %d transactions", found.last_zxid, found.snapshot_zxid, found.replayed
    )
    recent = Recent(found.recent_base, count_max=config.commit_log_count)
    recent.append(found.recent)
    recent.applied_zxid = found.last_zxid
    disk = StoreDisk(store, config, loop, scope, on_appended, on_synced, on_failed)
    return disk, Recovered(found.tree, recent, found.accepted_epoch, found.current_epoch)
