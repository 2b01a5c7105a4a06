"""A group of members that are nothing but connections: how long it takes to be settled again.

The members do what every client does: hear of the change by a heartbeat, join, bring the assignment if they lead, ask for it,
and ask for the offsets of what they were given. Settled is a group when all of that is done for the generation that holds.

Clients ask for news every three seconds, which is the same with every broker and would hide what the broker does. Here one
member asks over and over; as soon as it hears something, so do the others. A crash is measured from the end of the session of
whoever crashed.

The members share the machine with the broker, so they are cheap: what they send was made before, but for the few bytes that
change with a generation, and of an answer they look at what they need. What they were given is checked once the clock stands.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Final, cast

from ottla.wire import ErrorCode, Message, decode, encode, request_framer
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.k12_heartbeat import HeartbeatRequest
from ottla.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_S: Final = 6.0
LIFE_SIGN_S: Final = 1.0
WARM_UP: Final = 50
"""Joins and leaves before the first that counts: a JVM becomes faster for as long."""
AWAKE_S: Final = 0.2
CHANGES: Final = 10
"""Joins and leaves of a round. There is one crash, which takes as long as a session."""
JOIN, SYNC, BEAT, LEAVE, FETCH = 9, 5, 4, 5, 9
"""The versions that clients of 3.9 send, all with tags."""
TYPE, NAME = "consumer", "range"
_VERSION = b"\0\0"
_HEADER = 5
"""Of an answer: correlation id and tags."""
_CODE = slice(9, 11)
"""Behind the header and the time of throttling."""
_GENERATION = slice(11, 15)
_FOLLOWS = b"\1\0"
"""So ends the answer to somebody who joined and is told of no members: it does not lead."""
_FETCHED_CODE = slice(-4, -2)
"""Of the last group, before its tags and those of all."""
_MARK: Final = 0x7E57AB1E
"""Stands for the generation in what is made beforehand."""


class Line(asyncio.Protocol):
    """A connection with one request under way at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        if len(received) >= 4 and len(received) >= 4 + int.from_bytes(received[:4], "big"):
            assert self._answer is not None
            self._answer.set_result(received[4:])
            self._received = b""

    def ask(self, frame: bytes) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return self._answer

    def close(self) -> None:
        self._transport.close()


class Company:
    """What the members of a group have in common."""

    def __init__(self, port: int, topic: str, partitions: int, sizes: tuple[int, ...]) -> None:
        self.group = f"settling-{time.time_ns()}"
        self.partitions = partitions
        self._port = port
        self._topic = topic
        subscription = _VERSION + encode(ConsumerProtocolSubscription(topics=[topic]), 0)
        self._protocols = [JoinGroupRequestProtocol(name=NAME, metadata=subscription)]
        self._shares = {size: [self._share(range(part, partitions, size)) for part in range(size)] for size in sizes}
        """Assignments, by the number of members."""
        self.fetches: dict[bytes, bytes] = {}
        """What to ask for, by the answer that tells it, from its error on."""
        for size in sizes:
            for part, share in enumerate(self._shares[size]):
                told = SyncGroupResponse(protocol_type=TYPE, protocol_name=NAME, assignment=share)
                asked = OffsetFetchRequestTopics(name=topic, partition_indexes=list(range(part, partitions, size)))
                request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group, topics=[asked])])
                self.fetches[encode(told, SYNC)[_CODE.start - _HEADER :]] = frame(request, FETCH)

    def _share(self, partitions: range) -> bytes:
        mine = TopicPartition(topic=self._topic, partitions=list(partitions))
        return _VERSION + encode(ConsumerProtocolAssignment(assigned_partitions=[mine]), 0)

    def assign(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=share)
            for member_id, share in zip(members, self._shares[len(members)], strict=True)
        ]

    def join_request(self, member_id: str) -> bytes:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type=TYPE,
            protocols=self._protocols,
        )
        return frame(request, JOIN)

    async def new(self) -> Member:
        line = Line()
        await asyncio.get_running_loop().create_connection(lambda: line, "127.0.0.1", self._port)
        return Member(self, line)


