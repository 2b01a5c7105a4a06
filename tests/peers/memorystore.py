"""The registry's seam without an ensemble: a tree in memory, for tests of what is built on it.

It is held to ZooKeeper by running the tests of the registry over it too. Every write copies the tree's dictionary, so a
multi that fails halfway simply forgets its copy; that is slow, and trees in tests are small.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from ottla.base.scope import TaskScope
from ottla.registry.changes import Changes
from ottla.registry.errors import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError, RegistryError
from ottla.registry.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Event,
    Operation,
    Result,
    SessionChanged,
    SessionState,
    SetData,
    Stat,
    Znode,
)
from ottla.registry.watching import Children, Watched, Watching


class _Node(NamedTuple):
    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    version: int = 0
    owner: int = 0
    ctime_ms: int = 0
    created: int = 0  # children, ever: the next number of a sequential one

    @property
    def stat(self) -> Stat:
        return Stat(self.czxid, self.mzxid, self.pzxid, self.version, self.owner, self.ctime_ms)


class MemoryEnsemble:
    """The tree, and who watches it."""

    def __init__(self) -> None:
        self.nodes = {"/": _Node(b"", 0, 0, 0)}
        self.stores: dict[MemoryStore, None] = {}  # in the order they came, for histories that can be repeated
        self._zxid = 0
        self._sessions = 0

    def new_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def end_session(self, session_id: int) -> None:
        self.write([Delete(path) for path, node in self.nodes.items() if node.owner == session_id], 0)

    def children(self, path: str) -> tuple[str, ...]:
        prefix = path.rstrip("/") + "/"
        below = (other.removeprefix(prefix) for other in self.nodes if other.startswith(prefix))
        return tuple(sorted(name for name in below if name and "/" not in name))

    def write(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        self._zxid += 1
        before, touched, results = dict(self.nodes), set[str](), list[Result]()
        for at, operation in enumerate(operations):
            try:
                results.append(self._apply(operation, session_id, touched))
            except RegistryError as error:
                self.nodes = before
                error.operation = at
                raise
        for store in tuple(self.stores):
            store.fire(sorted(touched))
        return results

    def _apply(self, operation: Operation, session_id: int, touched: set[str]) -> Result:
        if isinstance(operation, Create):
            return self._create(operation, session_id, touched)
        node = self.nodes.get(operation.path)
        if node is None:
            raise NoNodeError(operation.path)
        if operation.version not in {ANY_VERSION, node.version}:
            raise BadVersionError(operation.path)
        if isinstance(operation, Check):
            return None
        touched.add(operation.path)
        if isinstance(operation, SetData):
            changed = node._replace(data=operation.data, mzxid=self._zxid, version=node.version + 1)
            self.nodes[operation.path] = changed
            return changed.stat
        if self.children(operation.path):
            raise NotEmptyError(operation.path)
        del self.nodes[operation.path]
        self._touch_parent(operation.path, touched, created=0)
        return None

    def _create(self, operation: Create, session_id: int, touched: set[str]) -> str:
        parent = self.nodes.get(_parent(operation.path))
        if parent is None:
            raise NoNodeError(operation.path)
        path = f"{operation.path}{parent.created:010d}" if operation.sequential else operation.path
        if path in self.nodes:
            raise NodeExistsError(path)
        owner = session_id if operation.ephemeral else 0
        now_ms = int(time.time() * 1000)
        self.nodes[path] = _Node(operation.data, self._zxid, self._zxid, self._zxid, owner=owner, ctime_ms=now_ms)
        touched.add(path)
        self._touch_parent(path, touched, created=1)
        return path

    def _touch_parent(self, path: str, touched: set[str], *, created: int) -> None:
        parent = _parent(path)
        node = self.nodes[parent]
        self.nodes[parent] = node._replace(pzxid=self._zxid, created=node.created + created)
        touched.add(parent)


class MemoryStore:
    """One session with a MemoryEnsemble."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        self._ensemble = ensemble
        self._scope = TaskScope("memory")
        self._changes = Changes()
        self._watching = Watching(self._scope, self._changes, self.get, self._read_children)
        self._session_id = ensemble.new_session()

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._ensemble.stores[self] = None
        self._changes.put(SessionChanged(SessionState.CONNECTED, self._session_id))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ensemble.stores.pop(self, None)
        self._ensemble.end_session(self._session_id)
        await self._scope.__aexit__(kind, error, trace)

    def expire(self) -> None:
        """End the session and begin the next one."""
        self._changes.put(SessionChanged(SessionState.EXPIRED, self._session_id))
        self._ensemble.end_session(self._session_id)
        self._session_id = self._ensemble.new_session()
        self._changes.put(SessionChanged(SessionState.CONNECTED, self._session_id))

    def fire(self, touched: Iterable[str]) -> None:
        for path in touched:
            self._watching.on_fired(path)

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def connected(self) -> bool:
        return True

    async def get(self, path: str) -> Znode | None:
        return (await self.get_many([path]))[0]

    async def children(self, path: str) -> tuple[str, ...] | None:
        return (await self.children_many([path]))[0]

    async def get_many(self, paths: Sequence[str]) -> list[Znode | None]:
        await asyncio.sleep(0)
        found = map(self._ensemble.nodes.get, paths)
        return [None if node is None else Znode(node.data, node.stat) for node in found]

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        await asyncio.sleep(0)
        return [self._ensemble.children(path) if path in self._ensemble.nodes else None for path in paths]

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        return str((await self.multi([Create(path, data, ephemeral, sequential)]))[0])

    async def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> Stat:
        (stat,) = await self.multi([SetData(path, data, version)])
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        await asyncio.sleep(0)
        return self._ensemble.write(operations, self._session_id)

    async def multi_many(self, batches: Iterable[Sequence[Operation]]) -> list[list[Result] | RegistryError]:
        outcomes: list[list[Result] | RegistryError] = []
        for operations in batches:
            try:
                outcomes.append(await self.multi(operations))
            except RegistryError as error:
                outcomes.append(error)
        return outcomes

    def watch_data(self, path: str) -> None:
        self._watching.add(Watched(path, of_children=False))

    def watch_children(self, path: str) -> None:
        self._watching.add(Watched(path, of_children=True))

    def unwatch(self, path: str) -> None:
        self._watching.remove(path)

    def events(self) -> AsyncIterator[Event]:
        return self._changes

    async def _read_children(self, path: str) -> Children | None:
        await asyncio.sleep(0)
        node = self._ensemble.nodes.get(path)
        return None if node is None else (self._ensemble.children(path), node.stat)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
