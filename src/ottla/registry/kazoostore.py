"""The store over kazoo, whose client runs threads of its own.

    loop                                   kazoo's threads
    ────                                   ───────────────
    get_async, commit_async   ──queue──►   connection: sends without waiting for answers, reads answers in order
    _Bridge.drain             ◄──post───   completions, watch callbacks, the session's state

Nothing of kazoo's runs on the loop, and nothing of ours in its threads but ``_Bridge.post``, which leaves a call in a
deque and wakes the loop once for all that has gathered. A request costs both sides a
turn of the interpreter's lock, some 0.5 ms: many reads therefore travel as one (see multiread), and many writes in slices
of ``in_flight_max``, since kazoo wakes its thread through a socket pair, which blocks the loop once it is full.

kazoo forgets its watches when a connection breaks, and so does the server; all are set again on every connection.
kazoo is imported when a store is opened, so a command line that only prints its help does not pay for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, cast

from ottla.base.recent import Recent
from ottla.base.scope import TaskScope
from ottla.registry.changes import Changes
from ottla.registry.errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RefusedError,
    RegistryError,
    SessionExpiredError,
    StoreClosedError,
)
from ottla.registry.multiread import GET_CHILDREN, GET_DATA, Answer, MultiRead
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

Issue = Callable[[], Any]

IN_FLIGHT_MAX: Final = 100
READS_MAX: Final = 500
_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
_ERRORS: Final[dict[str, type[RegistryError]]] = {
    "NoNodeError": NoNodeError,
    "NodeExistsError": NodeExistsError,
    "NotEmptyError": NotEmptyError,
    "BadVersionError": BadVersionError,
    "ConnectionLoss": ConnectionLossError,
    "ConnectionClosedError": StoreClosedError,
    "OperationTimeoutError": ConnectionLossError,
    "SessionExpiredError": SessionExpiredError,
}
_NOT_DONE: Final = frozenset({"RolledBackError", "RuntimeInconsistency"})
"""How the operations of a failed multi answer that are not to blame."""

logger: Final = logging.getLogger(__name__)


class KazooStore:
    """A session with the ensemble at ``connect``, Kafka's ``zookeeper.connect``: hosts, and perhaps a chroot."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int = 18_000,
        in_flight_max: int | None = None,
    ) -> None:
        self._connect = connect
        self.latencies = Recent()
        """Of requests, in milliseconds."""
        self._in_flight_max = in_flight_max or IN_FLIGHT_MAX
        self._in_flight = asyncio.Semaphore(self._in_flight_max)
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = connection_timeout_ms
        self._scope = TaskScope("registry")
        self._changes = Changes()
        self._watching = Watching(self._scope, self._changes, self._arm_data, self._arm_children)
        self._connected = asyncio.Event()
        self._closed = False
        self._session_id = 0
        self._client: Any = None
        self._bridge: _Bridge

    async def __aenter__(self) -> Self:
        from kazoo.client import KazooClient

        await self._scope.__aenter__()
        self._bridge = _Bridge(asyncio.get_running_loop())
        self._client = KazooClient(
            self._connect, timeout=self._session_timeout_ms / 1000, connection_retry=_RECONNECT, logger=logger
        )
        chroot, self._client.chroot = self._client.chroot, ""
        self._client.add_listener(self._on_state)
        self._client.start_async()
        try:
            async with asyncio.timeout(self._connection_timeout_ms / 1000):
                await self._connected.wait()
                await self._make_chroot(chroot)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            if isinstance(error, TimeoutError):
                raise ConnectionLossError(f"no ensemble answers at {self._connect}") from None
            raise
        self._client.chroot = chroot
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._connected.set()  # whoever waits for a connection finds out that there will be none
        try:
            await asyncio.shield(asyncio.to_thread(self._end))
        finally:
            await self._scope.__aexit__(kind, error, trace)

    def _end(self) -> None:
        self._client.stop()
        self._client.close()

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def connected(self) -> bool:
        return self._connected.is_set() and not self._closed

    async def get(self, path: str) -> Znode | None:
        return _znode(await self._read(partial(self._client.get_async, path)))

    async def children(self, path: str) -> tuple[str, ...] | None:
        found = await self._read(partial(self._client.get_children_async, path))
        return None if found is None else tuple(sorted(found))

    async def get_many(self, paths: Sequence[str]) -> list[Znode | None]:
        return cast("list[Znode | None]", await self._read_many(GET_DATA, paths))

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        return cast("list[tuple[str, ...] | None]", await self._read_many(GET_CHILDREN, paths))

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        create = partial(self._client.create_async, path, data, ephemeral=ephemeral, sequence=sequential)
        return str(await self._ask(create))

    async def set(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> Stat:
        return _stat(await self._ask(partial(self._client.set_async, path, data, version)))

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        await self._ask(partial(self._client.delete_async, path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        return _results(await self._ask(self._transaction(operations).commit_async))

    async def multi_many(self, batches: Iterable[Sequence[Operation]]) -> list[list[Result] | RegistryError]:
        waiting = list(batches)
        outcomes: list[list[Result] | RegistryError] = []
        for start in range(0, len(waiting), self._in_flight_max):
            outcomes += await asyncio.gather(*map(self._outcome, waiting[start : start + self._in_flight_max]))
        return outcomes

    def watch_data(self, path: str) -> None:
        self._watching.add(Watched(path, of_children=False))

    def watch_children(self, path: str) -> None:
        self._watching.add(Watched(path, of_children=True))

    def unwatch(self, path: str) -> None:
        self._watching.remove(path)

    def events(self) -> AsyncIterator[Event]:
        return self._changes

    async def _make_chroot(self, chroot: str) -> None:
        parts = chroot.strip("/").split("/") if chroot else []
        for depth in range(1, len(parts) + 1):
            path = "/" + "/".join(parts[:depth])
            if await self.get(path) is None:
                try:
                    await self.create(path)
                except NodeExistsError:
                    continue

    async def _arm_data(self, path: str) -> Znode | None:
        # Only exists sets a watch on a node that is not there. Both requests travel together.
        armed = self._read(partial(self._client.exists_async, path, watch=self._on_watch))
        _, znode = await asyncio.gather(armed, self.get(path))
        return znode

    async def _arm_children(self, path: str) -> Children | None:
        while True:
            read = partial(self._client.get_children_async, path, watch=self._on_watch, include_data=True)
            if found := await self._read(read):
                return tuple(sorted(found[0])), _stat(found[1])
            if await self._read(partial(self._client.exists_async, path, watch=self._on_watch)) is None:
                return None

    async def _ask(self, issue: Issue) -> Any:
        """The answer to one request, sent as soon as there is a connection."""
        async with self._in_flight:
            await self._connected.wait()
            if self._closed:
                raise StoreClosedError("the store is closed")
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[Any] = loop.create_future()
            began_s = loop.time()
            issue().rawlink(partial(self._bridge.post, _settle, answer))
            try:
                return await answer
            finally:
                self.latencies.add((loop.time() - began_s) * 1000)

    async def _read(self, issue: Issue) -> Any:
        """The answer to a read, asked again until there is one; None if there is no such node."""
        while True:
            try:
                return await self._ask(issue)
            except NoNodeError:
                return None
            except ConnectionLossError:
                await asyncio.sleep(0)  # the news of the loss may be right behind this answer

    async def _read_many(self, opcode: int, paths: Sequence[str]) -> list[Answer]:
        chroot = self._client.chroot
        answers: list[Answer] = []
        for start in range(0, len(paths), READS_MAX):
            part = [chroot + path if path != "/" else chroot or "/" for path in paths[start : start + READS_MAX]]
            answers += await self._read(partial(self._call, MultiRead(opcode, part)))
        return answers

    def _call(self, request: MultiRead) -> Any:
        answer = self._client.handler.async_result()
        self._client._call(request, answer)
        return answer

    async def _outcome(self, operations: Sequence[Operation]) -> list[Result] | RegistryError:
        try:
            return await self.multi(operations)
        except RegistryError as error:
            return error

    def _transaction(self, operations: Sequence[Operation]) -> Any:
        transaction = self._client.transaction()
        for operation in operations:
            match operation:
                case Create(path, data, ephemeral, sequential):
                    transaction.create(path, data, ephemeral=ephemeral, sequence=sequential)
                case SetData(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        return transaction

    def _on_watch(self, event: Any) -> None:
        # An event without a path only says that the connection broke, which the session tells better.
        if event.path is not None:
            self._bridge.post(self._watching.on_fired, event.path)

    def _on_state(self, state: str) -> None:
        from kazoo.protocol.states import KazooState, KeeperState

        if state == KazooState.CONNECTED:
            told = SessionState.CONNECTED
        elif state == KazooState.SUSPENDED:
            told = SessionState.SUSPENDED
        elif self._client.client_state == KeeperState.EXPIRED_SESSION:
            told = SessionState.EXPIRED
        else:
            return  # closed by ourselves
        self._bridge.post(self._on_session, told, (self._client.client_id or (0,))[0])

    def _on_session(self, state: SessionState, session_id: int) -> None:
        if self._closed:
            return
        if state is SessionState.CONNECTED:
            self._session_id = session_id
            self._connected.set()
            self._watching.on_connected()
        else:
            self._connected.clear()
        self._changes.put(SessionChanged(state, self._session_id))


class _Bridge:
    """Calls from kazoo's threads, made on the loop in the order in which each thread left them."""

    __slots__ = ("_calls", "_loop", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        self._calls.append((call, arguments))
        if not self._woken and not self._loop.is_closed():
            self._woken = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # Before the first call is taken: one that is left from now on wakes the loop again.
        self._woken = False
        while self._calls:
            call, arguments = self._calls.popleft()
            call(*arguments)


def _settle(future: asyncio.Future[Any], answer: Any) -> None:
    if future.done():
        return
    if answer.exception is None:
        future.set_result(answer.value)
    else:
        future.set_exception(_error(answer.exception))


def _error(error: Exception, operation: int | None = None) -> RegistryError:
    kind = next((_ERRORS[base.__name__] for base in type(error).__mro__ if base.__name__ in _ERRORS), RefusedError)
    return kind(f"{type(error).__name__} {error}".strip(), operation=operation)


def _results(answers: Sequence[Any]) -> list[Result]:
    failed = [(at, answer) for at, answer in enumerate(answers) if isinstance(answer, Exception)]
    if failed:
        at, cause = next((each for each in failed if type(each[1]).__name__ not in _NOT_DONE), failed[0])
        raise _error(cause, at)
    return list(map(_result, answers))


def _result(answer: Any) -> Result:
    if isinstance(answer, str):
        return answer
    return None if answer is True else _stat(answer)


def _stat(stat: Any) -> Stat:
    return Stat(stat.czxid, stat.mzxid, stat.pzxid, stat.version, stat.ephemeralOwner or 0, stat.ctime)


def _znode(found: Any) -> Znode | None:
    return None if found is None else Znode(found[0], _stat(found[1]))
