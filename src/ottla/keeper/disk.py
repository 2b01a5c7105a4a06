"""A member's disk: the store, with a thread that makes appended entries durable.

The loop writes entries into the page cache at once; the thread syncs. While it does, more entries arrive, and its next
sync covers all of them: under load, one fsync serves as many transactions as arrived during the one before. Reports go
back to the loop in order. A truncation or an installation makes everything durable itself and then counts up the
*generation*, so that no report of an older one is ever believed.

Snapshots are taken on the loop in slices of a few milliseconds, between which transactions go on; the file is written
by the loop's executor.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from time import perf_counter

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


class StoreDisk:
    """The ``Disk`` of a real keeper."""

    def __init__(
        self,
        store: DataDir,
        config: KeeperConfig,
        loop: asyncio.AbstractEventLoop,
        scope: TaskScope,
        on_synced: Callable[[int], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        self.stats = Stats()
        self._store = store
        self._log = store.log
        self._config = config
        self._loop = loop
        self._scope = scope
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._generation = 0
        self._wanted: SimpleQueue[int | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._sync_forever, name="keeper-sync", daemon=True)
        self._thread.start()
        self._since_snapshot = 0
        self._snapshot_after = self._next_threshold()
        self._snapshotting: asyncio.Task[None] | None = None
        self._installing: tuple[int, Installation] | None = None
        if config.purge_interval_hours > 0:
            scope.spawn(self._purge_forever(), name="purge")

    # What Member asks for.

    def write_accepted_epoch(self, epoch: int) -> None:
        with self._fatal():
            self._store.write_accepted_epoch(epoch)

    def write_current_epoch(self, epoch: int) -> None:
        with self._fatal():
            self._store.write_current_epoch(epoch)

    def append(self, entries: list[Entry]) -> None:
        with self._fatal():
            self._log.append(entries)
        self._wanted.put(self._generation)

    def truncate_to(self, zxid: int) -> tuple[int, DataTree]:
        self._generation += 1
        with self._fatal():
            return self._store.truncate_to(zxid)

    @contextmanager
    def _fatal(self) -> Iterator[None]:
        """An error here ends the server, and at once whatever it was about to do with the result."""
        try:
            yield
        except OSError as e:
            self._on_failed(e)
            raise DiskError(str(e)) from e

    def maybe_snapshot(self, tree: DataTree, applied: int) -> None:
        self._since_snapshot += applied
        if self._since_snapshot < self._snapshot_after or self._snapshotting is not None:
            return
        self._since_snapshot = 0
        self._snapshot_after = self._next_threshold()
        self._log.roll()
        self._snapshotting = self._scope.spawn(self._snapshot(tree), name="snapshot")

    def _next_threshold(self) -> int:
        """Between half and all of snapCount, so that the servers of an ensemble do not stop to write together."""
        half = self._config.snap_count // 2
        return half + random.randint(0, half)

    # Syncing.

    def _sync_forever(self) -> None:
        """Runs in the thread. Whatever was appended before a sync starts is covered by it."""
        while True:
            generation = self._wanted.get()
            while not self._wanted.empty() and generation is not None:
                generation = self._wanted.get()
            if generation is None:
                return
            started = perf_counter()
            try:
                zxid = self._log.sync()
            except OSError as e:
                self._tell(self._on_failed, e)
                return
            self._tell(self._report, generation, zxid, perf_counter() - started)

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)

    def _report(self, generation: int, zxid: int, seconds: float) -> None:
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
            await self._loop.run_in_executor(None, self._store.purge, self._config.snap_retain_count)
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
        self._wanted.put(None)
        await self._loop.run_in_executor(None, self._thread.join)
        self._store.close()


def open_disk(
    config: KeeperConfig,
    loop: asyncio.AbstractEventLoop,
    scope: TaskScope,
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
    disk = StoreDisk(store, config, loop, scope, on_synced, on_failed)
    return disk, Recovered(found.tree, recent, found.accepted_epoch, found.current_epoch)
