"""ZooKeeper's encoding, as far as the client of these tests needs it, and apart from the one of the servers."""

from __future__ import annotations

import struct
from collections.abc import Iterable

NOTIFICATION_XID = -1

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA = range(1, 6)
SYNC = 9
GET_CHILDREN2, CHECK, MULTI, CREATE2 = range(12, 16)
SET_WATCHES2, ADD_WATCH = 105, 106
CLOSE_SESSION, ERROR = -11, -1


def int_(value: int) -> bytes:
    return struct.pack(">i", value)


def long_(value: int) -> bytes:
    return struct.pack(">q", value)


def bool_(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def buffer(value: bytes) -> bytes:
    return int_(len(value)) + value


def string(value: str) -> bytes:
    return buffer(value.encode())


def strings(values: Iterable[str]) -> bytes:
    listed = [string(value) for value in values]
    return int_(len(listed)) + b"".join(listed)


OPEN_ACL = int_(1) + int_(31) + string("world") + string("anyone")


class Cursor:
    """Reads a frame from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        assert 0 <= count <= self.left, f"{count} bytes wanted at {self.at} of {len(self.data)}"
        self.at += count
        return self.data[self.at - count : self.at]

    def int_(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def long_(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def bool_(self) -> bool:
        return self.take(1) != b"\x00"

    def buffer(self) -> bytes:
        """Null reads as empty."""
        return self.take(max(0, self.int_()))

    def string(self) -> str:
        return self.buffer().decode()

    def strings(self) -> list[str]:
        return [self.string() for _ in range(self.int_())]
