"""What a producer is told, and in which order its records are there, with real logs behind the handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.base.scope import TaskScope
from ottla.broker.api import Parked
from ottla.broker.apis import k00_produce
from ottla.broker.connection import KafkaConnection
from ottla.broker.vetting import Vetting
from ottla.metadata.ids import BrokerId
from ottla.records import Codec, Record, build_batch, frames, read_batch
from ottla.wire import ApiKey, ErrorCode, Message, decode, parse_response_header, request_framer
from ottla.wire.messages.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.simcontroller.rejected import in_sync_are_counted_at_the_append_only
from tests.sources import COMPILED
from tests.unit.broker.asked import Asked
from tests.unit.broker.test_connection import Stage, until
from tests.unit.replica.pairs import NOW_MS, Broker, fetch

pytestmark = pytest.mark.skipif(COMPILED, reason="compiled handlers take nothing but the services of a broker")

VERSION = 9
LEADER, FOLLOWER = 1, 2
BOTH = (LEADER, FOLLOWER)
LAG_S = 10.0


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    leader, follower = Broker(tmp_path, LEADER), Broker(tmp_path, FOLLOWER)
    for broker in (leader, follower):
        broker.order(LEADER, 0, BOTH, BOTH)
    yield leader, follower
    leader.close()
    follower.close()


def produce(records: bytes, *, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def only(response: Message | None) -> PartitionProduceResponse:
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]


# L10: nothing is acknowledged that fewer have than are asked for.


def check_enough_in_sync(pair: tuple[Broker, Broker]) -> None:
    """Of two in sync, both needed, one is late and leaves: behind the append, and before it is acknowledged."""
    leader, follower = pair
    leader.partition.min_insync_replicas = 2
    batch = build_batch([Record(None, b"m", NOW_MS)])

    async def story() -> None:
        asked = Asked(leader, loop=asyncio.get_running_loop())
        answers: list[Any] = []

        def send() -> None:
            answer = asked.ask(ApiKey.PRODUCE, produce(batch), VERSION)
            assert isinstance(answer, Parked), answer
            answer.when_complete(answers.append)

        send()
        fetch(follower, leader)
        fetch(follower, leader)
        assert [only(answer).error_code for answer in answers] == [ErrorCode.NONE], "two have it"
        send()
        leader.partition.check_lag(now_s=LAG_S + 1, lag_s=LAG_S)
        (proposal,) = leader.proposals
        assert [member for member, _ in proposal.isr] == [LEADER]
        leader.partition.isr_confirmed(
            proposal.leader_epoch, (BrokerId(LEADER),), partition_epoch=proposal.partition_epoch + 1
        )
        assert only(answers[1]).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert leader.high_watermark == 1, "nobody reads what one alone has"
        refused = asked.told(ApiKey.PRODUCE, produce(batch), VERSION, ProduceResponse)
        assert only(refused).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert leader.end == 2

    asyncio.run(story())


def test_what_too_few_have_in_the_end_is_not_acknowledged(pair: tuple[Broker, Broker]) -> None:
    check_enough_in_sync(pair)


def test_a_broker_that_counts_who_is_in_sync_at_the_append_only_is_found_out(
    pair: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sync_are_counted_at_the_append_only(monkeypatch)
    with pytest.raises(AssertionError):
        check_enough_in_sync(pair)


# L17: the records of one client are there in the order in which it sent them.


class Laborious(Stage):
    """A broker's Produce behind a real connection."""

    def __init__(self, broker: Broker, scope: TaskScope, vetting: Vetting) -> None:
        super().__init__()
        asked = Asked(broker, loop=asyncio.get_running_loop(), scope=scope, vetting=vetting)
        self.server.services = asked.services
        self.server.dispatch = asked.dispatch

    def connection(self) -> KafkaConnection:
        return KafkaConnection(cast("Any", self.server), cast("Any", self.port))


def check_order(leader: Broker) -> None:
    """A batch that takes long to judge, with small ones before and behind it, all sent at once."""
    leader.order(LEADER, 1, (LEADER,), (LEADER,))
    large = build_batch([Record(b"2", bytes(100_000), NOW_MS)] * 100, codec=Codec.ZSTD)
    small = [build_batch([Record(b"%d" % number, None, NOW_MS)]) for number in range(6)]
    batches = [*small[:2], large, *small[3:]]

    async def story(send: Callable[[Message, int], None], hear: Callable[[], Awaitable[tuple[int, Message]]]) -> None:
        for number, batch in enumerate(batches):
            send(produce(batch, acks=1), number)
        heard = [await hear() for _ in batches]
        assert [correlation_id for correlation_id, _ in heard] == list(range(len(batches)))
        offsets = [only(response).base_offset for _, response in heard]
        assert offsets == [0, 1, 2, 102, 103, 104]

    asyncio.run(_played(leader, story))
    data = leader.bytes()
    keys = [next(read_batch(data, frame.position)).key for frame in frames(data)]
    assert keys == [b"%d" % number for number in range(6)]


async def _played(leader: Broker, story: Callable[..., Awaitable[None]]) -> None:
    frame = request_framer(ProduceRequest, VERSION, None)
    vetting = Vetting()
    async with TaskScope("test") as scope:
        stage = Laborious(leader, scope, vetting)
        server = await asyncio.get_running_loop().create_server(stage.connection, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())

        async def hear() -> tuple[int, Message]:
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            correlation_id, at = parse_response_header(ApiKey.PRODUCE, VERSION, answer)
            return correlation_id, decode(ProduceResponse, VERSION, answer, at)

        try:
            async with asyncio.timeout(120):
                await story(lambda request, number: writer.writelines(frame(request, number)), hear)
        finally:
            writer.close()
            await until(lambda: not stage.connections)
            server.close()
            await server.wait_closed()
            vetting.stop()


def test_what_is_sent_behind_a_batch_that_takes_long_does_not_overtake_it(pair: tuple[Broker, Broker]) -> None:
    check_order(pair[0])


def test_a_broker_that_appends_side_by_side_is_found_out(
    pair: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch is judged as soon as it is there, and appended once it is judged."""

    def parked(on_abandoned: Callable[[], None] | None = None, **_: bool) -> Parked:
        return Parked(on_abandoned)

    monkeypatch.setattr(k00_produce, "Parked", parked)
    with pytest.raises(AssertionError):
        check_order(pair[0])
