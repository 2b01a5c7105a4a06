r"""Syslog over a stream: where a message ends (RFC 6587).

    octet counting       "34 <34>1 ... "      decimal length, a space, so many bytes
    newline              "<34>1 ...\n"         up to a newline (or a NUL, as some send)

Each message says by its first bytes which it is: a number and a space begin no other. A message that is too long is given out in
pieces, as a line is (``lines``).
"""

from __future__ import annotations

from ottla.collect.lines import WHOLE, Line

DIGITS_MAX = 9
"""Of a length."""
_DIGITS = frozenset(b"0123456789")
_SPACE = ord(" ")
_ENDS = (b"\n", b"\0")


class SyslogFramer:
    __slots__ = ("_buffer", "_counted", "_limit", "_piece")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._counted: int | None = None
        """Bytes that are still missing from a message whose length was told."""
        self._piece = 0

    def feed(self, data: bytes) -> list[Line]:
        self._buffer += data
        messages: list[Line] = []
        while self._counted is not None or self._begin():
            if not (self._take_counted(messages) if self._counted is not None else self._take_line(messages)):
                break
        return messages

    def finish(self) -> list[Line]:
        """At the end of the stream: a line without its newline, or what came of a message whose length was told."""
        messages: list[Line] = []
        if self._buffer or self._piece:
            self._give(len(self._buffer), messages, is_last=True)
        self._counted = None
        return messages

    def _begin(self) -> bool:
        """Whether a message begins here; if its length is told, that is read."""
        buffer = self._buffer
        if self._piece:
            return bool(buffer)
        skipped = 0
        while skipped < len(buffer) and buffer[skipped] in b"\r\n\0 ":
            skipped += 1
        del buffer[:skipped]
        if not buffer:
            return False
        digits = 0
        while digits < min(len(buffer), DIGITS_MAX + 1) and buffer[digits] in _DIGITS:
            digits += 1
        if digits == len(buffer):
            return False  # either is possible
        if 0 < digits <= DIGITS_MAX and buffer[digits] == _SPACE:
            self._counted = int(buffer[:digits])
            del buffer[: digits + 1]
        return True

    def _take_counted(self, messages: list[Line]) -> bool:
        assert self._counted is not None
        size = min(self._counted, self._limit)
        if len(self._buffer) < size:
            return False
        is_last = size == self._counted
        self._counted = None if is_last else self._counted - size
        if size or self._piece:
            self._give(size, messages, is_last=is_last)
        return True

    def _take_line(self, messages: list[Line]) -> bool:
        found = [at for end in _ENDS if (at := self._buffer.find(end, 0, self._limit + 1)) >= 0]
        if found:
            at = min(found)
            self._give(at, messages, is_last=True)
            del self._buffer[:1]
            return True
        if len(self._buffer) <= self._limit:
            return False
        self._give(self._limit, messages, is_last=False)
        return True

    def _give(self, size: int, messages: list[Line], *, is_last: bool) -> None:
        value = bytes(self._buffer[:size])
        del self._buffer[:size]
        if is_last:
            value = value.rstrip(b"\r\n")
        number = self._piece + 1 if self._piece or not is_last else WHOLE
        messages.append(Line(value, number, is_last))
        self._piece = 0 if is_last else number
