"""Length-prefixed frames out of a byte stream: ``int length`` (big-endian), then that many bytes.

The length is judged before anything is kept for it, and only bytes that have arrived are ever held: a peer that claims
a gigabyte and falls silent costs four bytes.
"""

from __future__ import annotations

from librt.strings import read_i32_be

from ottla.base.errors import RemoteProtocolError


class FrameReader:
    """Sans-IO: ``feed`` bytes as they come, get whole frames back."""

    __slots__ = ("_chunks", "_held", "_wanted", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._chunks: list[bytes] = []
        self._held = 0
        self._wanted = 4
        """How many bytes the next step needs: a length, or a length and its frame."""

    @property
    def held_bytes(self) -> int:
        return self._held

    @property
    def missing_bytes(self) -> int:
        """How many bytes the unfinished frame still lacks."""
        return self._wanted - self._held if self._held else 0

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that ``data`` completes. Raises RemoteProtocolError on a length that cannot be."""
        frames: list[bytes] = []
        at = 0
        if self._held:
            self._chunks.append(data)
            self._held += len(data)
            if self._held < self._wanted:
                return frames
            if self._wanted > 4:
                at = len(data) - (self._held - self._wanted)
                frames.append(self._assembled(at))
            else:
                data = b"".join(self._chunks)
            self._chunks.clear()
            self._held = 0
        end = len(data)
        while end - at >= 4:
            length: int = read_i32_be(data, at)
            if not 0 <= length <= self.bytes_max:
                raise RemoteProtocolError(f"a frame of {length} bytes, where {self.bytes_max} is the most")
            stop = at + 4 + length
            if stop > end:
                break
            frames.append(data[at + 4 : stop])
            at = stop
        if at < end:
            rest = data[at:] if at else data
            self._chunks.append(rest)
            self._held = len(rest)
            self._wanted = 4 if len(rest) < 4 else 4 + int(read_i32_be(rest, 0))
        return frames

    def _assembled(self, last_bytes: int) -> bytes:
        """The frame that the chunks hold behind its length, up to ``last_bytes`` of the last: one copy, however large."""
        first, *middle, last = self._chunks
        return b"".join((memoryview(first)[4:], *middle, memoryview(last)[:last_bytes]))
