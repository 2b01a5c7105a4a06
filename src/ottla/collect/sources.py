"""Shells that read: files, standard input, syslog. Each runs until it is cancelled, or there is no more to come."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import CancelledError as FutureCancelledError
from typing import Protocol, TypeVar

from ottla.base.clock import Clock
from ottla.collect.batches import Positions
from ottla.collect.intake import Intake, Parcel, pack
from ottla.collect.lines import Line, LineCutter
from ottla.collect.shaping import FILE, NOWHERE, STDIN, SYSLOG, Origin, Shape
from ottla.collect.syslog import SyslogFramer
from ottla.collect.tailing import Chunk, Tailer

T = TypeVar("T")

READ_BYTES = 64 << 10
DATAGRAM_BYTES = 64 << 10
DATAGRAMS_MAX = 500
"""Of one batch."""
CONNECTIONS_MAX = 1000
_OF = " "
"""Between topic and file, in the name of a position: no topic's name has a space in it."""


class Source(Protocol):
    async def run(self) -> None: ...


class Desk:
    """What every source needs: where to hand in, and how."""

    def __init__(self, intake: Intake, shape: Shape, clock: Clock, host: str, line_bytes_max: int) -> None:
        self.intake = intake
        self.shape = shape
        self.clock = clock
        self.host = host
        self.line_bytes_max = line_bytes_max

    def pack(self, entries: Sequence[tuple[Origin, Sequence[Line]]], positions: Positions = NOWHERE) -> Parcel:
        return pack(self.shape.batch(entries, received_ms=self.clock.wall_ms(), positions=positions))

    async def put(self, origin: Origin, lines: Sequence[Line]) -> None:
        if lines:
            await self.intake.put(self.pack([(origin, lines)]))


class FileSource:
    def __init__(self, desk: Desk, tailer: Tailer, *, poll_s: float, is_once: bool) -> None:
        self._desk = desk
        self._tailer = tailer
        self._poll_s = poll_s
        self._is_once = is_once

    async def run(self) -> None:
        try:
            while True:
                parcels = await in_thread(self._poll)
                for parcel in parcels:
                    await self._desk.intake.put(parcel)
                if not parcels and self._is_once:
                    for chunk in self._tailer.finish():
                        await self._desk.intake.put(self._pack(chunk))
                    return
                if not parcels:
                    await asyncio.sleep(self._poll_s)
        finally:
            self._tailer.close()

    def _poll(self) -> list[Parcel]:
        return [self._pack(chunk) for chunk in self._tailer.poll(self._desk.clock.monotonic())]

    def _pack(self, chunk: Chunk) -> Parcel:
        origin = Origin(FILE, self._desk.host, {"file": chunk.path})
        topic = self._desk.shape.topic
        positions = {f"{topic}{_OF}{name}": position for name, position in chunk.positions.items()}
        return self._desk.pack([(origin, chunk.lines)], positions)


def of_topic(positions: Positions, topic: str) -> dict[str, Mapping[str, object]]:
    """How far files were read for one topic; another may have the same files, and be somewhere else in them."""
    label = f"{topic}{_OF}"
    return {
        name.removeprefix(label): position
        for name, position in positions.items()
        if name.startswith(label) and position is not None
    }


async def in_thread(call: Callable[[], T]) -> T:
    """Whoever cancels this waits for the call: what it uses is still in use."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


class StdinSource:
    """In a thread of its own, as what stands there may be anything that can be read."""

    def __init__(self, desk: Desk, file: int = 0) -> None:
        self._desk = desk
        self._file = file
        self._cutter = LineCutter(desk.line_bytes_max)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        stop_reader, stop_writer = os.pipe()
        origin = Origin(STDIN, self._desk.host)

        def end(error: Exception | None) -> None:
            if not ended.done():
                ended.set_result(None) if error is None else ended.set_exception(error)

        def read() -> None:
            failure: Exception | None = None
            try:
                while data := self._next(stop_reader):
                    if lines := self._cutter.feed(data):
                        put = self._desk.intake.put(self._desk.pack([(origin, lines)]))
                        asyncio.run_coroutine_threadsafe(put, loop).result()
            except (FutureCancelledError, RuntimeError):
                return  # the loop ends
            except Exception as error:  # noqa: BLE001  it is told where it is waited for
                failure = error
            loop.call_soon_threadsafe(end, failure)

        thread = threading.Thread(target=read, name="stdin", daemon=True)
        thread.start()
        try:
            await ended
            await self._desk.put(origin, self._cutter.finish())
        finally:
            os.close(stop_writer)
            await asyncio.to_thread(thread.join)
            os.close(stop_reader)

    def _next(self, stop: int) -> bytes:
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        poll.register(stop, select.POLLIN)
        ready = {file for file, _ in poll.poll()}
        return b"" if stop in ready else os.read(self._file, READ_BYTES)


class SyslogUdpSource:
    """Datagrams that come while there is no room wait in the socket; the system drops what it cannot hold."""

    def __init__(self, desk: Desk, listening: socket.socket) -> None:
        self._desk = desk
        self._socket = listening
        self._socket.setblocking(False)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        try:
            while True:
                readable.clear()
                loop.add_reader(self._socket, readable.set)
                try:
                    await readable.wait()
                finally:
                    loop.remove_reader(self._socket)
                while entries := self._receive():
                    await self._desk.intake.put(self._desk.pack(entries))
        finally:
            self._socket.close()

    def _receive(self) -> list[tuple[Origin, list[Line]]]:
        entries: list[tuple[Origin, list[Line]]] = []
        while len(entries) < DATAGRAMS_MAX:
            try:
                data, peer = self._socket.recvfrom(DATAGRAM_BYTES)
            except BlockingIOError:
                break
            if message := data.rstrip(b"\r\n\0"):
                entries.append((Origin(SYSLOG, peer[0]), [Line(message)]))
        return entries


class SyslogTcpSource:
    """A connection is not read on while there is no room, which its sender notices."""

    def __init__(self, desk: Desk, listening: socket.socket) -> None:
        self._desk = desk
        self._socket = listening

    async def run(self) -> None:
        await serve(self._socket, self._connection)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        origin = Origin(SYSLOG, peer[0] if peer else "")
        framer = SyslogFramer(self._desk.line_bytes_max)
        try:
            while data := await reader.read(READ_BYTES):
                await self._desk.put(origin, framer.feed(data))
        except OSError:
            pass  # it was cut off; what came before counts
        await self._desk.put(origin, framer.finish())


Connection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def serve(listening: socket.socket, connection: Connection, *, grace_s: float = 0.0) -> None:
    """Until this is cancelled. Who is connected then has ``grace_s`` to come to an end."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            if len(tasks) <= CONNECTIONS_MAX:
                await connection(reader, writer)
        except asyncio.CancelledError:
            pass  # the loop's server takes any end of this for a mistake but a normal one
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(handle, sock=listening, limit=READ_BYTES)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        server.close()
        if tasks and grace_s:
            await asyncio.wait(tuple(tasks), timeout=grace_s)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tuple(tasks))
