"""The typed codecs of Produce and Fetch and those made from the table are one and the same, whatever they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire import ZERO_UUID, DecodeError, Message, encode, in_memory
from ottla.wire.codec import decoder, decoder_of_the_table
from ottla.wire.fetch import FetchDecoder, FetchFramer
from ottla.wire.fetchclient import FetchRequestFramer, FetchResponseDecoder
from ottla.wire.frames import (
    request_framer,
    request_framer_of_the_table,
    response_framer,
    response_framer_of_the_table,
)
from ottla.wire.messages import k00_produce, k01_fetch
from ottla.wire.produce import NAMED_MAX, UNUSUAL_BYTES_MAX, ProduceDecoder, ProduceFramer

names = st.one_of(st.text(max_size=40), st.just("x" * 130), st.just("y" * 249))
uuids = st.binary(min_size=16, max_size=16)
i8s = st.integers(-128, 127)
i16s = st.integers(-(2**15), 2**15 - 1)
i32s = st.integers(-(2**31), 2**31 - 1)
i64s = st.integers(-(2**63), 2**63 - 1)
records = st.one_of(st.none(), st.binary(max_size=300), st.just(b"r" * 20_000))

produce_requests = st.builds(
    k00_produce.ProduceRequest,
    transactional_id=st.one_of(st.none(), names),
    acks=i16s,
    timeout_ms=i32s,
    topic_data=st.lists(
        st.builds(
            k00_produce.TopicProduceData,
            name=names,
            topic_id=uuids,
            partition_data=st.lists(
                st.builds(k00_produce.PartitionProduceData, index=i32s, records=records), max_size=3
            ),
        ),
        max_size=3,
    ),
)
plain_produced = st.builds(
    k00_produce.PartitionProduceResponse,
    index=i32s,
    error_code=i16s,
    base_offset=i64s,
    log_append_time_ms=i64s,
    log_start_offset=i64s,
)
refused = st.builds(
    k00_produce.PartitionProduceResponse,
    error_message=st.one_of(st.none(), names),
    record_errors=st.lists(st.builds(k00_produce.BatchIndexAndErrorMessage, batch_index=i32s), max_size=2),
)
produce_responses = st.builds(
    k00_produce.ProduceResponse,
    responses=st.lists(
        st.builds(
            k00_produce.TopicProduceResponse,
            name=names,
            topic_id=uuids,
            partition_responses=st.lists(st.one_of(plain_produced, refused), max_size=2),
        ),
        max_size=2,
    ),
    throttle_time_ms=i32s,
)

fetch_requests = st.builds(
    k01_fetch.FetchRequest,
    max_wait_ms=i32s,
    min_bytes=i32s,
    max_bytes=i32s,
    isolation_level=i8s,
    session_id=i32s,
    session_epoch=i32s,
    topics=st.lists(
        st.builds(
            k01_fetch.FetchTopic,
            topic=names,
            topic_id=uuids,
            partitions=st.lists(
                st.builds(
                    k01_fetch.FetchPartition,
                    partition=i32s,
                    current_leader_epoch=i32s,
                    fetch_offset=i64s,
                    log_start_offset=i64s,
                    partition_max_bytes=i32s,
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
    rack_id=names,
)
forgetful = st.builds(
    k01_fetch.FetchRequest,
    forgotten_topics_data=st.lists(
        st.builds(k01_fetch.ForgottenTopic, topic=names, topic_id=uuids, partitions=st.lists(i32s, max_size=3)),
        max_size=2,
    ),
)
followers = st.builds(
    k01_fetch.FetchRequest,
    cluster_id=names,
    topics=st.just(
        [k01_fetch.FetchTopic(topic="t", partitions=[k01_fetch.FetchPartition(last_fetched_epoch=4, fetch_offset=9)])]
    ),
)
replicas = st.builds(
    k01_fetch.FetchRequest,
    replica_state=st.builds(k01_fetch.ReplicaState, replica_id=i32s, replica_epoch=i64s),
    cluster_id=st.one_of(st.none(), names),
    max_wait_ms=i32s,
    isolation_level=i8s,
    session_epoch=i32s,
    topics=st.lists(
        st.builds(
            k01_fetch.FetchTopic,
            topic_id=uuids,
            partitions=st.lists(
                st.builds(
                    k01_fetch.FetchPartition,
                    partition=i32s,
                    fetch_offset=i64s,
                    last_fetched_epoch=i32s,
                    replica_directory_id=st.one_of(st.just(ZERO_UUID), uuids),
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
    forgotten_topics_data=st.lists(
        st.builds(k01_fetch.ForgottenTopic, topic_id=uuids, partitions=st.lists(i32s, max_size=3)), max_size=2
    ),
    rack_id=names,
)
fetched = st.builds(
    k01_fetch.PartitionData,
    partition_index=i32s,
    error_code=i16s,
    high_watermark=i64s,
    last_stable_offset=i64s,
    log_start_offset=i64s,
    aborted_transactions=st.one_of(
        st.none(),
        st.lists(st.builds(k01_fetch.AbortedTransaction, producer_id=i64s, first_offset=i64s), max_size=3),
    ),
    records=records,
)
fetch_responses = st.builds(
    k01_fetch.FetchResponse,
    throttle_time_ms=i32s,
    error_code=i16s,
    responses=st.lists(
        st.builds(
            k01_fetch.FetchableTopicResponse, topic=names, topic_id=uuids, partitions=st.lists(fetched, max_size=3)
        ),
        max_size=2,
    ),
)
diverged = st.builds(
    k01_fetch.PartitionData,
    diverging_epoch=st.builds(k01_fetch.EpochEndOffset, epoch=i32s, end_offset=i64s),
    preferred_read_replica=i32s,
)
told = st.builds(
    k01_fetch.FetchResponse,
    session_id=i32s,
    responses=st.lists(
        st.builds(
            k01_fetch.FetchableTopicResponse,
            topic_id=uuids,
            partitions=st.lists(st.one_of(fetched, diverged), max_size=3),
        ),
        max_size=2,
    ),
    node_endpoints=st.lists(st.builds(k01_fetch.NodeEndpoint, node_id=i32s, host=names), max_size=1),
)
produce_versions = st.integers(3, 13)
fetch_versions = st.integers(4, 18)


def check_read(message: Message, version: int, before: bytes) -> None:
    data = before + encode(message, version)
    cls = type(message)
    assert decoder(cls, version)(data, len(before)) == decoder_of_the_table(cls, version)(data, len(before))


def check_injured(message: Message, version: int, data: st.DataObject) -> None:
    """Refused by both with the same words, or by none."""
    whole = bytearray(encode(message, version))
    cut = data.draw(st.integers(0, len(whole)))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(0, 255))
    cls = type(message)
    for injured in (bytes(whole[:cut]), bytes(whole)):
        assert outcome(decoder(cls, version), injured) == outcome(decoder_of_the_table(cls, version), injured)


def outcome(decode: Callable[..., Any], data: bytes) -> object:
    try:
        return decode(data)
    except DecodeError as error:
        return str(error)


def check_written(message: Message, version: int, correlation_id: int) -> None:
    cls = type(message)
    theirs = response_framer_of_the_table(cls, version)(message, correlation_id)
    assert b"".join(map(in_memory, response_framer(cls, version)(message, correlation_id))) == b"".join(
        map(in_memory, theirs)
    )


@settings(max_examples=40)
@given(produce_requests, st.binary(max_size=3))
def test_a_produce_is_read_as_the_table_has_it(message: Message, before: bytes) -> None:
    for version in range(3, 14):
        check_read(message, version, before)


@given(produce_requests, produce_versions, st.data())
def test_what_is_no_produce_is_refused_by_both(message: Message, version: int, data: st.DataObject) -> None:
    check_injured(message, version, data)


@settings(max_examples=40)
@given(produce_responses, i32s)
def test_what_became_of_a_produce_is_written_as_the_table_has_it(message: Message, number: int) -> None:
    for version in range(3, 14):
        check_written(message, version, number)


@settings(max_examples=40)
@given(fetch_requests, st.binary(max_size=3))
def test_a_fetch_is_read_as_the_table_has_it(message: Message, before: bytes) -> None:
    for version in range(4, 19):
        check_read(message, version, before)


@given(forgetful, st.integers(7, 18))
def test_what_a_session_forgets_is_read_as_the_table_has_it(message: Message, version: int) -> None:
    check_read(message, version, b"")


@given(followers, st.integers(12, 18))
def test_what_followers_say_of_themselves_is_read_as_the_table_has_it(message: Message, version: int) -> None:
    check_read(message, version, b"")


@given(replicas, st.integers(15, 18), i32s)
def test_a_followers_fetch_is_read_and_written_as_the_table_has_it(message: Message, version: int, number: int) -> None:
    check_read(message, version, b"")
    cls = type(message)
    for client_id in ("broker-1-fetcher-0", None):
        theirs = request_framer_of_the_table(cls, version, client_id)(message, number)
        assert b"".join(request_framer(cls, version, client_id)(message, number)) == b"".join(map(in_memory, theirs))


@given(replicas, st.integers(15, 18), st.data())
def test_what_is_no_followers_fetch_is_refused_by_both(message: Message, version: int, data: st.DataObject) -> None:
    check_injured(message, version, data)


@settings(max_examples=40)
@given(fetch_responses, st.binary(max_size=3))
def test_what_was_fetched_is_read_as_the_table_has_it(message: Message, before: bytes) -> None:
    for version in range(4, 19):
        check_read(message, version, before)


@given(told, st.integers(16, 18))
def test_what_followers_are_told_is_read_as_the_table_has_it(message: Message, version: int) -> None:
    check_read(message, version, b"")


@given(told, st.integers(16, 18), st.data())
def test_what_nobody_fetched_is_refused_by_both(message: Message, version: int, data: st.DataObject) -> None:
    check_injured(message, version, data)


@given(fetch_requests, fetch_versions, st.data())
def test_what_is_no_fetch_is_refused_by_both(message: Message, version: int, data: st.DataObject) -> None:
    check_injured(message, version, data)


@settings(max_examples=40)
@given(fetch_responses, i32s)
def test_what_was_fetched_is_written_as_the_table_has_it(message: Message, number: int) -> None:
    for version in range(4, 19):
        check_written(message, version, number)


def test_a_leader_to_tell_of_is_told() -> None:
    leader = k00_produce.LeaderIdAndEpoch(leader_id=3, leader_epoch=9)
    refusal = k00_produce.PartitionProduceResponse(error_code=6, current_leader=leader)
    topic = k00_produce.TopicProduceResponse(name="t", partition_responses=[refusal])
    check_written(k00_produce.ProduceResponse(responses=[topic]), 10, 7)
    moved = k01_fetch.PartitionData(
        records=b"", current_leader=k01_fetch.LeaderIdAndEpoch(leader_id=3), preferred_read_replica=2
    )
    fetched_topic = k01_fetch.FetchableTopicResponse(topic="t", partitions=[moved])
    check_written(k01_fetch.FetchResponse(responses=[fetched_topic]), 12, 7)


def test_the_typed_ones_are_used() -> None:
    assert isinstance(decoder(k00_produce.ProduceRequest, 9), ProduceDecoder)
    assert isinstance(response_framer(k00_produce.ProduceResponse, 9), ProduceFramer)
    assert isinstance(decoder(k01_fetch.FetchRequest, 12), FetchDecoder)
    assert isinstance(response_framer(k01_fetch.FetchResponse, 12), FetchFramer)
    assert isinstance(request_framer(k01_fetch.FetchRequest, 17, "x"), FetchRequestFramer)
    assert isinstance(decoder(k01_fetch.FetchResponse, 17), FetchResponseDecoder)


def test_a_produce_of_nothing_but_names_is_not_read() -> None:
    """It may be a hundred times as large as any other request that names partitions."""
    for size, per_partition in ((-1, b"\0\0\0\0\xff\xff\xff\xff"), (0, bytes(8))):
        count = NAMED_MAX + 1 if size == 0 else UNUSUAL_BYTES_MAX // len(per_partition)
        topic = b"\0\1x" + count.to_bytes(4, "big") + per_partition * count
        body = b"\xff\xff" + b"\0\1" + bytes(4) + b"\0\0\0\1" + topic + bytes(UNUSUAL_BYTES_MAX)
        with pytest.raises(DecodeError, match="out of the ordinary"):
            decoder(k00_produce.ProduceRequest, 7)(body)
