"""What became of requests: errors out of answers, failures, and times."""

from __future__ import annotations

from ottla.base.recent import KEPT, Recent
from ottla.broker.tallies import Tallies
from ottla.wire import ApiKey, ErrorCode, response_framer
from ottla.wire.messages.k00_produce import ProduceResponse
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.k12_heartbeat import HeartbeatResponse

KEYS = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT)


def test_errors_are_counted_wherever_an_answer_has_them() -> None:
    tallies = Tallies(KEYS)
    plain = response_framer(HeartbeatResponse, 4)
    frame = tallies.counting(ApiKey.HEARTBEAT, plain)
    for code in (0, 0, ErrorCode.REBALANCE_IN_PROGRESS):
        response = HeartbeatResponse(error_code=code)
        assert frame(response, 7) == plain(response, 7)
    assert tallies.errors[ApiKey.HEARTBEAT] == {0: 2, ErrorCode.REBALANCE_IN_PROGRESS: 1}
    codes = (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    partitions = [ListOffsetsPartitionResponse(partition_index=at, error_code=code) for at, code in enumerate(codes)]
    offsets = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)] * 2)
    tallies.counting(ApiKey.LIST_OFFSETS, response_framer(ListOffsetsResponse, 8))(offsets, 7)
    assert tallies.errors[ApiKey.LIST_OFFSETS] == {0: 4, ErrorCode.NOT_LEADER_OR_FOLLOWER: 2}


def test_answers_of_which_there_are_most_are_not_looked_through() -> None:
    frame, tallies = response_framer(ProduceResponse, 9), Tallies(KEYS)
    for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT):
        assert tallies.counting(key, frame) is frame
    tallies.commit_refused(ErrorCode.ILLEGAL_GENERATION)
    assert tallies.errors[ApiKey.OFFSET_COMMIT] == {ErrorCode.ILLEGAL_GENERATION: 1}


def test_what_a_client_can_mend_is_no_failure_of_the_broker() -> None:
    tallies = Tallies(KEYS)
    tallies.produce_refused("t", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    tallies.produce_refused("t", ErrorCode.MESSAGE_TOO_LARGE, 1_000)
    tallies.fetch_refused("t", ErrorCode.OFFSET_OUT_OF_RANGE)
    assert not tallies.failed_produces
    assert not tallies.failed_fetches
    assert tallies.rejected_bytes == {"t": 1_000}
    tallies.produce_refused("t", ErrorCode.NOT_ENOUGH_REPLICAS)
    tallies.fetch_refused("t", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (tallies.failed_produces, tallies.failed_fetches) == ({"t": 1}, {"t": 1})
    assert sum(tallies.errors[ApiKey.PRODUCE].values()) == 3


def test_quantiles_are_of_the_last_few_hundred() -> None:
    recent = Recent()
    assert recent.quantiles() == []
    for value in range(KEPT):
        recent.add(1_000_000.0 + value)
    for value in range(KEPT):
        recent.add(float(value))
    found = dict(recent.quantiles())
    assert (found["0.50"], found["0.75"], found["0.999"]) == (KEPT / 2, KEPT * 3 / 4, KEPT - 1)
    assert recent.count == 2 * KEPT
