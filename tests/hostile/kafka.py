"""A Kafka client of bytes for hostile input, and one that does nothing wrong, which measures how long its answers take.

python -m tests.hostile.kafka PORT PID        the latter; see ``canary``
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from types import TracebackType
from typing import Self

from tests.hostile.canary import PACE_S, waited_ns
from tests.hostile.oracle import Undisturbed
from tests.peers.brokers import OttlaBrokers

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 0, 1, 2, 3, 8, 9
FIND_COORDINATOR, API_VERSIONS, CREATE_TOPICS, DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH = 10, 18, 19, 21, 23
NONE, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD = 0, 2, 10, 87


class ClosedError(Exception):
    """The server ended the connection."""


def i16(value: int) -> bytes:
    return struct.pack(">h", value)


def i32(value: int) -> bytes:
    return struct.pack(">i", value)


def i64(value: int) -> bytes:
    return struct.pack(">q", value)


def string(value: str) -> bytes:
    return i16(len(value.encode())) + value.encode()


def uvarint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*made, value))


def header(key: int, version: int, correlation: int = 1, client: str = "hostile") -> bytes:
    return i16(key) + i16(version) + i32(correlation) + string(client)


def produce(topic: str, records: bytes, *, acks: int = 1, count: int | None = None) -> bytes:
    """Version 7, the first that may carry zstd: no transactional id, one topic, one partition."""
    head = header(PRODUCE, 7) + i16(-1) + i16(acks) + i32(30_000)
    return head + i32(1) + string(topic) + i32(1) + i32(0) + i32(len(records) if count is None else count) + records


class Connection:
    def __init__(self, port: int, *, timeout_s: float = 60) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ClosedError from error

    def send_frame(self, body: bytes) -> None:
        self.send(i32(len(body)) + body)

    def receive(self) -> bytes:
        size = int.from_bytes(self._take(4), "big")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        parts = []
        while size > 0:
            try:
                part = self.socket.recv(min(size, 1 << 20))
            except ConnectionResetError as error:
                raise ClosedError from error
            if not part:
                raise ClosedError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def call(self, body: bytes) -> bytes:
        self.send_frame(body)
        return self.receive()

    def api_versions(self) -> bytes:
        """Version 0, whose answer is an error code and the APIs: after it, the client is known."""
        answer = self.call(header(API_VERSIONS, 0))
        assert answer[4:6] == i16(NONE)
        return answer

    def produce(self, topic: str, records: bytes, *, acks: int = -1) -> int:
        """The error code of the one partition."""
        answer = self.call(produce(topic, records, acks=acks))
        at = 4 + 4 + 2 + len(topic) + 4 + 4
        return int.from_bytes(answer[at : at + 2], "big", signed=True)

    def closes(self) -> bool:
        """Whether the server ends the connection, whatever it sends before."""
        try:
            while True:
                self._take(1)
        except ClosedError:
            return True
        except TimeoutError:
            return False
        finally:
            self.close()

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class UndisturbedBroker(Undisturbed):
    """Holds a broker to the guarantees while the body of the ``with`` attacks it."""

    CANARY = "tests.hostile.kafka"

    def __init__(self, brokers: OttlaBrokers, *, memory_max: int = 32 << 20, latency_max_s: float = 0.050) -> None:
        self.memory_max = memory_max
        self.latency_max_s = latency_max_s
        self.settle_s = 60
        self.server = brokers.brokers[0]
        self.port = brokers.ports[0]


def canary() -> None:
    """Asks for the APIs and then, at its pace, for the metadata of the cluster."""
    port, server = int(sys.argv[1]), int(sys.argv[2])
    latencies: list[float] = []
    failure = ""
    me = os.getpid()
    with Connection(port, timeout_s=120) as connection:
        connection.api_versions()
        print("ready", flush=True)
        try:
            while not select.select([sys.stdin], [], [], PACE_S)[0]:
                waits, started = waited_ns(server) + waited_ns(me), time.perf_counter()
                connection.call(header(METADATA, 1, client="canary") + i32(0))
                taken = time.perf_counter() - started
                waited = (waited_ns(server) + waited_ns(me) - waits) / 1e9
                latencies.append(max(taken - waited, 0.0))
        except (ClosedError, OSError) as error:
            failure = repr(error)
    print(json.dumps({"latencies": latencies, "failure": failure}), flush=True)


if __name__ == "__main__":
    canary()
