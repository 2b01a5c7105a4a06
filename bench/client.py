"""A small ZooKeeper client over a plain socket: fast, pipelined, and not written for the server it measures."""

from __future__ import annotations

import socket
import struct
from typing import Self

ANYONE = struct.pack(">ii", 1, 31) + b"\0\0\0\x05world" + b"\0\0\0\x06anyone"
CREATE, EXISTS, SET = 1, 3, 5


def buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class Client:
    """One session. Requests go out with ``send``; ``receive`` gives the next frame, whatever it is."""

    def __init__(self, port: int, *, timeout_s: float = 10.0, session: tuple[int, bytes] = (0, bytes(16))) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._xid = 0
        self._read = self.socket.makefile("rb")
        self.socket.sendall(buffer(struct.pack(">iqiq", 0, 0, 30_000, session[0]) + buffer(session[1]) + b"\0"))
        answer = self.receive()
        self.session_id: int = struct.unpack_from(">q", answer, 8)[0]
        self.password = answer[20:36]

    def receive(self) -> bytes:
        head = self._read.read(4)
        if len(head) < 4:
            raise EOFError("the server closed the connection")
        return self._read.read(int.from_bytes(head, "big"))

    def send(self, type_: int, body: bytes) -> None:
        self._xid += 1
        self.socket.sendall(buffer(struct.pack(">ii", self._xid, type_) + body))

    def call(self, type_: int, body: bytes) -> bytes:
        """One request and its reply's body; raises on an error code."""
        self.send(type_, body)
        reply = self.receive()
        error: int = struct.unpack_from(">i", reply, 12)[0]
        if error:
            raise OSError(error, f"operation {type_} answered {error}")
        return reply[16:]

    def create(self, path: bytes, data: bytes = b"x", flags: int = 0) -> None:
        self.call(CREATE, create_body(path, data, flags))

    def set(self, path: bytes, data: bytes) -> None:
        self.call(SET, buffer(path) + buffer(data) + struct.pack(">i", -1))

    def exists(self, path: bytes) -> None:
        self.call(EXISTS, buffer(path) + b"\0")

    def pipeline(self, type_: int, bodies: list[bytes], depth: int = 500) -> None:
        """Many requests, ``depth`` at a time; errors do not matter."""
        for at in range(0, len(bodies), depth):
            batch = bodies[at : at + depth]
            frames = []
            for body in batch:
                self._xid += 1
                frames.append(buffer(struct.pack(">ii", self._xid, type_) + body))
            self.socket.sendall(b"".join(frames))
            for _ in batch:
                self.receive()

    def close(self) -> None:
        self._read.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create_body(path: bytes, data: bytes, flags: int = 0) -> bytes:
    return buffer(path) + buffer(data) + ANYONE + struct.pack(">i", flags)
