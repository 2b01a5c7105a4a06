"""A client that passes for a replica is refused, whatever it asks as one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.apis import k01_fetch, k23_offset_for_leader_epoch
from ottla.broker.context import Context
from ottla.wire import ErrorCode
from ottla.wire.messages.k01_fetch import FetchRequest, FetchResponse, ReplicaState
from ottla.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.sources import COMPILED

pytestmark = pytest.mark.skipif(COMPILED, reason="compiled handlers take nothing but the services of a broker")


@pytest.fixture
def client() -> Context:
    services = SimpleNamespace(config=SimpleNamespace(inter_broker_listener="BETWEEN"))
    return Context(cast("Any", services), "CLIENTS", ("h", 1))


@pytest.mark.parametrize(
    "request_", [FetchRequest(replica_id=0), FetchRequest(replica_state=ReplicaState(replica_id=2))]
)
def test_a_fetch_as_a_replica_is_refused_to_a_client(client: Context, request_: FetchRequest) -> None:
    answer = k01_fetch.handle(client, request_)
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_the_end_of_an_epoch_is_not_told_to_a_client_that_asks_as_a_replica(client: Context) -> None:
    topics = [OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=3)])]
    answer = k23_offset_for_leader_epoch.handle(client, OffsetForLeaderEpochRequest(replica_id=0, topics=topics))
    assert isinstance(answer, OffsetForLeaderEpochResponse)
    ((told,),) = (topic.partitions for topic in answer.topics)
    assert (told.partition, told.error_code) == (3, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def test_who_comes_as_a_consumer_or_through_the_brokers_own_listener_is_no_impostor(client: Context) -> None:
    assert not client.is_impostor(-1)
    assert not Context(client.services, "BETWEEN", ("h", 1)).is_impostor(2)
