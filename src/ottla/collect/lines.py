"""A stream of bytes cut into lines, whatever the sizes of the chunks in which it comes.

A line ends at a newline; a carriage return before it belongs to the end. A line that is longer than the limit is given out in
pieces of exactly the limit, so nothing of it is lost and no more than one piece is ever held.
"""

from __future__ import annotations

from typing import NamedTuple

WHOLE = 0


class Line(NamedTuple):
    value: bytes
    piece: int = WHOLE
    """Of a line that was cut: its number, from 1."""
    is_last: bool = True


class LineCutter:
    __slots__ = ("_limit", "piece", "rest")

    def __init__(self, limit: int, piece: int = 0) -> None:
        """``piece``: how many pieces of the line at the beginning were given out before."""
        self._limit = limit
        self.piece = piece
        self.rest = b""
        """What came behind the last line or piece that was given out."""

    def feed(self, data: bytes) -> list[Line]:
        parts = (self.rest + data).split(b"\n")
        self.rest = b""
        last = parts.pop()
        lines: list[Line] = []
        limit = self._limit
        for part in parts:
            if self.piece or len(part) > limit:
                self._cut(part, lines)
                self._end(lines)
            else:
                lines.append(Line(_without_return(part)))
        self._cut(last, lines)
        return lines

    def finish(self) -> list[Line]:
        """The line at the end of the stream, which may lack its newline."""
        if not (self.rest or self.piece):
            return []
        lines: list[Line] = []
        self._end(lines)
        return lines

    def _cut(self, part: bytes, lines: list[Line]) -> None:
        """Give out pieces, as long as something remains for the last one."""
        start = 0
        while len(part) - start > self._limit:
            self.piece += 1
            lines.append(Line(part[start : start + self._limit], self.piece, is_last=False))
            start += self._limit
        self.rest = part[start:] if start else part

    def _end(self, lines: list[Line]) -> None:
        lines.append(Line(_without_return(self.rest), self.piece + 1 if self.piece else WHOLE))
        self.rest = b""
        self.piece = 0


def _without_return(line: bytes) -> bytes:
    return line[:-1] if line.endswith(b"\r") else line
