"""What clients ask for: a few paths that everybody fights over, so that every answer depends on the order."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from ottla.keeper.proto.opcodes import AddWatchMode, CreateMode, OpCode
from ottla.keeper.proto.records import (
    OPEN_ACL_UNSAFE,
    CreateRequest,
    EmptyRequest,
    MultiRequest,
    Op,
    PathRequest,
    PathTypeRequest,
    PathVersionRequest,
    PathWatchRequest,
    Request,
    SetDataRequest,
)

ROOTS = ("/a", "/b", "/c")
NAMES = ("x", "y", "z")
TTL_MS = 400


class Asked(NamedTuple):
    type: int
    request: Request


class Workload:
    """One client's stream of operations."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._count = 0
        self.known: list[str] = []
        """Sequential znodes that were seen, so that some are deleted again."""

    def next(self) -> list[Asked]:
        """One operation, or a few that belong together."""
        kind = self._rng.choices(_KINDS, _WEIGHTS)[0]
        asked: list[Asked] = getattr(self, f"_{kind}")()
        return asked

    def saw(self, parent: str, children: frozenset[str]) -> None:
        self.known = [f"{parent.rstrip('/')}/{name}" for name in sorted(children) if name[-1].isdigit()][-8:]

    def _path(self) -> str:
        rng = self._rng
        if self.known and rng.random() < 0.15:
            return rng.choice(self.known)
        root = rng.choice(ROOTS)
        return root if rng.random() < 0.35 else f"{root}/{rng.choice(NAMES)}"

    def _data(self) -> bytes:
        self._count += 1
        return b"%d" % self._count

    def _version(self) -> int:
        return -1 if self._rng.random() < 0.7 else self._rng.randint(0, 6)

    def _creation(self) -> Asked:
        rng, path = self._rng, self._path()
        mode = rng.choices(_MODES, (5, 3, 2, 2, 1, 1))[0]
        type_, ttl = rng.choice((OpCode.CREATE, OpCode.CREATE2)), -1
        if mode is CreateMode.CONTAINER:
            type_ = OpCode.CREATE_CONTAINER
        elif mode is CreateMode.PERSISTENT_WITH_TTL:
            type_, ttl = OpCode.CREATE_TTL, TTL_MS
        elif mode.is_sequential:
            path = f"{rng.choice(ROOTS)}/s-"
        return Asked(type_, CreateRequest(path, self._data(), OPEN_ACL_UNSAFE, mode, ttl))

    def _update(self) -> Asked:
        return Asked(OpCode.SET_DATA, SetDataRequest(self._path(), self._data(), self._version()))

    def _removal(self) -> Asked:
        return Asked(OpCode.DELETE, PathVersionRequest(self._path(), self._version()))

    def _create(self) -> list[Asked]:
        return [self._creation()]

    def _set(self) -> list[Asked]:
        return [self._update()]

    def _delete(self) -> list[Asked]:
        return [self._removal()]

    def _multi(self) -> list[Asked]:
        ops: list[Asked] = []
        for _ in range(self._rng.randint(1, 4)):
            check = Asked(OpCode.CHECK, PathVersionRequest(self._path(), self._version()))
            ops.append(self._rng.choice((self._creation(), self._update(), self._removal(), check)))
        return [Asked(OpCode.MULTI, MultiRequest([Op(op.type, op.request) for op in ops]))]

    def _read(self) -> list[Asked]:
        type_ = self._rng.choice((OpCode.GET_DATA, OpCode.EXISTS, OpCode.GET_CHILDREN2))
        path = self._rng.choice(ROOTS) if type_ == OpCode.GET_CHILDREN2 else self._path()
        return [Asked(type_, PathWatchRequest(path, self._rng.random() < 0.5))]

    def _sync(self) -> list[Asked]:
        path = self._path()
        return [Asked(OpCode.SYNC, PathRequest(path)), Asked(OpCode.GET_DATA, PathWatchRequest(path, False))]

    def _watch(self) -> list[Asked]:
        mode = self._rng.choice((AddWatchMode.PERSISTENT, AddWatchMode.PERSISTENT_RECURSIVE))
        path = self._rng.choice((*ROOTS, "/")) if mode else self._path()
        return [Asked(OpCode.ADD_WATCH, PathTypeRequest(path, mode))]

    def _ephemerals(self) -> list[Asked]:
        return [Asked(OpCode.GET_EPHEMERALS, PathRequest("/"))]

    def _close(self) -> list[Asked]:
        return [Asked(OpCode.CLOSE_SESSION, EmptyRequest())]


_MODES = (
    CreateMode.PERSISTENT,
    CreateMode.EPHEMERAL,
    CreateMode.PERSISTENT_SEQUENTIAL,
    CreateMode.EPHEMERAL_SEQUENTIAL,
    CreateMode.CONTAINER,
    CreateMode.PERSISTENT_WITH_TTL,
)
_KINDS = ("create", "set", "delete", "multi", "read", "sync", "watch", "ephemerals", "close")
_WEIGHTS = (26, 18, 12, 8, 20, 10, 3, 1, 1)