class Member:
    def __init__(self, company: Company, line: Line) -> None:
        self.generation = b""
        self.last_sign_s = 0.0
        self.fetched = b""
        """The last answer to the question for offsets."""
        self._company = company
        self._line = line
        self._id = ""
        self._join = company.join_request("")
        self._beat: tuple[bytes, bytes]
        self._sync: tuple[bytes, bytes]

    def _call(self, member_id: str) -> None:
        """It has an id, and what it will send can be made."""
        company = self._company
        self._id = member_id
        self._join = company.join_request(member_id)
        beat = HeartbeatRequest(group_id=company.group, generation_id=_MARK, member_id=member_id)
        self._beat = around_mark(frame(beat, BEAT))
        self._sync = around_mark(frame(self._sync_request(_MARK, []), SYNC))

    def _sync_request(self, generation: int, assignments: list[SyncGroupRequestAssignment]) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._company.group,
            generation_id=generation,
            member_id=self._id,
            protocol_type=TYPE,
            protocol_name=NAME,
            assignments=assignments,
        )

    async def settle(self) -> None:
        """Join, and have an assignment and its offsets, however often the group begins anew meanwhile."""
        while True:
            joined = await self._line.ask(self._join)
            if joined[_CODE] == coded(ErrorCode.MEMBER_ID_REQUIRED):
                self._call(decode(JoinGroupResponse, JOIN, joined, _HEADER).member_id)
                continue
            expect(joined[_CODE])
            self.generation = joined[_GENERATION]
            synced = await self._line.ask(self._to_sync(joined))
            self.last_sign_s = time.perf_counter()
            if synced[_CODE] == coded(ErrorCode.REBALANCE_IN_PROGRESS):
                continue
            expect(synced[_CODE])
            self.fetched = await self._line.ask(self._company.fetches[synced[_CODE.start :]])
            expect(self.fetched[_FETCHED_CODE])
            return

    def _to_sync(self, joined: bytes) -> bytes:
        if joined.endswith(_FOLLOWS):
            return self.generation.join(self._sync)
        members = [each.member_id for each in decode(JoinGroupResponse, JOIN, joined, _HEADER).members]
        generation = int.from_bytes(self.generation, "big")
        return frame(self._sync_request(generation, self._company.assign(members)), SYNC)

    async def beat(self) -> bool:
        """Whether there is news: the group rebalances."""
        answer = await self._line.ask(self.generation.join(self._beat))
        self.last_sign_s = time.perf_counter()
        if answer[_CODE] == coded(ErrorCode.REBALANCE_IN_PROGRESS):
            return True
        expect(answer[_CODE])
        return False

    async def hear_and_settle(self) -> None:
        if not await self.beat():
            raise RuntimeError("there is no news")
        await self.settle()

    async def leave(self) -> None:
        request = LeaveGroupRequest(group_id=self._company.group, members=[MemberIdentity(member_id=self._id)])
        expect((await self._line.ask(frame(request, LEAVE)))[_CODE])
        self.crash()

    def crash(self) -> None:
        self._line.close()


async def settle(port: int, topic: str, members: int, partitions: int, rounds: int) -> dict[str, float]:
    """Median seconds until all is settled again after a join, a leave and a crash."""
    company = Company(port, topic, partitions, tuple(range(1, members + 2)))
    there = [await company.new() for _ in range(members)]
    await asyncio.gather(*(member.settle() for member in there))
    found: dict[str, list[float]] = {"join": [], "leave": [], "crash": []}
    for _ in range(WARM_UP):
        await join(company, there)
        await leave(there)
    for _ in range(rounds):
        for _ in range(CHANGES):
            found["join"].append(await join(company, there))
            found["leave"].append(await leave(there))
            check(there, partitions)
        await join(company, there)
        found["crash"].append(await crash(there))
        check(there, partitions)
    for member in there:
        member.crash()
    return {change: statistics.median(times) for change, times in found.items()}


async def join(company: Company, there: list[Member]) -> float:
    newcomer = await company.new()
    begin = time.perf_counter()
    await asyncio.gather(newcomer.settle(), hear(there))
    there.append(newcomer)
    return time.perf_counter() - begin


async def leave(there: list[Member]) -> float:
    leaver = there.pop(0)
    begin = time.perf_counter()
    await asyncio.gather(leaver.leave(), hear(there))
    return time.perf_counter() - begin


async def crash(there: list[Member]) -> float:
    crashed = there.pop(0)
    await crashed.beat()
    crashed.crash()
    ends_s = crashed.last_sign_s + SESSION_S
    while (left_s := ends_s - time.perf_counter()) > LIFE_SIGN_S:
        await asyncio.gather(*(member.beat() for member in there))
        await asyncio.sleep(min(LIFE_SIGN_S, left_s - LIFE_SIGN_S))
    # A broker that nobody talks to falls asleep, and it is not to be measured how it wakes up.
    await asyncio.sleep(max(ends_s - AWAKE_S - time.perf_counter(), 0))
    await hear(there)
    return time.perf_counter() - ends_s


async def hear(there: list[Member]) -> None:
    """One member waits for news; then all hear of it and settle."""
    while not await there[0].beat():
        pass
    await asyncio.gather(*(member.hear_and_settle() for member in there))


def check(there: list[Member], partitions: int) -> None:
    assert len({member.generation for member in there}) == 1, "all are in one generation"
    answers = [decode(OffsetFetchResponse, FETCH, member.fetched, _HEADER) for member in there]
    topics = [topic for answer in answers for topic in answer.groups[0].topics]
    given = [each.partition_index for topic in topics for each in topic.partitions]
    assert sorted(given) == list(range(partitions)), "every partition is somebody's"


def frame(request: Message, version: int) -> bytes:
    return b"".join(request_framer(type(request), version, "bench")(request, 0))


def around_mark(made: bytes) -> tuple[bytes, bytes]:
    before, mark, behind = made.partition(coded(_MARK, 4))
    assert mark
    return before, behind


def coded(number: int, size: int = 2) -> bytes:
    return number.to_bytes(size, "big")


def expect(code: bytes) -> None:
    if code != b"\0\0":
        raise RuntimeError(f"answered {ErrorCode(int.from_bytes(code, 'big', signed=True)).name}")
