"""What becomes of a Produce as a whole: which of its partitions are written to and answered, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.clock import ManualClock
from ottla.base.errors import RemoteProtocolError
from ottla.broker.api import Answer
from ottla.broker.apis import k00_produce
from ottla.records import Record, build_batch
from ottla.wire import ErrorCode
from ottla.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.sources import COMPILED
from tests.unit.replica.pairs import NOW_MS, Broker

pytestmark = pytest.mark.skipif(COMPILED, reason="compiled handlers take nothing but the services of a broker")

PLAIN = build_batch([Record(None, b"plain", NOW_MS)])
TRANSACTIONAL = build_batch(
    [Record(None, b"transactional", NOW_MS)], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path, 1)
    made.order(1, 0, (1,), (1,))
    yield made
    made.close()


def topic(*batches: bytes, name: str = "t") -> TopicProduceData:
    """All for one and the same partition."""
    return TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=each) for each in batches])


def produce(broker: Broker, *topics: TopicProduceData, transactional_id: str | None = None, acks: int = 1) -> Answer:
    services = SimpleNamespace(
        replicas=broker.replicas,
        clock=ManualClock(),
        dispatch=SimpleNamespace(tallies=SimpleNamespace(produce_refused=lambda *_: None)),
    )
    ctx = cast("Any", SimpleNamespace(services=services, version=9, client_id=None))
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, topic_data=list(topics))
    return k00_produce.handle(ctx, request)


def told(answer: Answer) -> list[tuple[str, int, int, int]]:
    assert isinstance(answer, ProduceResponse)
    return [
        (topic.name, each.index, each.error_code, each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    ]


def test_a_transactional_batch_without_a_transactional_id_is_refused_with_all_that_came_with_it(broker: Broker) -> None:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    answer = produce(broker, topic(PLAIN), topic(TRANSACTIONAL, name="other"))
    assert told(answer) == [("t", 0, code, -1), ("other", 0, code, -1)]
    assert broker.partition.log.log_end_offset == 0


def test_without_acknowledgement_the_connection_ends_instead(broker: Broker) -> None:
    with pytest.raises(RemoteProtocolError):
        produce(broker, topic(TRANSACTIONAL), acks=0)


def test_a_transaction_that_nobody_has_begun_is_refused_and_readers_of_what_is_committed_go_on(broker: Broker) -> None:
    answer = produce(broker, topic(TRANSACTIONAL), transactional_id="id")
    assert told(answer) == [("t", 0, ErrorCode.INVALID_TXN_STATE, -1)]
    assert told(produce(broker, topic(PLAIN), transactional_id="id")) == [("t", 0, 0, 0)]
    assert broker.partition.log.last_stable_offset == 1


def test_of_a_partition_that_is_named_twice_the_last_batch_is_appended_and_answered_once(broker: Broker) -> None:
    two = build_batch([Record(None, b"1", NOW_MS), Record(None, b"2", NOW_MS)])
    assert told(produce(broker, topic(PLAIN, two))) == [("t", 0, 0, 0)]
    assert broker.partition.log.log_end_offset == 2
    assert told(produce(broker, topic(two), topic(PLAIN))) == [("t", 0, 0, 2)]
    assert broker.partition.log.log_end_offset == 3


def test_a_topic_without_partitions_is_not_answered(broker: Broker) -> None:
    assert told(produce(broker, topic(name="none"), topic(PLAIN))) == [("t", 0, 0, 0)]
    assert produce(broker, topic(name="none")) == ProduceResponse()
