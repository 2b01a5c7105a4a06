"""The wires between the servers of a cluster, so that some of them can be cut. Clients do not go through them.

Every broker is reached by the others through a wire of its own, and reaches each keeper through one of its own. A wire is a
port that passes on what comes. While one of its two ends is cut off, nothing goes through, in neither direction, and nobody
is told: connections stay open, new ones are taken and hear nothing. What was sent meanwhile arrives once the cut is over, as
with a network that comes back.

    broker 2 ──► wire of keeper 1 for broker 2 ──► keeper 1
    broker 2 ──► wire of broker 3 ──► broker 3          who is calling is known by the process that owns the socket

Where nobody listens behind a wire, it refuses connections until somebody does: whoever calls one that is dead calls again at
once, and would keep the wires of all others busy.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 1 << 16
_LOOK_AGAIN_S: Final = 0.02
_LOCAL, _REMOTE, _INODE = 1, 2, 9
"""Columns of ``/proc/net/tcp``."""

T = TypeVar("T")


class Wire(NamedTuple):
    """Where it leads, and the broker that is at its far end, or at its near end if it leads to a keeper."""

    target: tuple[str, int]
    broker: int
    is_of_broker: bool
    """Whether it leads to one: who is at the near end is not known then."""


class Wires:
    """All wires of a cluster, in a thread of their own."""

    def __init__(self, folder: Path) -> None:
        """``folder`` holds the brokers: their processes are known by the files that they were started with."""
        self._folder = folder
        self._cut: frozenset[int] = frozenset()
        self._listeners: dict[int, socket.socket] = {}
        """By their ports."""
        self._holders: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Condition()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)
        self._thread.start()

    def lay(self, wire: Wire) -> int:
        """The port of a new wire."""
        return self._run(self._lay(wire))

    def cut(self, brokers: Iterable[int]) -> None:
        """These are cut off from all others and from the keepers, and nobody else is."""
        self._run(self._set(frozenset(brokers)))

    def close(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _lay(self, wire: Wire) -> int:
        # Bound for as long as this process lives: the port stays ours while nobody listens on it.
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((HOST, 0))
        self._holders.append(holder)
        port: int = holder.getsockname()[1]
        self._listen(wire, port)
        return port

    def _listen(self, wire: Wire, port: int) -> None:
        listener = self._listeners[port] = socket.create_server((HOST, port))
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept, wire, listener)

    def _accept(self, wire: Wire, listener: socket.socket) -> None:
        with suppress(BlockingIOError, ConnectionError):
            near, address = listener.accept()
            self._spawn(self._take(wire, near, (address[1], listener.getsockname()[1])))

    def _refuse(self, wire: Wire, port: int) -> None:
        listener = self._listeners.pop(port, None)
        if listener is not None:
            self._close(listener)
            self._spawn(self._listen_again(wire, port))

    async def _listen_again(self, wire: Wire, port: int) -> None:
        await _until_somebody_listens(wire.target)
        self._listen(wire, port)

    def _close(self, listener: socket.socket) -> None:
        self._loop.remove_reader(listener)
        listener.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, wire: Wire, near: socket.socket, ports: tuple[int, int]) -> None:
        reader, writer = await asyncio.open_connection(sock=near)
        try:
            await self._connect(wire, ports, reader, writer)
        except ConnectionRefusedError:
            self._refuse(wire, ports[1])
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _connect(
        self, wire: Wire, ports: tuple[int, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ends = frozenset({wire.broker})
        if wire.is_of_broker:
            ends |= {await asyncio.to_thread(self._caller, *ports)}
        await self._until_open(ends)
        far_reader, far_writer = await asyncio.open_connection(*wire.target)
        try:
            await asyncio.gather(self._pass_on(ends, reader, far_writer), self._pass_on(ends, far_reader, writer))
        finally:
            far_writer.close()

    async def _pass_on(self, ends: frozenset[int], source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await _read(source):
            await self._until_open(ends)
            sink.write(data)
            await sink.drain()
        await self._until_open(ends)
        sink.close()

    async def _until_open(self, ends: frozenset[int]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._cut.isdisjoint(ends))

    async def _set(self, brokers: frozenset[int]) -> None:
        async with self._changed:
            self._cut = brokers
            self._changed.notify_all()

    async def _end(self) -> None:
        for listener in self._listeners.values():
            self._close(listener)
        await asyncio.sleep(0)  # what has not begun has nothing that would close its connection
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for holder in self._holders:
            holder.close()

    def _caller(self, port: int, wire_port: int) -> int:
        """The broker that connects from ``port``; -1 if it is none."""
        inode = _inode(port, wire_port)
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                for word in (process / "cmdline").read_bytes().split(b"\0"):
                    path = Path(os.fsdecode(word))
                    if path.match("broker-*/*") and path.parents[1] == self._folder and _owns(process, inode):
                        return int(path.parent.name.removeprefix("broker-"))
        return -1


async def _until_somebody_listens(address: tuple[str, int]) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection(*address)
        except OSError:
            await asyncio.sleep(_LOOK_AGAIN_S)
        else:
            writer.close()
            return


async def _read(source: asyncio.StreamReader) -> bytes:
    try:
        return await source.read(_CHUNK_BYTES)
    except ConnectionError:
        return b""


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def wired(properties: Mapping[str, str], broker: int, wires: Wires) -> dict[str, str]:
    """A broker's properties, with wires to it and from it to the keepers."""
    inside = free_port()
    keepers = [address.rpartition(":") for address in properties["zookeeper.connect"].split(",")]
    laid = [wires.lay(Wire((host, int(port)), broker, is_of_broker=False)) for host, _, port in keepers]
    outside = properties["listeners"]
    return {
        **properties,
        "listeners": f"{outside},WIRES://{HOST}:{inside}",
        "advertised.listeners": f"{outside},WIRES://{HOST}:{wires.lay(Wire((HOST, inside), broker, is_of_broker=True))}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,WIRES:PLAINTEXT",
        "inter.broker.listener.name": "WIRES",
        "zookeeper.connect": ",".join(f"{HOST}:{port}" for port in laid),
    }


def _inode(port: int, remote_port: int) -> str:
    """Of the socket that is connected from the one port to the other."""
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        columns = line.split()
        if [int(columns[at].rpartition(":")[2], 16) for at in (_LOCAL, _REMOTE)] == [port, remote_port]:
            return columns[_INODE]
    return ""


def _owns(process: Path, inode: str) -> bool:
    for file in (process / "fd").iterdir():
        with suppress(OSError):
            if str(file.readlink()) == f"socket:[{inode}]":
                return True
    return False
