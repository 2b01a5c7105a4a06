"""The seam: a tree of znodes, as much of it as a Kafka cluster needs, in asyncio.

Reads wait until there is a connection and are repeated when it breaks. Writes are sent once: a ConnectionLossError
leaves open whether they were done, and only whoever knows what the write meant can find out.

A watched path is a promise: ``events`` tells its value now and every later one, where values that were overtaken before
anybody looked may be left out. That holds over lost connections and new sessions too, since ZooKeeper's one-time watches
are set again *before* the value is read again, and a value that differs is told. ``SessionChanged`` comes in the same
stream, so that "expired" is seen before anything the next session reads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from ottla.registry.errors import RegistryError

ANY_VERSION = -1


class Stat(NamedTuple):
    """The part of a znode's bookkeeping that somebody here asks for."""

    czxid: int
    mzxid: int
    pzxid: int
    version: int
    ephemeral_owner: int
    ctime_ms: int


class Znode(NamedTuple):
    data: bytes
    stat: Stat


class Create(NamedTuple):
    """An operation of a multi; its result is the path, with the number of a sequential node."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """An operation of a multi; its result is the new Stat."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fails the multi unless the node has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
Result = str | Stat | None


class SessionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


class SessionChanged(NamedTuple):
    """CONNECTED with another ``session_id`` than before is a new session: every ephemeral node of the old one is gone."""

    state: SessionState
    session_id: int


class DataChanged(NamedTuple):
    """What a watched node holds now; None if there is none."""

    path: str
    znode: Znode | None


class ChildrenChanged(NamedTuple):
    """The names below a watched node now, sorted; None if there is no such node."""

    path: str
    children: tuple[str, ...] | None


Event = SessionChanged | DataChanged | ChildrenChanged


class ZnodeStore(Protocol):
    """See the module."""

    @property
    def session_id(self) -> int: ...
    @property
    def connected(self) -> bool: ...

    async def get(self, path: str) -> Znode | None: ...
    async def children(self, path: str) -> tuple[str, ...] | None: ...
    async def get_many(self, paths: Sequence[str]) -> list[Znode | None]:
        """As many reads at once, without a round trip each."""
        ...

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]: ...

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """The path of the new node, with its number if it is sequential."""
        ...

    async def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> Stat: ...
    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None: ...
    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """All of them or none. The error says which one failed."""
        ...

    async def multi_many(self, batches: Iterable[Sequence[Operation]]) -> list[list[Result] | RegistryError]:
        """Several multis at once, each on its own; the error of one is its result."""
        ...

    def watch_data(self, path: str) -> None: ...
    def watch_children(self, path: str) -> None: ...
    def unwatch(self, path: str) -> None: ...
    def events(self) -> AsyncIterator[Event]: ...
