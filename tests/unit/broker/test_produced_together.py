"""Requests that came in one go are answered, and leave the log, as if they had come one by one."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import RemoteProtocolError
from ottla.base.scope import TaskScope
from ottla.broker.api import Answer, Parked
from ottla.broker.apis import k00_produce
from ottla.broker.context import Context
from ottla.broker.vetting import Vetting
from ottla.records import Codec, Record, build_batch
from ottla.records.errors import CorruptMessageError
from ottla.wire import ApiKey, ErrorCode, Message, encode, request_framer
from ottla.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.k18_api_versions import ApiVersionsRequest
from tests.sources import COMPILED
from tests.unit.broker.asked import LISTENER, Asked
from tests.unit.broker.test_acknowledging import Laborious
from tests.unit.broker.test_connection import until
from tests.unit.replica.pairs import NOW_MS, Broker, fetch

pytestmark = pytest.mark.skipif(COMPILED, reason="compiled handlers take nothing but the services of a broker")

VERSION = 9
PLAIN = build_batch([Record(None, b"plain", NOW_MS)] * 2)
LARGE = build_batch([Record(None, bytes(20_000), NOW_MS)])
CORRUPT = PLAIN[:-1] + b"?"
TRANSACTIONAL = build_batch([Record(None, b"t", NOW_MS)], producer_id=7, base_sequence=0, is_transactional=True)
LABORIOUS = build_batch([Record(b"2", bytes(100_000), NOW_MS)] * 100, codec=Codec.ZSTD)


def numbered(sequence: int, producer_id: int = 9) -> bytes:
    record = Record(None, b"%d" % sequence, NOW_MS)
    return build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


class Judges:
    """In the place of ``Vetting``: what it finds, or fails with."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def vet(self, *_: object, **__: object) -> object:
        raise self.error


@pytest.mark.parametrize(
    ("error", "acks", "is_answered"),
    [
        (CorruptMessageError("torn"), 1, True),
        (CorruptMessageError("torn"), 0, False),
        (ZeroDivisionError(), 1, False),
        (ZeroDivisionError(), 0, False),
    ],
)
def test_a_batch_that_is_found_wrong_later_costs_its_sender_no_more_than_one_found_wrong_at_once(
    tmp_path: Path, error: Exception, acks: int, *, is_answered: bool
) -> None:
    leader = Broker(tmp_path, 1)
    leader.order(1, 0, (1,), (1,))

    async def story() -> None:
        async with TaskScope("test") as scope:
            asked = Asked(leader, loop=asyncio.get_running_loop(), scope=scope, vetting=Judges(error))
            answer = asked.ask(ApiKey.PRODUCE, of(LABORIOUS, acks=acks), VERSION)
            assert isinstance(answer, Parked)
            told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            answer.when_complete(told.set_result)
            assert isinstance(await told, ProduceResponse if is_answered else RemoteProtocolError)

    try:
        asyncio.run(story())
    finally:
        leader.close()


BATCHES = st.one_of(
    st.sampled_from([PLAIN, CORRUPT, TRANSACTIONAL, b"", PLAIN + PLAIN]),
    st.builds(numbered, st.integers(0, 3), st.sampled_from([9, 10])),
)
TOPICS = st.builds(
    lambda name, batches: TopicProduceData(
        name=name, partition_data=[PartitionProduceData(index=index, records=each) for index, each in batches]
    ),
    st.sampled_from(["t", "t", "t", "unknown"]),
    st.lists(st.tuples(st.sampled_from([0, 0, 0, 1]), BATCHES), min_size=1, max_size=3),
)
REQUESTS = st.builds(
    lambda acks, topics: ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics),
    st.sampled_from([1, 1, -1, 0, 7]),
    st.lists(TOPICS, min_size=1, max_size=2),
)


class Pipelined:
    """A broker alone, and one of its clients."""

    def __init__(self, folder: Path) -> None:
        self.broker = Broker(folder, 1)
        self.broker.order(1, 0, (1,), (1,))
        self._asked = Asked(self.broker)
        self.context = Context(cast("Any", self._asked.services), LISTENER, ("127.0.0.1", 1))
        self.context.version = VERSION

    def one_by_one(self, requests: Sequence[ProduceRequest]) -> list[Answer | str]:
        answers: list[Answer | str] = []
        for request in requests:
            try:
                answers.append(k00_produce.handle(self.context, request))
            except RemoteProtocolError as error:
                return [*answers, str(error)]
        return answers

    def together(self, requests: Sequence[ProduceRequest]) -> list[Answer | str]:
        answers: list[Answer | str] = []
        while len(answers) < len(requests):
            for answer in k00_produce.together(self.context, list(requests[len(answers) :])):
                if isinstance(answer, RemoteProtocolError):
                    return [*answers, str(answer)]
                answers.append(answer)
        return answers


def shown(answers: Sequence[Answer | str]) -> list[bytes | str | None]:
    found: list[bytes | str | None] = []
    for answer in answers:
        assert not isinstance(answer, Parked)
        found.append(encode(answer, VERSION) if isinstance(answer, Message) else answer)
    return found


