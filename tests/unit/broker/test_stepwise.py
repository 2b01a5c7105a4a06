"""Requests that name very many partitions are answered a little at a time, and like any others."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import RemoteProtocolError
from ottla.base.scope import TaskScope
from ottla.broker.api import Answer, Parked, Reply
from ottla.broker.apis import (
    ALL,
    k00_produce,
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k21_delete_records,
    k23_offset_for_leader_epoch,
)
from ottla.broker.cluster import ClusterView
from ottla.broker.context import Context
from ottla.broker.dispatch import Dispatch
from ottla.broker.stepwise import AT_ONCE_MAX, NAMED_MAX
from ottla.coordinator.groups.formats import Stored
from ottla.coordinator.groups.shard import GroupShard
from ottla.coordinator.outcome import Outcome
from ottla.metadata.ids import BrokerId
from ottla.replica.replicas import Replicas
from ottla.wire import ApiKey, ErrorCode, Message
from ottla.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from ottla.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.sources import COMPILED

pytestmark = pytest.mark.skipif(COMPILED, reason="compiled handlers take nothing but the services of a broker")

VERSION = 7


def list_offsets(ctx: Context, count: int) -> Answer:
    wanted = [ListOffsetsPartition(partition_index=number) for number in range(count)]
    return k02_list_offsets.handle(
        ctx, ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=wanted)])
    )


def epochs(ctx: Context, count: int) -> Answer:
    wanted = [OffsetForLeaderPartition(partition=number) for number in range(count)]
    topics = [OffsetForLeaderTopic(topic="t", partitions=wanted)]
    return k23_offset_for_leader_epoch.handle(ctx, OffsetForLeaderEpochRequest(topics=topics))


def produce(ctx: Context, count: int) -> Answer:
    sent = [PartitionProduceData(index=number, records=b"") for number in range(count - 1)]
    topics = [TopicProduceData(name="t", partition_data=sent)]
    return k00_produce.handle(ctx, ProduceRequest(acks=1, topic_data=topics))


def delete_records(ctx: Context, count: int) -> Answer:
    wanted = [DeleteRecordsPartition(partition_index=number) for number in range(count - 1)]
    topics = [DeleteRecordsTopic(name="t", partitions=wanted)]
    return k21_delete_records.handle(ctx, DeleteRecordsRequest(topics=topics))


def commit(ctx: Context, count: int) -> Answer:
    wanted = [OffsetCommitRequestPartition(partition_index=number) for number in range(count - 1)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=wanted)]
    return k08_offset_commit.handle(ctx, OffsetCommitRequest(group_id="g", topics=topics))


def offsets(ctx: Context, count: int) -> Answer:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=list(range(count - 2)))]
    return k09_offset_fetch.handle(ctx, OffsetFetchRequest(group_id="g", topics=topics))


def metadata(ctx: Context, count: int) -> Answer:
    topics = [MetadataRequestTopic(name=f"t{number:06}") for number in range(count)]
    return k03_metadata.handle(ctx, MetadataRequest(topics=topics, allow_auto_topic_creation=False))


def told(answer: Message | None) -> list[tuple[int | str | None, int]]:
    """What was answered, in order."""
    match answer:
        case ListOffsetsResponse(topics=[topic]):
            return [(each.partition_index, each.error_code) for each in topic.partitions]
        case OffsetForLeaderEpochResponse(topics=[topic]):
            return [(each.partition, each.error_code) for each in topic.partitions]
        case ProduceResponse(responses=[topic]):
            return [(each.index, each.error_code) for each in topic.partition_responses]
        case DeleteRecordsResponse(topics=[topic]) | OffsetCommitResponse(topics=[topic]):
            return [(each.partition_index, each.error_code) for each in topic.partitions]
        case OffsetFetchResponse(topics=[topic]):
            return [(each.partition_index, each.error_code) for each in topic.partitions]
        case MetadataResponse():
            return [(each.name, each.error_code) for each in answer.topics]
        case _:
            raise AssertionError(answer)


class NoGroups:
    """A coordinator that has met no group yet."""

    def group(self, _group_id: str) -> None:
        return None

    def run(self, _group_id: str, operation: Callable[[GroupShard, int], Outcome[Stored]]) -> ErrorCode:
        for reply, response in operation(cast("Any", SimpleNamespace(groups={})), 0).replies:
            reply(response)
        return ErrorCode.NONE


def context(scope: TaskScope) -> Context:
    services = SimpleNamespace(
        scope=scope,
        clock=SystemClock(),
        cluster=ClusterView(),
        config=SimpleNamespace(auto_create_topics=False),
        dispatch=Dispatch(ALL),
        groups=NoGroups(),
        replicas=Replicas(BrokerId(1), [], cast("Any", None)),
    )
    ctx = Context(cast("Any", services), "PLAINTEXT", ("127.0.0.1", 1))
    ctx.version = VERSION
    return ctx


@pytest.mark.parametrize("ask", [produce, list_offsets, epochs, metadata, delete_records, commit, offsets])
def test_many_are_answered_later_and_in_order(ask: Any) -> None:
    async def story() -> None:
        async with TaskScope("test") as scope:
            ctx = context(scope)
            few = ask(ctx, AT_ONCE_MAX)
            assert isinstance(few, Message)
            many = ask(ctx, 4 * AT_ONCE_MAX)
            assert isinstance(many, Parked)
            assert many.holds, "what is sent behind it waits"
            ctx.version = 0  # the connection is at another request by now
            answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            many.when_complete(answered.set_result)
            answers = told(await answered)
            assert answers[: len(told(few))] == told(few)
            assert len(answers) == len(told(few)) + 3 * AT_ONCE_MAX
            assert answers == sorted(answers)
            assert {code for _, code in answers} <= {
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.LEADER_NOT_AVAILABLE,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            }

    asyncio.run(story())


@pytest.mark.parametrize("ask", [produce, list_offsets, epochs, delete_records, commit, offsets])
def test_more_than_anybody_has_are_not_looked_at(ask: Any) -> None:
    async def story() -> None:
        async with TaskScope("test") as scope:
            with pytest.raises(RemoteProtocolError):
                ask(context(scope), NAMED_MAX + 2)

    asyncio.run(story())


def test_a_produce_of_many_that_nobody_acknowledges_is_done_without_a_word() -> None:
    async def story() -> None:
        async with TaskScope("test") as scope:
            ctx = context(scope)
            sent = [PartitionProduceData(index=number, records=b"") for number in range(AT_ONCE_MAX)]
            request = ProduceRequest(acks=0, topic_data=[TopicProduceData(name="t", partition_data=sent)])
            answer = k00_produce.handle(ctx, request)
            assert isinstance(answer, Parked)
            answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            answer.when_complete(answered.set_result)
            assert await answered is None
            refused = ctx.services.dispatch.tallies.errors[ApiKey.PRODUCE]
            assert refused == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: AT_ONCE_MAX}

    asyncio.run(story())


def test_whoever_goes_while_an_answer_follows_another_is_not_waited_for() -> None:
    gone: list[str] = []
    outer, inner = Parked(holds=True), Parked(on_abandoned=lambda: gone.append("inner"))
    outer.follow(inner)
    assert outer.on_abandoned is not None
    outer.on_abandoned()
    assert gone == ["inner"]
    inner.complete(None)
    assert outer.is_complete


def test_an_answer_that_was_given_is_let_go_of_at_once() -> None:
    """Collected as a cycle, 65,000 partitions of a request held the loop for 140 ms, some requests later."""

    class Waiting:
        parked: Parked

    def story() -> weakref.ref[Waiting]:
        waiting = Waiting()
        waiting.parked = Parked(on_abandoned=lambda: print(waiting))
        waiting.parked.when_complete(lambda _: print(waiting))
        waiting.parked.complete(None)
        return weakref.ref(waiting)

    gc.disable()
    try:
        assert story()() is None
    finally:
        gc.enable()
