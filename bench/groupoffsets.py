"""Offsets committed as fast as a broker takes them, and loaded again by a coordinator that comes up.

Requests are made beforehand and sent as bytes, so that the broker is measured and not a client: commits over a few
connections, each for a group of its own, with a number of them under way at any time.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Final

from bench.brokers import Contestant
from ottla.peers import Peer
from ottla.wire import ErrorCode, decode, request_framer
from ottla.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

COMMIT_VERSION: Final = 7
CONNECTIONS: Final = 4
UNDER_WAY: Final = 100
"""Commits on each connection."""
FETCH_VERSION: Final = 5
CHUNK: Final = 50
MANY: Final = 500
"""Groups that are asked for at once when a coordinator is up again."""
PAUSE_S: Final = 0.01
"""Before a coordinator that loads is asked again."""
GROUPS_EVERYWHERE: Final = 500
"""So many that each partition of ``__consumer_offsets`` has some."""
_ERROR_AT: Final = -2
"""A response without tags ends with the error of its last partition, or of all."""
_HEADER_BYTES: Final = 4
"""Of an answer without tags: the correlation id."""
_OFFSET_AT: Final = _HEADER_BYTES + 4 + 4 + 2 + 4 + 4
"""In the answer to a question for one offset, behind the name of its topic: throttling, lengths, partition."""


class Line:
    """A connection over which requests go out in chunks, ready-made, and answers come back as bytes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = self._socket.makefile("rb", 1 << 16)

    def send(self, requests: bytes) -> None:
        self._socket.sendall(requests)

    def receive(self) -> bytes:
        answer: bytes = self._read.read(int.from_bytes(self._read.read(4), "big"))
        return answer

    def close(self) -> None:
        self._read.close()
        self._socket.close()


class Committing:
    """One connection that commits for one group, over and over."""

    def __init__(self, port: int, group: str, topic: str, partitions: range) -> None:
        self.answered = 0
        self._line = Line(port)
        self._chunk = b"".join(frames(group, topic, ([number % len(partitions)] for number in range(CHUNK))))

    def send(self) -> None:
        self._line.send(self._chunk)

    def receive(self) -> None:
        for _ in range(CHUNK):
            answer = self._line.receive()
            if answer[_ERROR_AT:] != b"\0\0":
                raise RuntimeError(f"a commit was answered {ErrorCode(int.from_bytes(answer[_ERROR_AT:], 'big')).name}")
        self.answered += CHUNK

    def close(self) -> None:
        self._line.close()


def frames(group: str, topic: str, commits: Iterable[Iterable[int]]) -> Iterator[bytes]:
    framer = request_framer(OffsetCommitRequest, COMMIT_VERSION, "bench")
    for number, partitions in enumerate(commits):
        yield b"".join(framer(commit(group, topic, partitions, number), number))


def commit(group: str, topic: str, partitions: Iterable[int], offset: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=each, committed_offset=offset) for each in partitions
                ],
            )
        ],
    )


def commits_per_s(port: int, topic: str, partitions: int, seconds: float) -> float:
    """What is sustained over ``seconds``."""
    lines = [Committing(port, f"committing-{number}", topic, range(partitions)) for number in range(CONNECTIONS)]
    for line in lines:
        for _ in range(UNDER_WAY // CHUNK):
            line.send()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for line in lines:
            line.receive()
            line.send()
    took = time.perf_counter() - begin
    answered = sum(line.answered for line in lines)
    for line in lines:
        line.close()
    return answered / took


async def wait_coordinated(port: int, topic: str) -> None:
    """Until groups are looked after wherever they belong, and the topic is known there."""
    peer = Peer("127.0.0.1", port, client_id="bench")
    await peer.call(FindCoordinatorRequest(key="any"), 2, FindCoordinatorResponse)
    for number in range(GROUPS_EVERYWHERE):
        request = commit(f"anywhere-{number}", topic, [0], 0)
        while True:
            answer = await peer.call(request, COMMIT_VERSION, OffsetCommitResponse)
            if not answer.topics[0].partitions[0].error_code:
                break
            await asyncio.sleep(0.05)
    peer.close()


def fill(port: int, topic: str, partitions: int, groups: int) -> None:
    """Each of so many groups commits each of the partitions."""
    line = Line(port)
    for start in range(0, groups, CHUNK):
        numbers = range(start, min(start + CHUNK, groups))
        framer = request_framer(OffsetCommitRequest, COMMIT_VERSION, "bench")
        requests = [framer(commit(f"kept-{number}", topic, range(partitions), number), 0) for number in numbers]
        line.send(b"".join(part for request in requests for part in request))
        for number in numbers:
            answer = decode(OffsetCommitResponse, COMMIT_VERSION, line.receive(), _HEADER_BYTES)
            if any(each.error_code for each in answer.topics[0].partitions):
                raise RuntimeError(f"a commit of kept-{number} was refused")
    line.close()


def wait_loaded(port: int, topic: str, groups: int) -> None:
    """Until every group has told an offset of its own, asked over and over as long as it has none to tell."""
    framer = request_framer(OffsetFetchRequest, FETCH_VERSION, "bench")
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    requests = [
        b"".join(framer(OffsetFetchRequest(group_id=f"kept-{number}", topics=topics), number))
        for number in range(groups)
    ]
    line, waiting = Line(port), list(range(groups))
    while waiting:
        asked = waiting[:1] if len(waiting) == groups else waiting[:MANY]
        line.send(b"".join([requests[number] for number in asked]))
        answers = [line.receive() for _ in asked]
        late = [number for number, answer in zip(asked, answers, strict=True) if not is_told(answer, number, topic)]
        waiting = waiting[len(asked) :] + late
        if late:
            time.sleep(PAUSE_S)
    line.close()


def is_told(answer: bytes, number: int, topic: str) -> bool:
    """False as long as the coordinator loads; otherwise the offset has to be that of the group."""
    if answer[_ERROR_AT:] != b"\0\0":
        return False
    at = _OFFSET_AT + len(topic)
    if int.from_bytes(answer[at : at + 8], "big", signed=True) != number:
        raise RuntimeError(f"the offset of kept-{number} is lost")
    return True


def load_s(broker: Contestant, topic: str, groups: int) -> tuple[float, float]:
    """Start a broker that has offsets to load; seconds from its first answer, and from its start, until all are there."""
    begin = time.perf_counter()
    broker.start()
    wait_loaded(broker.port, topic, groups)
    took = time.perf_counter() - begin
    return took - broker.ready_s, took
