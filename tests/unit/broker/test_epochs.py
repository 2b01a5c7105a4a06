"""Whoever knows of another leader epoch than the broker is told so, whatever he asks for, and changes nothing (KIP-101, KIP-320)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.records import Record, build_batch
from ottla.replica.leadership import Follower
from ottla.replica.partition import NO_EPOCH, Partition
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.sources import COMPILED
from tests.unit.broker.asked import Asked
from tests.unit.replica.pairs import NOW_MS, TOPIC_ID, Broker, catch_up, fetch

pytestmark = pytest.mark.skipif(COMPILED, reason="compiled handlers take nothing but the services of a broker")

LEADER, FOLLOWER = 1, 2
BOTH = (LEADER, FOLLOWER)
EPOCH = 5
LATEST, EARLIEST = -1, -2
CONSUMER, WHOEVER_ASKS = -1, -2

Ask = Callable[[Asked, int], int]
"""A request that names an epoch; the error it is answered with."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    """In the same epoch, with one record that is committed and one that the follower has yet to fetch."""
    leader, follower = Broker(tmp_path, LEADER), Broker(tmp_path, FOLLOWER)
    for epoch in (EPOCH - 1, EPOCH):
        for broker in (leader, follower):
            broker.order(LEADER, epoch, BOTH, BOTH)
        leader.append(f"of epoch {epoch}")
        catch_up(follower, leader)
    leader.append("on its way")
    fetch(follower, leader)
    yield leader, follower
    leader.close()
    follower.close()


def _fetched(asked: Asked, wanted: FetchPartition, *, replica: int, version: int) -> int:
    wanted.partition_max_bytes = 1 << 10
    topic = FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[wanted])
    request = FetchRequest(session_epoch=-1, topics=[topic])
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=replica, replica_epoch=1)
    else:
        request.replica_id = replica
    response = asked.told(ApiKey.FETCH, request, version, FetchResponse)
    assert response.error_code == ErrorCode.NONE
    (told,) = response.responses[0].partitions
    return told.error_code


def consumer_fetch(asked: Asked, epoch: int) -> int:
    return _fetched(asked, FetchPartition(current_leader_epoch=epoch), replica=CONSUMER, version=17)


def consumer_fetch_by_name(asked: Asked, epoch: int) -> int:
    return _fetched(asked, FetchPartition(current_leader_epoch=epoch), replica=CONSUMER, version=9)


def consumer_fetch_that_tells_what_it_has_read(asked: Asked, epoch: int) -> int:
    wanted = FetchPartition(current_leader_epoch=epoch, fetch_offset=1, last_fetched_epoch=EPOCH - 1)
    return _fetched(asked, wanted, replica=CONSUMER, version=12)


def follower_fetch(asked: Asked, epoch: int) -> int:
    """From the end: it would count as having everything."""
    wanted = FetchPartition(current_leader_epoch=epoch, fetch_offset=3, log_start_offset=0)
    return _fetched(asked, wanted, replica=FOLLOWER, version=17)


def follower_fetch_that_tells_what_it_has(asked: Asked, epoch: int) -> int:
    wanted = FetchPartition(current_leader_epoch=epoch, fetch_offset=3, last_fetched_epoch=EPOCH, log_start_offset=0)
    return _fetched(asked, wanted, replica=FOLLOWER, version=12)


def _listed(asked: Asked, epoch: int, timestamp: int, *, replica: int = CONSUMER) -> int:
    wanted = ListOffsetsPartition(current_leader_epoch=epoch, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=replica, topics=[ListOffsetsTopic(name="t", partitions=[wanted])])
    (told,) = asked.told(ApiKey.LIST_OFFSETS, request, 7, ListOffsetsResponse).topics[0].partitions
    assert told.error_code == ErrorCode.NONE or (told.offset, told.timestamp) == (-1, -1), told
    return told.error_code


def latest_offset(asked: Asked, epoch: int) -> int:
    return _listed(asked, epoch, LATEST)


def latest_offset_for_a_follower(asked: Asked, epoch: int) -> int:
    return _listed(asked, epoch, LATEST, replica=FOLLOWER)


def latest_offset_for_whoever_asks(asked: Asked, epoch: int) -> int:
    return _listed(asked, epoch, LATEST, replica=WHOEVER_ASKS)


def earliest_offset(asked: Asked, epoch: int) -> int:
    return _listed(asked, epoch, EARLIEST)


def offset_of_a_time(asked: Asked, epoch: int) -> int:
    return _listed(asked, epoch, NOW_MS)


def _epoch_end(asked: Asked, epoch: int, *, replica: int) -> int:
    wanted = OffsetForLeaderPartition(current_leader_epoch=epoch, leader_epoch=EPOCH - 1)
    topic = OffsetForLeaderTopic(topic="t", partitions=[wanted])
    request = OffsetForLeaderEpochRequest(replica_id=replica, topics=[topic])
    response = asked.told(ApiKey.OFFSET_FOR_LEADER_EPOCH, request, 4, OffsetForLeaderEpochResponse)
    (told,) = response.topics[0].partitions
    assert told.error_code == ErrorCode.NONE or (told.leader_epoch, told.end_offset) == (-1, -1), told
    return told.error_code


def end_of_an_epoch(asked: Asked, epoch: int) -> int:
    return _epoch_end(asked, epoch, replica=CONSUMER)


def end_of_an_epoch_for_a_follower(asked: Asked, epoch: int) -> int:
    return _epoch_end(asked, epoch, replica=FOLLOWER)


ANY_REPLICA: list[Ask] = [
    consumer_fetch,
    consumer_fetch_that_tells_what_it_has_read,
    latest_offset_for_whoever_asks,
]
"""A consumer may read from a follower, too (KIP-392), and a replica that is debugged tells of its own log."""
LEADER_ONLY: list[Ask] = [
    consumer_fetch_by_name,
    follower_fetch,
    follower_fetch_that_tells_what_it_has,
    latest_offset,
    latest_offset_for_a_follower,
    earliest_offset,
    offset_of_a_time,
    end_of_an_epoch,
    end_of_an_epoch_for_a_follower,
]


def state(broker: Broker) -> object:
    """Everything that a request might change."""
    partition = broker.partition
    log, leadership = partition.log, partition.leadership
    followers = {} if leadership is None else leadership.followers
    return (
        (partition.leader, partition.leader_epoch, partition.partition_epoch, partition.isr, partition.is_stopped),
        (log.log_start_offset, log.high_watermark, log.last_stable_offset, log.log_end_offset),
        (list(log.epochs.entries), broker.bytes(), list(broker.proposals)),
        {number: [getattr(each, name) for name in Follower.__slots__] for number, each in followers.items()},
    )


def check_fenced(pair: tuple[Broker, Broker], ask: Ask) -> None:
    for broker in pair:
        before = state(broker)
        for epoch, code in (
            (EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
            (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            assert ask(Asked(broker), epoch) == code
            assert state(broker) == before


@pytest.mark.parametrize("ask", ANY_REPLICA + LEADER_ONLY)
def test_another_epoch_is_refused_by_leader_and_follower_and_changes_nothing(
    pair: tuple[Broker, Broker], ask: Ask
) -> None:
    check_fenced(pair, ask)


@pytest.mark.parametrize("ask", ANY_REPLICA + LEADER_ONLY)
def test_a_broker_that_takes_any_epoch_is_found_out(
    pair: tuple[Broker, Broker], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Partition, "check_epoch", lambda _self, _epoch: None)
    with pytest.raises(AssertionError):
        check_fenced(pair, ask)


@pytest.mark.parametrize("epoch", [EPOCH, NO_EPOCH])
@pytest.mark.parametrize("ask", ANY_REPLICA + LEADER_ONLY)
def test_the_right_epoch_and_none_are_answered_by_who_may_answer(
    pair: tuple[Broker, Broker], ask: Ask, epoch: int
) -> None:
    leader, follower = pair
    before = state(follower)
    elsewhere = ErrorCode.NONE if ask in ANY_REPLICA else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(Asked(follower), epoch) == elsewhere
    assert state(follower) == before
    assert ask(Asked(leader), epoch) == ErrorCode.NONE


def test_a_fetch_of_the_right_epoch_does_change_what_the_leader_knows(pair: tuple[Broker, Broker]) -> None:
    """Or the tests above would look at nothing."""
    leader, _ = pair
    before = state(leader)
    assert follower_fetch(Asked(leader), EPOCH) == ErrorCode.NONE
    assert leader.high_watermark == 3
    assert state(leader) != before


@pytest.mark.parametrize("acks", [1, -1])
def test_records_for_a_leader_that_was_replaced_are_refused_and_change_nothing(
    pair: tuple[Broker, Broker], acks: int
) -> None:
    """A produce names no epoch: the leader's own is all there is."""
    leader, follower = pair
    leader.order(FOLLOWER, EPOCH + 1, BOTH, BOTH)
    for broker in (leader, follower):
        before = state(broker)
        data = PartitionProduceData(records=build_batch([Record(None, b"m", NOW_MS)]))
        request = ProduceRequest(
            acks=acks, timeout_ms=0, topic_data=[TopicProduceData(name="t", partition_data=[data])]
        )
        response = Asked(broker).told(ApiKey.PRODUCE, request, 9, ProduceResponse)
        (told,) = response.responses[0].partition_responses
        assert (told.error_code, told.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        assert state(broker) == before
