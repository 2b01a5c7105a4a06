"""From one-time watches to values that are never missed.

A path has at most one read under way. A watch that fires meanwhile marks the path, and one more read follows: however
many changes a storm brings, a path costs one read at a time. A read sets the watch first, so nothing can happen between
the two. A value is told if its zxids differ from those told last; they also tell a node from one created anew with the
same content.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ottla.base.scope import TaskScope
from ottla.registry.changes import Changes
from ottla.registry.errors import StoreClosedError
from ottla.registry.store import ChildrenChanged, DataChanged, Stat, Znode


class Watched(NamedTuple):
    """What is watched of a path."""

    path: str
    of_children: bool


Children = tuple[tuple[str, ...], Stat]
ReadData = Callable[[str], Awaitable[Znode | None]]
ReadChildren = Callable[[str], Awaitable[Children | None]]


class _Path:
    __slots__ = ("marked", "reading", "told")

    def __init__(self) -> None:
        self.reading = False
        self.marked = False
        self.told: object = self  # nothing was told yet, not even that the node is missing


class Watching:
    """The watched paths of one store. ``read_data`` and ``read_children`` set the watch and then read."""

    def __init__(self, scope: TaskScope, changes: Changes, read_data: ReadData, read_children: ReadChildren) -> None:
        self._scope = scope
        self._changes = changes
        self._read_data = read_data
        self._read_children = read_children
        self._paths: dict[Watched, _Path] = {}

    def add(self, watched: Watched) -> None:
        if watched not in self._paths:
            self._paths[watched] = _Path()
            self._refresh(watched)

    def remove(self, path: str) -> None:
        for of_children in (False, True):
            self._paths.pop(Watched(path, of_children), None)
        self._changes.discard(path)

    def on_fired(self, path: str) -> None:
        """A watch on ``path`` fired; which kind does not matter, a read too many does no harm."""
        for of_children in (False, True):
            if Watched(path, of_children) in self._paths:
                self._refresh(Watched(path, of_children))

    def on_connected(self) -> None:
        """The server has forgotten all watches of the connection before."""
        for watched in list(self._paths):
            self._refresh(watched)

    def _refresh(self, watched: Watched) -> None:
        state = self._paths[watched]
        if state.reading:
            state.marked = True
            return
        state.reading = True
        self._scope.spawn(self._read(watched, state), name=f"watch {watched.path}")

    async def _read(self, watched: Watched, state: _Path) -> None:
        try:
            state.marked = True
            while state.marked:
                state.marked = False
                await (self._tell_children if watched.of_children else self._tell_data)(watched, state)
        except StoreClosedError:
            return
        finally:
            state.reading = False

    async def _tell_data(self, watched: Watched, state: _Path) -> None:
        znode = await self._read_data(watched.path)
        seen = None if znode is None else (znode.stat.czxid, znode.stat.mzxid)
        if self._is_news(watched, state, seen):
            self._changes.put(DataChanged(watched.path, znode))

    async def _tell_children(self, watched: Watched, state: _Path) -> None:
        found = await self._read_children(watched.path)
        seen = None if found is None else (found[1].czxid, found[1].pzxid)
        if self._is_news(watched, state, seen):
            self._changes.put(ChildrenChanged(watched.path, None if found is None else found[0]))

    def _is_news(self, watched: Watched, state: _Path, seen: object) -> bool:
        if self._paths.get(watched) is not state or state.told == seen:
            return False
        state.told = seen
        return True
