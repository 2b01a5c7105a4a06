"""What comes over a fetcher's connection when the controller has decided otherwise meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from ottla.base.clock import ManualClock
from ottla.metadata import BrokerId, LeaderAndIsr, TopicId, TopicPartition
from ottla.records import Record, build_batch
from ottla.replica.fetcher import Fetcher, FetchSettings, LeaderHere
from ottla.replica.replicas import Order
from ottla.wire import ErrorCode, Message
from ottla.wire.messages.k01_fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.unit.replica.pairs import NOW_MS, TOPIC_ID, Broker

LEADER, OWN = BrokerId(1), BrokerId(2)
SETTINGS = FetchSettings(OWN, 1, 500, 1, 1 << 20, 1 << 20, backoff_ms=1, timeout_ms=60_000)
OTHER = TopicPartition("u", 0)


class Leader:
    """Every request waits until the test has an answer for it."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[Message, asyncio.Future[Message]]] = asyncio.Queue()

    def dial(self, host: str, port: int, *, client_id: str) -> Any:
        del client_id
        return _Line(self, host, port)


class _Line:
    def __init__(self, leader: Leader, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._leader = leader

    async def call(self, request: Message, *_: object, **__: object) -> Message:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._leader.asked.put_nowait((request, answer))
        return await answer

    def close(self) -> None:
        pass


class Scene:
    def __init__(self, folder: Path, settings: FetchSettings) -> None:
        self.leader = Leader()
        here = LeaderHere(lambda _broker: ("h", 1), lambda: 1, cast("Any", self.leader.dial))
        self.fetcher = Fetcher(LEADER, 0, settings, here, ManualClock())
        self.broker = Broker(folder, OWN)
        self.broker.order(LEADER, 0, (1, 2), (1, 2))
        self.fetcher.follow(self.broker.partition)

    async def fetch(self) -> tuple[FetchRequest, asyncio.Future[Message]]:
        request, answer = await self.leader.asked.get()
        assert isinstance(request, FetchRequest), request
        return request, answer


def play(folder: Path, story: Callable[[Scene], Awaitable[None]], settings: FetchSettings = SETTINGS) -> None:
    async def run() -> None:
        async with asyncio.timeout(60):
            scene = Scene(folder, settings)
            running = asyncio.ensure_future(scene.fetcher.run())
            telling = asyncio.ensure_future(story(scene))
            await asyncio.wait((running, telling), return_when=asyncio.FIRST_COMPLETED)
            if not telling.done():
                running.result()  # why it ended before the story
            await telling
            running.cancel()
            scene.broker.close()

    asyncio.run(run())


def answer_of(data: PartitionData) -> FetchResponse:
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
    return FetchResponse(session_id=1, responses=[topic])


def test_a_partition_that_is_followed_no_more_while_its_leader_is_asked_where_to_begin(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        state = LeaderAndIsr(LEADER, 0, (LEADER, OWN), 1)
        order = Order(OTHER, TopicId(b"another topic's."), state, (LEADER, OWN))
        scene.broker.replicas.obey(order, now_ms=NOW_MS, now_s=0.0)
        scene.fetcher.follow(scene.broker.replicas.partition(*OTHER))
        _, answer = await scene.fetch()
        answer.set_result(answer_of(PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)))
        for _ in range(2):
            request, answer = await scene.leader.asked.get()
            assert isinstance(request, ListOffsetsRequest)
            scene.fetcher.forget(scene.broker.partition)
            found = ListOffsetsTopicResponse(name="t", partitions=[ListOffsetsPartitionResponse(offset=0)])
            answer.set_result(ListOffsetsResponse(topics=[found]))
        request, _ = await scene.fetch()
        assert [topic.topic_id for topic in request.forgotten_topics_data] == [TOPIC_ID]
        assert len(scene.fetcher) == 1

    play(tmp_path, story)


def test_what_was_asked_for_in_an_earlier_epoch_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """The answer came, and before it was looked at, the controller had elected somebody else and the old leader again."""

    async def story(scene: Scene) -> None:
        request, answer = await scene.fetch()
        assert request.topics[0].partitions[0].current_leader_epoch == 0
        records = build_batch([Record(None, b"of the past", NOW_MS)])
        answer.set_result(answer_of(PartitionData(high_watermark=1, records=records)))
        scene.broker.order(LEADER, 2, (1, 2), (1, 2))
        scene.fetcher.follow(scene.broker.partition)
        request, answer = await scene.fetch()
        assert request.topics[0].partitions[0].current_leader_epoch == 2
        assert scene.broker.end == 0
        answer.set_result(answer_of(PartitionData(high_watermark=1, records=records)))
        await scene.fetch()
        assert scene.broker.end == 1

    play(tmp_path, story)


def test_whoever_comes_does_not_wait_for_the_answer_to_the_others(tmp_path: Path) -> None:
    """A fetch waits at the leader for records, perhaps for long: with somebody new, it is asked again with everybody."""

    async def story(scene: Scene) -> None:
        await scene.fetch()
        state = LeaderAndIsr(LEADER, 0, (LEADER, OWN), 1)
        order = Order(OTHER, TopicId(b"another topic's."), state, (LEADER, OWN))
        scene.broker.replicas.obey(order, now_ms=NOW_MS, now_s=0.0)
        scene.fetcher.follow(scene.broker.replicas.partition(*OTHER))
        request, _ = await scene.fetch()
        assert len(request.topics) == 2

    play(tmp_path, story)


def test_a_leader_that_does_not_answer_in_time_is_asked_again(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for _ in range(3):
            request, _ = await scene.fetch()
            assert request.session_epoch == 0, "nothing is known of the session any more"

    play(tmp_path, story, SETTINGS._replace(timeout_ms=20))
