"""When a sync may hold the loop, when files and snapshots begin, and what a disk may fail at."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import pytest

from ottla.base.scope import TaskScope
from ottla.keeper.config import KeeperConfig
from ottla.keeper.disk import QUICK_BYTES_MAX, QUICK_SYNCS_MIN, StoreDisk, open_disk
from ottla.keeper.store import DataDir
from tests.unit.keeper.store.histories import History

Story = Callable[[StoreDisk, list[int]], Awaitable[None]]


def run(tmp_path: Path, story: Story, **settings: str) -> None:
    """``story`` with a disk, and the list of what it reported."""

    async def tell() -> None:
        config = KeeperConfig.from_properties({"dataDir": str(tmp_path), "clientPort": "0", **settings})
        synced: list[int] = []
        failed: list[BaseException] = []
        async with TaskScope("test") as scope:
            loop = asyncio.get_running_loop()
            disk, _ = open_disk(config, loop, scope, lambda: None, synced.append, failed.append)
            await story(disk, synced)
            await disk.close()
        assert not failed

    asyncio.run(tell())


async def reported(synced: list[int], zxid: int) -> None:
    while zxid not in synced:  # noqa: ASYNC110  the list is the disk's, which knows no events
        await asyncio.sleep(0.001)


def test_a_sync_is_left_to_the_thread_until_syncs_have_been_quick(tmp_path: Path) -> None:
    async def story(disk: StoreDisk, synced: list[int]) -> None:
        entry = History().set("/", b"x")
        disk.append([entry])
        disk.sync()
        assert synced == []
        await reported(synced, entry[0])

    run(tmp_path, story)


def test_a_small_sync_that_will_be_quick_is_done_at_once(tmp_path: Path) -> None:
    async def story(disk: StoreDisk, synced: list[int]) -> None:
        entry = History().set("/", b"x")
        disk._quick_syncs = QUICK_SYNCS_MIN
        disk.append([entry])
        disk.sync()
        assert synced == [entry[0]]

    run(tmp_path, story)


def test_others_are_heard_between_the_preparation_of_a_large_transaction_and_its_end(tmp_path: Path) -> None:
    async def story(disk: StoreDisk, synced: list[int]) -> None:
        entry = History().set("/", b"x" * QUICK_BYTES_MAX)
        disk._quick_syncs = QUICK_SYNCS_MIN
        disk.append([entry])
        disk.sync()
        assert synced == []
        await reported(synced, entry[0])

    run(tmp_path, story)


def files(tmp_path: Path, kind: str) -> list[str]:
    return sorted(file.name for file in (tmp_path / "version-2").glob(f"{kind}.*"))


def test_a_file_of_the_log_that_is_large_enough_is_followed_by_another(tmp_path: Path) -> None:
    async def story(disk: StoreDisk, _synced: list[int]) -> None:
        history = History()
        for _ in range(4):
            disk.append([history.set("/", b"x" * 700)])
            disk.sync()
            await asyncio.sleep(0)
            disk._write()

    run(tmp_path, story, txnLogSizeLimitInKb="1")
    assert files(tmp_path, "log") == ["log.1", "log.3"]


def test_many_bytes_of_transactions_make_a_snapshot_as_many_transactions_do(tmp_path: Path) -> None:
    async def story(disk: StoreDisk, synced: list[int]) -> None:
        history = History()
        entry = history.set("/", b"x" * 2000)
        disk.append([entry])
        disk.sync()
        await reported(synced, entry[0])
        disk.maybe_snapshot(history.tree, 1)
        assert disk._snapshotting is not None
        await disk._snapshotting

    run(tmp_path, story, snapSizeLimitInKb="1")
    assert files(tmp_path, "snapshot") == ["snapshot.0", "snapshot.1"]


def test_a_purge_that_fails_is_told_of_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_store: DataDir, _retain: int) -> NoReturn:
        raise OSError(errno.EACCES, "not ours to delete")

    async def story(_disk: StoreDisk, _synced: list[int]) -> None:
        while "could not be purged" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    monkeypatch.setattr(DataDir, "purge", broken)
    run(tmp_path, story, **{"autopurge.purgeInterval": "1"})
    assert "not ours to delete" in caplog.text
