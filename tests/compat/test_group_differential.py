"""Groups behave as with Apache Kafka 3.9.1: the same random requests to both, every answer compared field by field."""

from __future__ import annotations

import pytest

from ottla.records import Record, build_batch
from ottla.wire import APIS, ApiKey, ErrorCode
from ottla.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.k20_delete_topics import DeleteTopicsRequest
from tests.compat.broker_requests import GROUP_APIS
from tests.compat.brokerpair import Side, Step
from tests.compat.group_differential import compare, group_pair
from tests.peers.processes import wait_until

QUICK = (2, 1000)
FULL = [(seed, 2500) for seed in range(20, 24)]
"""Seed and number of requests."""


def served() -> set[str]:
    """Every API of groups, in every version that a client may use."""
    wanted = set()
    for key in GROUP_APIS:
        low, high = APIS[key].offered
        wanted |= {f"{key.name} {version}" for version in range(low, high + 1)}
    return wanted


def refusal_of_a_producer(side: Side) -> int:
    """What a client is told that writes where groups are kept."""
    batch = build_batch([Record(b"k", b"v", 1)])
    topic = TopicProduceData(name="__consumer_offsets", partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = side.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]), 9)
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def forgets_deleted_topics(side: Side) -> None:
    """What was committed for a topic goes with it, and the rest stays."""
    for name in ("short-lived", "t"):
        if name not in side.topic_ids:
            new = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
            side.run(Step(ApiKey.CREATE_TOPICS, 5, "", lambda _side, _version, new=new: new))  # type: ignore[misc]
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        commit = OffsetCommitRequest(
            group_id="forgetful", topics=[OffsetCommitRequestTopic(name=name, partitions=[place])]
        )
        done = side.ask(commit, 8)
        assert isinstance(done, OffsetCommitResponse)
        assert not done.topics[0].partitions[0].error_code

    def known() -> set[str]:
        answer = side.ask(OffsetFetchRequest(group_id="forgetful", topics=None), 7)
        assert isinstance(answer, OffsetFetchResponse)
        return {topic.name for topic in answer.topics}

    assert known() == {"short-lived", "t"}
    gone = DeleteTopicsRequest(topic_names=["short-lived"], timeout_ms=20_000)
    side.run(Step(ApiKey.DELETE_TOPICS, 5, "", lambda _side, _version: gone))
    wait_until(lambda: known() == {"t"}, timeout_s=120, what=f"{side.name} forgets the offsets of a deleted topic")


def test_same_answers_as_kafka() -> None:
    seed, requests = QUICK
    with group_pair() as sides:
        compared = compare(*sides, seed, requests)
        assert [refusal_of_a_producer(side) for side in sides] == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 2
        for side in sides:
            forgets_deleted_topics(side)
    assert served() <= compared.keys(), "an API or a version was not asked for"
    assert compared.total() > requests * 0.9


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "requests"), FULL)
def test_same_answers_as_kafka_in_full(seed: int, requests: int) -> None:
    with group_pair() as (kafka, ours):
        compared = compare(kafka, ours, seed, requests)
    assert compared.total() > requests * 0.9
