"""DescribeTopicPartitions, which Kafka 3.9 on ZooKeeper does not serve: pages, cursors and limits after KIP-966."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.apis.k75_describe_topic_partitions import handle
from ottla.broker.cluster import ClusterView
from ottla.broker.context import Context
from ottla.metadata import BrokerId, BrokerRegistration, Image, LeaderAndIsr, LiveBroker, ReplicaAssignment, Topic
from ottla.metadata.znodes.brokers import Endpoint
from ottla.wire import ErrorCode, decode, encode
from ottla.wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
    TopicRequest,
)

ONE = BrokerId(1)
Page = list[tuple[str | None, list[int]]]


def topic(name: str, partitions: int, *, leader: int = 1) -> Topic:
    state = LeaderAndIsr(BrokerId(leader), 2, (BrokerId(leader),), 1)
    numbers = range(partitions)
    return Topic(
        name, None, dict.fromkeys(numbers, ReplicaAssignment((BrokerId(leader),))), dict.fromkeys(numbers, state)
    )


def context(*, limit: int = 2000) -> Context:
    cluster = ClusterView()
    registration = BrokerRegistration(ONE, (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),))
    topics = {"a": topic("a", 3), "b": topic("b", 2), "gone": topic("gone", 1, leader=9)}
    cluster.image = Image(brokers={ONE: LiveBroker(registration, 1)}).with_topics(topics)
    config = SimpleNamespace(describe_partitions_max=limit)
    services = SimpleNamespace(cluster=cluster, config=config)
    return Context(cast("Any", services), "PLAINTEXT", ("127.0.0.1", 1))


def ask(
    ctx: Context, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    at = None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1])
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=at
    )
    answer = handle(ctx, request)
    return decode(DescribeTopicPartitionsResponse, 0, encode(answer, 0))


def page(answer: DescribeTopicPartitionsResponse) -> Page:
    return [(each.name, [partition.partition_index for partition in each.partitions]) for each in answer.topics]


def pages(ctx: Context, *names: str, limit: int) -> list[Page]:
    """All of them, as a client that goes on where the cursor says."""
    found: list[Page] = []
    cursor: tuple[str, int] | None = None
    while True:
        answer = ask(ctx, *names, limit=limit, cursor=cursor)
        found.append(page(answer))
        if answer.next_cursor is None:
            return found
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)


def test_all_topics_in_order_when_none_is_named() -> None:
    assert page(ask(context())) == [("a", [0, 1, 2]), ("b", [0, 1]), ("gone", [0])]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_pages_hold_no_more_than_the_limit_and_together_everything(limit: int) -> None:
    found = pages(context(), limit=limit)
    assert all(sum(len(numbers) for _, numbers in each) <= limit for each in found)
    told = [(name, number) for each in found for name, numbers in each for number in numbers]
    assert told == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("gone", 0)]


def test_the_broker_has_a_limit_of_its_own_and_none_is_below_one() -> None:
    assert page(ask(context(limit=2))) == [("a", [0, 1])]
    assert page(ask(context(), limit=0)) == [("a", [0])]


def test_topics_that_do_not_exist_are_named_and_count_nothing() -> None:
    answer = ask(context(), "b", "nowhere", "sp ace", "b", limit=2)
    assert page(answer) == [("b", [0, 1])]
    assert answer.next_cursor is not None
    assert answer.next_cursor.topic_name == "nowhere"
    codes = {each.name: each.error_code for each in ask(context(), "nowhere", "sp ace").topics}
    assert codes == {"nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "sp ace": ErrorCode.INVALID_TOPIC_EXCEPTION}


@pytest.mark.parametrize("cursor", [("a", 0), ("b", -1)])
def test_a_cursor_that_cannot_be_is_refused(cursor: tuple[str, int]) -> None:
    answer = ask(context(), "b", cursor=cursor)
    assert [each.error_code for each in answer.topics] == [ErrorCode.INVALID_REQUEST]


def test_a_partition_whose_leader_is_gone_has_none() -> None:
    (partition,) = ask(context(), "gone").topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (-1, 2, 0)
    assert (partition.offline_replicas, partition.eligible_leader_replicas) == ([9], [])
