from __future__ import annotations

import asyncio

from ottla.registry import ChildrenChanged, DataChanged, SessionChanged, SessionState
from ottla.registry.changes import Changes
from ottla.registry.store import Event, Stat, Znode
from tests.peers.memorystore import MemoryEnsemble, MemoryStore

ZNODE = Znode(b"", Stat(1, 1, 1, 0, 0, 0))


def taken(changes: Changes, count: int) -> list[Event]:
    async def take() -> list[Event]:
        return [await anext(changes) for _ in range(count)]

    return asyncio.run(take())


def test_a_newer_event_takes_the_place_of_one_that_nobody_took() -> None:
    changes = Changes()
    for event in (
        DataChanged("/a", None),
        SessionChanged(SessionState.SUSPENDED, 1),
        SessionChanged(SessionState.EXPIRED, 1),
        ChildrenChanged("/a", ()),
        DataChanged("/a", ZNODE),
        SessionChanged(SessionState.CONNECTED, 2),
        DataChanged("/b", None),
    ):
        changes.put(event)
    changes.discard("/b")
    assert taken(changes, 5) == [
        SessionChanged(SessionState.SUSPENDED, 1),
        SessionChanged(SessionState.EXPIRED, 1),
        ChildrenChanged("/a", ()),
        DataChanged("/a", ZNODE),
        SessionChanged(SessionState.CONNECTED, 2),
    ]


def test_a_storm_costs_one_read_at_a_time() -> None:
    async def story() -> int:
        reads = 0
        async with MemoryStore(MemoryEnsemble()) as store:
            read = store._watching._read_data

            async def counted(path: str) -> Znode | None:
                nonlocal reads
                reads += 1
                for _ in range(100):  # as long as many changes take, on a slow machine, too
                    await asyncio.sleep(0)
                return await read(path)

            store._watching._read_data = counted
            store.watch_data("/a")
            await store.create("/a")
            for number in range(1000):
                await store.set("/a", b"%d" % number)
            async for event in store.events():
                if isinstance(event, DataChanged) and event.znode is not None and event.znode.data == b"999":
                    return reads
        raise AssertionError

    assert asyncio.run(story()) < 100
