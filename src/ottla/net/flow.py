"""Why a connection does not read at the moment.

Several parties may want silence for their own reasons: the owner of the connection (too much work outstanding), and
the connection itself (its peer does not read what it was sent, or sent more at once than one turn may take), and the
budget that it shares with others (``budget``). Reading goes on only when none of them does.
"""

from __future__ import annotations

from asyncio import ReadTransport
from enum import IntFlag


class Pause(IntFlag):
    OWNER = 1
    WRITE_BUFFER = 2
    BACKLOG = 4
    ROOM = 8


class ReadGate:
    """Pauses and resumes a transport; asking twice is harmless."""

    __slots__ = ("_reasons", "_transport")

    def __init__(self, transport: ReadTransport) -> None:
        self._transport = transport
        self._reasons = 0

    @property
    def reasons(self) -> int:
        return self._reasons

    def pause(self, reason: Pause) -> None:
        if not self._reasons and not self._transport.is_closing():
            self._transport.pause_reading()
        self._reasons |= reason

    def resume(self, reason: Pause) -> None:
        was = self._reasons
        self._reasons &= ~reason
        if was and not self._reasons and not self._transport.is_closing():
            self._transport.resume_reading()