@settings(deadline=None)
@given(st.lists(REQUESTS, min_size=1, max_size=6))
def test_it_is_as_if_they_had_come_one_by_one(tmp_path_factory: pytest.TempPathFactory, requests: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("logs")
    one, other = Pipelined(folder / "one"), Pipelined(folder / "other")
    assert shown(other.together(requests)) == shown(one.one_by_one(requests))
    assert other.broker.bytes() == one.broker.bytes()
    assert other.broker.end == one.broker.end
    assert other.broker.high_watermark == one.broker.high_watermark
    for each in (one, other):
        each.broker.close()
    shutil.rmtree(folder)


def of(records: bytes, *, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def codes(answers: Sequence[Answer | str]) -> list[int]:
    found = []
    for answer in answers:
        assert isinstance(answer, ProduceResponse)
        found.append(answer.responses[0].partition_responses[0].error_code)
    return found


def fill_up(patch: pytest.MonkeyPatch) -> None:
    """The disk is full from now on."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "injected")

    patch.setattr(os, "pwrite", full)
    patch.setattr(os, "pwritev", full)


def test_they_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Pipelined(tmp_path)
    client.together([of(PLAIN)])  # the first of a file goes alone
    written = []

    def counted(name: str) -> None:
        real: Callable[..., int] = getattr(os, name)

        def write(fd: int, data: Any, position: int) -> int:
            size = real(fd, data, position)
            written.append((name, size))
            return size

        monkeypatch.setattr(os, name, write)

    counted("pwrite")
    counted("pwritev")
    assert codes(client.together([of(PLAIN)] * 5)) == [0] * 5
    assert codes(client.together([of(LARGE)] * 5)) == [0] * 5
    assert written == [("pwrite", 5 * len(PLAIN)), ("pwritev", 5 * len(LARGE))], "what is small is copied"
    client.broker.close()


def test_what_the_disk_does_not_take_is_acknowledged_to_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Pipelined(tmp_path)
    assert codes(client.together([of(PLAIN)])) == [0]

    fill_up(monkeypatch)
    code = ErrorCode.KAFKA_STORAGE_ERROR
    refused = client.together([of(PLAIN), of(numbered(0)), of(PLAIN, acks=-1)])
    assert codes(refused) == [code] * 3
    monkeypatch.undo()
    assert codes(client.together([of(PLAIN), of(PLAIN)])) == [code] * 2, "it stays offline"
    client.broker.close()


def test_whoever_asked_for_no_answer_hears_of_a_full_disk_by_the_end_of_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Pipelined(tmp_path)
    assert codes(client.together([of(PLAIN)])) == [0]

    fill_up(monkeypatch)
    answers = client.together([of(PLAIN), of(PLAIN, acks=0), of(PLAIN)])
    assert codes(answers[:1]) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert answers[1:] == ["a produce without acknowledgement failed"]
    client.broker.close()


def test_those_that_wait_for_a_follower_are_answered_when_it_has_them(tmp_path: Path) -> None:
    leader, follower = Broker(tmp_path, 1), Broker(tmp_path, 2)
    for broker in (leader, follower):
        broker.order(1, 0, (1, 2), (1, 2))

    async def story() -> None:
        asked = Asked(leader, loop=asyncio.get_running_loop())
        context = Context(cast("Any", asked.services), LISTENER, ("127.0.0.1", 1))
        context.version = VERSION
        told: list[Any] = []
        answers = k00_produce.together(context, [of(PLAIN, acks=-1), of(PLAIN, acks=1), of(PLAIN, acks=-1)])
        assert isinstance(answers[1], ProduceResponse)
        for answer in (answers[0], answers[2]):
            assert isinstance(answer, Parked)
            answer.when_complete(told.append)
        assert leader.high_watermark == 0
        fetch(follower, leader)
        assert not told
        fetch(follower, leader)
        assert codes(cast("Any", told)) == [0, 0]
        assert leader.high_watermark == leader.end == 6

    asyncio.run(story())
    leader.close()
    follower.close()


def test_a_connection_hands_over_what_came_in_one_go_and_answers_in_order(tmp_path: Path) -> None:
    """Among others, behind others, and around one that takes long."""
    leader = Broker(tmp_path, 1)
    leader.order(1, 0, (1,), (1,))
    produces = [PLAIN] * 20 + [LABORIOUS] + [PLAIN] * 5 + [CORRUPT] + [PLAIN] * 50
    frame, ask = request_framer(ProduceRequest, VERSION, None), request_framer(ApiVersionsRequest, 0, None)

    async def story() -> None:
        vetting = Vetting()
        async with TaskScope("test") as scope:
            stage = Laborious(leader, scope, vetting)
            stage.server.services.node = None
            server = await asyncio.get_running_loop().create_server(stage.connection, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            sent = b""
            for number, each in enumerate(produces):
                sent += b"".join(bytes(part) for part in frame(of(each), number))
                if number in (7, 30):
                    sent += b"".join(bytes(part) for part in ask(ApiVersionsRequest(), 1000 + number))
            writer.write(sent)
            heard = [await hear(reader) for _ in range(len(produces) + 2)]
            wanted = list(range(len(produces)))
            wanted.insert(8, 1007)
            wanted.insert(32, 1030)
            assert heard == wanted
            writer.close()
            await until(lambda: not stage.connections)
            server.close()
            await server.wait_closed()
            vetting.stop()
        route = stage.server.dispatch.route(ApiKey.PRODUCE, VERSION)
        assert route.count == len(produces), "each of them counts"
        assert route.times.total.count, "and of some, the time is taken"

    asyncio.run(asyncio.wait_for(story(), 120))
    assert leader.end == 2 * 75 + 100
    leader.close()


async def hear(reader: asyncio.StreamReader) -> int:
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    return int.from_bytes(answer[:4], "big")
