"""One framed connection: bytes in, frames to a subclass; frames out, gathered and written once per turn of the loop.

Subclasses say what frames mean: ``opened``, ``received``, ``ended``. Budget: on the path of every request, so no task,
no future and no copy that can be avoided; ``bench/`` measures it as requests per second.

Fairness. One turn of the loop takes at most ``FRAMES_PER_TURN`` frames of a connection, or as many as cause
``BYTES_PER_TURN`` of output; the rest waits for the next turn, and nothing more is read meanwhile. So one eager peer
costs the others a few milliseconds at a time.

Back-pressure. When the peer does not read, the transport's buffer fills, and reading from that peer stops until it has
drained, so that a client cannot make us hold more answers than it asked questions. What others cause to be sent to it
(events, proposals) is bounded by ``unsent_bytes_max``: past that the connection is cut. What unfinished frames of all
connections hold is bounded by a ``FrameBudget`` that they share.

Files. Bytes that lie in a file leave in the call that writes them, as the file may hold others later: what was written before
goes ahead, and then the kernel sends from the file, without a copy. What the socket does not take is read and left to the transport.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from typing import Final, cast

from mypy_extensions import mypyc_attr

from ottla.base.errors import RemoteProtocolError
from ottla.base.filebytes import FileBytes
from ottla.net.budget import SMALL_BYTES, FrameBudget
from ottla.net.flow import Pause, ReadGate
from ottla.net.frames import FrameReader
from ottla.net.turn import Turn
from ottla.net.vigil import Vigil

log = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview

UNSENT_BYTES_MAX: Final = 64 << 20
FRAMES_PER_TURN: Final = 128
BYTES_PER_TURN: Final = 1 << 20
JOINED_BYTES_MAX: Final = 1 << 16
"""Up to here a copy is cheaper than a vector."""


@mypyc_attr(allow_interpreted_subclasses=True)  # tests have connections of their own
class Connection(asyncio.Protocol):
    """Base of every connection, incoming or outgoing."""

    def __init__(
        self,
        *,
        frame_bytes_max: int,
        unsent_bytes_max: int = UNSENT_BYTES_MAX,
        turn: Turn | None = None,
        budget: FrameBudget | None = None,
        vigil: Vigil | None = None,
    ) -> None:
        self._reader = FrameReader(frame_bytes_max)
        self._unsent_bytes_max = unsent_bytes_max
        self._turn = turn
        self._transport: asyncio.Transport | None = None
        self._gate: ReadGate | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._file_bytes = 0
        """Of files, in this turn."""
        self._socket: socket.socket | None = None
        self._flushing = False
        self._closing = False
        self._backlog: deque[bytes] = deque()
        self._write_paused = False
        self._continuing = False
        self._on_hold = False
        self._budget = budget
        self._vigil = vigil
        self._is_counted = False
        self.peer: tuple[str, int] = ("", 0)
        self.bytes_received = 0

    # For subclasses.

    def opened(self) -> None:
        """The connection is up."""

    def received(self, frame: bytes) -> None:
        """One whole frame, without its length."""
        raise NotImplementedError

    def received_some(self, frames: list[bytes], at: int) -> int:
        """Of ``frames``, the one at ``at``, and those behind it that are better taken with it; how many."""
        self.received(frames[at])
        return 1

    def ended(self, error: Exception | None) -> None:
        """The connection is gone, whoever ended it. Called once, and only after ``opened``."""

    # For owners.

    @property
    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Buffer | FileBytes) -> None:
        """Send bytes that carry their own length. They go out together at the end of this turn of the loop."""
        if self._closing:
            return
        if isinstance(data, FileBytes):
            self._write_file(data)
            return
        self._out.append(data)
        self._out_bytes += len(data)
        if not self._flushing:
            self._flushing = True
            assert self._loop is not None, "a connection is written to only while it is up"
            if self._turn is not None:
                self._turn.wrote(self)
            else:
                self._loop.call_soon(self.flush)

    def flush(self) -> None:
        self._flushing = False
        out, transport = self._out, self._transport
        if not out or transport is None or transport.is_closing():
            return
        joined = self._out_bytes <= JOINED_BYTES_MAX
        self._out = []
        self._out_bytes = 0
        if len(out) == 1:
            transport.write(out[0])
        elif joined:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
        if self._write_paused and transport.get_write_buffer_size() > self._unsent_bytes_max:
            log.warning("cutting %s:%d: it does not read what it is sent", *self.peer)
            self.abort()

    def _write_file(self, data: FileBytes) -> None:
        self._file_bytes += data.length
        try:
            sent = self._send_from(data) if self._is_direct() else 0
            rest = data.read(sent) if sent < data.length else b""
        except OSError as error:
            self.cut(f"a file that it was sent cannot be read: {error.strerror}")
            return
        if sent + len(rest) < data.length:
            self.cut("a file that it was sent was cut")
        elif rest:
            self.write(rest)

    def _is_direct(self) -> bool:
        """Whether the socket is the next to see what is sent: nothing waits in the transport, and nothing is encrypted there."""
        transport = self._transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size():
            return False
        if self._socket is None:
            if transport.get_extra_info("sslcontext") is not None:
                return False
            # The same descriptor, not another one: it is let go of in ``connection_lost``, before the transport closes it.
            self._socket = socket.socket(fileno=transport.get_extra_info("socket").fileno())
        return True

    def _send_from(self, data: FileBytes) -> int:
        """How many bytes of the file the socket took, behind everything that was written before."""
        target, sent = self._socket, 0
        assert target is not None
        try:
            if self._out:
                head = b"".join(self._out)
                taken = target.send(head, socket.MSG_MORE)
                self._out = [head[taken:]] if taken < len(head) else []
                self._out_bytes = len(head) - taken
                if self._out:
                    return 0
            while sent < data.length:
                taken = os.sendfile(target.fileno(), data.fd, data.position + sent, data.length - sent)
                if not taken:
                    break
                sent += taken
        except OSError:
            # The socket is full, nobody is there any more, the file system cannot do this, or the disk fails: whoever reads the
            # rest, or the transport that sends it, sees which.
            return sent
        return sent

    def close(self) -> None:
        """Send what was written, then end the connection."""
        if not self._closing:
            self.flush()
            self._closing = True
            if self._transport is not None:
                self._transport.close()

    def abort(self) -> None:
        self._closing = True
        self._out.clear()
        if self._transport is not None:
            self._transport.abort()

    def allow_frames_up_to(self, frame_bytes_max: int) -> None:
        self._reader.bytes_max = frame_bytes_max

    @property
    def backlog(self) -> int:
        """Frames that have arrived and are not taken yet."""
        return len(self._backlog)

    def hold(self) -> None:
        """Take no frame of this connection, not even one that has arrived, until ``unhold``."""
        self._on_hold = True
        if self._gate is not None:
            self._gate.pause(Pause.BACKLOG)

    def unhold(self) -> None:
        if self._on_hold:
            self._on_hold = False
            if self._backlog:
                self._continue()
            elif self._gate is not None:
                self._gate.resume(Pause.BACKLOG)

    def pause_reading(self) -> None:
        if self._gate is not None:
            self._gate.pause(Pause.OWNER)

    def resume_reading(self) -> None:
        if self._gate is not None:
            self._gate.resume(Pause.OWNER)

    # For asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's, only like them.
        self._transport = cast("asyncio.Transport", transport)
        self._gate = ReadGate(self._transport)
        self._loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer = (peer[0], peer[1])
        self.opened()

    def data_received(self, data: bytes) -> None:
        self.bytes_received += len(data)
        if self._vigil is not None:
            self._vigil.heard()
        try:
            frames = self._reader.feed(data)
        except RemoteProtocolError as e:
            self._refuse(e)
            return
        held = self._reader.held_bytes
        if (held > SMALL_BYTES or self._is_counted) and self._budget is not None:
            self._count(held)
        if self._backlog or self._on_hold or len(frames) > FRAMES_PER_TURN:
            self._backlog += frames
            if self._gate is not None:
                self._gate.pause(Pause.BACKLOG)
            self._take_backlog()
        else:
            self._take(frames)

    def _take(self, frames: list[bytes]) -> None:
        self._flushing = True  # whatever the frames cause to be written is written below, in one go
        self._file_bytes = 0
        taken = 0
        try:
            while taken < len(frames):
                if self._closing:
                    return
                taken += self.received_some(frames, taken)
                if self._out_bytes + self._file_bytes > BYTES_PER_TURN or self._on_hold:
                    break
        except RemoteProtocolError as e:
            self._refuse(e)
        # libuv may read several times before the next turn: then what is left of this one is not there to be used again.
        used_up = self._out_bytes + self._file_bytes > BYTES_PER_TURN
        self.flush()
        if (taken < len(frames) or used_up) and not self._closing:
            self._backlog.extendleft(reversed(frames[taken:]))
            if self._gate is not None:
                self._gate.pause(Pause.BACKLOG)
            self._continue()

    def _take_backlog(self) -> None:
        """One turn's worth of what has arrived already."""
        if self._write_paused or self._closing or self._on_hold:
            return
        backlog = self._backlog
        self._take([backlog.popleft() for _ in range(min(FRAMES_PER_TURN, len(backlog)))])
        if backlog:
            self._continue()
        else:
            self._read_on()

    def _read_on(self) -> None:
        """The backlog is used up: unless taking it ended in a hold or in the end of a turn, the transport is read again."""
        if self._gate is not None and not self._on_hold and not self._continuing:
            self._gate.resume(Pause.BACKLOG)

    def _continue(self) -> None:
        if not self._write_paused and not self._on_hold and not self._continuing and self._loop is not None:
            self._continuing = True
            self._loop.call_soon(self._resume_backlog)

    def _resume_backlog(self) -> None:
        self._continuing = False
        self._take_backlog()

    # For the budget.

    def _count(self, held: int) -> None:
        assert self._budget is not None
        if held > SMALL_BYTES:
            self._is_counted = True
            self._budget.hold(self, held=held, missing=self._reader.missing_bytes)
        else:
            self._is_counted = False
            self._budget.release(self)

    @property
    def waits_for_room_only(self) -> bool:
        return self._gate is not None and not self._gate.reasons & ~Pause.ROOM

    def pause_for_room(self) -> None:
        if self._gate is not None:
            self._gate.pause(Pause.ROOM)

    def resume_for_room(self) -> None:
        if self._gate is not None:
            self._gate.resume(Pause.ROOM)

    def cut(self, why: str) -> None:
        log.warning("cutting %s:%d: %s", *self.peer, why)
        self.abort()

    def _refuse(self, error: RemoteProtocolError) -> None:
        log.warning("closing %s:%d: %s", *self.peer, error)
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._out.clear()
        self._backlog.clear()
        self._transport = None
        self._gate = None
        if self._socket is not None:
            self._socket.detach()
            self._socket = None
        if self._is_counted and self._budget is not None:
            self._is_counted = False
            self._budget.release(self)
        self.ended(exc)

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._gate is not None:
            self._gate.pause(Pause.WRITE_BUFFER)

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._gate is not None:
            self._gate.resume(Pause.WRITE_BUFFER)
            if self._gate.reasons & Pause.BACKLOG:
                self._continue()
