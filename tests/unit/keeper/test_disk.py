"""When a sync may hold the loop: if syncs have been quick, and if there is little to sync."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from ottla.base.scope import TaskScope
from ottla.keeper.config import KeeperConfig
from ottla.keeper.disk import QUICK_BYTES_MAX, QUICK_SYNCS_MIN, StoreDisk, open_disk
from tests.unit.keeper.store.histories import History

Story = Callable[[StoreDisk, list[int]], Awaitable[None]]


def run(tmp_path: Path, story: Story) -> None:
    """``story`` with a disk, and the list of what it reported."""

    async def tell() -> None:
        config = KeeperConfig.from_properties({"dataDir": str(tmp_path), "clientPort": "0"})
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
