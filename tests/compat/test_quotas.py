"""Quotas on Apache Kafka 3.9.1 and here, side by side: the same waits are told, and kept; nobody else is disturbed, nothing
is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ottla.records import Record, build_batch
from ottla.wire import ApiKey, ErrorCode, Message
from ottla.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from tests.compat.brokerpair import Side, Step, pair
from tests.peers.processes import slowness

TOPIC = "limited"
MAKE = CreateTopicsRequest(
    topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)], timeout_ms=60_000
)
NOTHING = MetadataRequest(topics=[])
RECORDS_BYTES = 110_000
RATE = 100_000
"""Bytes a second. Ten seconds' worth may come at once; what is more is waited for."""
OVER_MS = 1010
"""Ten batches, each with what is around it, are more by this; what has passed of the window meanwhile counts for them."""


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    with pair() as found:
        for side in found:
            side.run(Step(ApiKey.CREATE_TOPICS, 7, "", lambda _side, _version: MAKE))
        yield found


def limit(side: Side, client: str, key: str, value: float) -> None:
    entity = RequestEntityData(entity_type="client-id", entity_name=client)
    entry = RequestEntryData(entity=[entity], ops=[OpData(key=key, value=value)])
    answer = side.ask(AlterClientQuotasRequest(entries=[entry]), 1)
    assert isinstance(answer, AlterClientQuotasResponse)
    assert not answer.entries[0].error_code
    side._settle_configs()


def as_client(side: Side, name: str) -> Side:
    return Side(side.name, side.port, side.highest, client_id=name)


def produce() -> ProduceRequest:
    data = PartitionProduceData(index=0, records=build_batch([Record(None, bytes(RECORDS_BYTES), 1_700_000_000_000)]))
    return ProduceRequest(
        transactional_id=None, acks=1, timeout_ms=5000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )


def fetch(offset: int) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=200_000)
    return FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])])


def asked(side: Side, request: Message, version: int) -> Message:
    answer = side.ask(request, version)
    assert getattr(answer, "error_code", 0) == 0
    return answer


def test_a_producer_is_held_to_its_rate_and_nobody_else(sides: tuple[Side, Side]) -> None:
    for side in sides:
        limit(side, "slow", "producer_byte_rate", RATE)
        slow, free = as_client(side, "slow"), as_client(side, "free")
        end = side.end_offset(TOPIC)
        waits = []
        sent = []
        for number in range(10):
            sent.append(time.monotonic())
            answer = asked(slow, produce(), 9)
            assert isinstance(answer, ProduceResponse)
            partition = answer.responses[0].partition_responses[0]
            assert (partition.error_code, partition.base_offset) == (0, end + number)
            waits.append(answer.throttle_time_ms)
        passed_ms = (time.monotonic() - sent[0]) * 1000
        assert waits[:8] == [0] * 8, side.name
        unsure_ms = 10 * slowness()
        assert OVER_MS - passed_ms - unsure_ms <= waits[-1] <= OVER_MS + unsure_ms, side.name
        # The next request of the slow one is sent at once, and waits since the last one came; others do not.
        step = Step(ApiKey.METADATA, 12, "", lambda _side, _version: NOTHING, connection=-1)
        waiting = slow._send(step, 12, NOTHING)
        for _ in range(5):
            answer = asked(free, produce(), 9)
            assert isinstance(answer, ProduceResponse)
            assert answer.throttle_time_ms == 0
        assert isinstance(slow._receive(step, 12, waiting), MetadataResponse)
        assert (time.monotonic() - sent[-1]) * 1000 >= waits[-1] - 5, side.name
        slow.close()
        free.close()


def test_a_consumer_is_held_to_its_rate_and_gets_every_record(sides: tuple[Side, Side]) -> None:
    for side in sides:
        for _ in range(12):
            asked(side, produce(), 9)
        limit(side, "slow reader", "consumer_byte_rate", RATE * 2)
        reader = as_client(side, "slow reader")
        end, offset, waited, got = side.end_offset(TOPIC), 0, 0, []
        while offset < end:
            answer = asked(reader, fetch(offset), 11)
            assert isinstance(answer, FetchResponse)
            records = [each.records for topic in answer.responses for each in topic.partitions]
            if answer.throttle_time_ms:
                waited += answer.throttle_time_ms
                assert not any(records), "who is over gets no records"
            elif any(records):
                got.append(offset)
                offset += 1
        assert got == list(range(end))
        assert waited > 0, side.name
        reader.close()


def test_too_many_new_partitions_are_refused_until_later(sides: tuple[Side, Side]) -> None:
    told: list[list[tuple[str, bool]]] = []
    for side in sides:
        limit(side, "maker", "controller_mutation_rate", 0.5)  # or a slow machine has it back in time
        told.append([])
        for number in range(3):
            maker = as_client(side, "maker")  # on one connection, the next request would wait
            topic = CreatableTopic(name=f"made-{number}", num_partitions=50, replication_factor=1)
            answer = maker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
            assert isinstance(answer, CreateTopicsResponse)
            told[-1].append((ErrorCode(answer.topics[0].error_code).name, answer.throttle_time_ms > 5000))
            maker.close()
    kafka, ours = told
    refused = (ErrorCode.THROTTLING_QUOTA_EXCEEDED.name, True)
    assert ours == kafka == [("NONE", False), refused, refused]
