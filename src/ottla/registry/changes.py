"""The stream of events between the store and whoever watches.

It holds at most one event a watched path and one a state of the session: a newer one takes the place of an older one
that nobody took, at the end of the line. So a slow consumer cannot make it grow, and sees the latest of everything.
"""

from __future__ import annotations

import asyncio

from ottla.registry.store import ChildrenChanged, DataChanged, Event, SessionChanged


class Changes:
    """One producer, one consumer, one loop."""

    __slots__ = ("_pending", "_waiter")

    def __init__(self) -> None:
        self._pending: dict[object, Event] = {}
        self._waiter: asyncio.Future[None] | None = None

    def put(self, event: Event) -> None:
        key = _key(event)
        self._pending.pop(key, None)
        self._pending[key] = event
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def discard(self, path: str) -> None:
        """Forget what was not taken yet of a path that is watched no more."""
        self._pending.pop((DataChanged, path), None)
        self._pending.pop((ChildrenChanged, path), None)

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> Event:
        while not self._pending:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._pending.pop(next(iter(self._pending)))


def _key(event: Event) -> object:
    match event:
        case SessionChanged(state):
            return state
        case DataChanged(path) | ChildrenChanged(path):
            return type(event), path
