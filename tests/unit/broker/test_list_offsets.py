"""ListOffsets: what is asked for that no version knows is refused, as with Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.apis.k02_list_offsets import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP, handle
from ottla.wire import ErrorCode
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.sources import COMPILED
from tests.unit.replica.pairs import Broker

pytestmark = pytest.mark.skipif(COMPILED, reason="compiled handlers take nothing but the services of a broker")
NEWEST = 9
CONSUMER, FOLLOWER = -1, 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path, 1)
    made.order(1, 0, (1,), (1,))
    made.append("m1")
    yield made
    made.close()


def ask(
    broker: Broker, timestamp: int, *, version: int = NEWEST, isolation_level: int = 0, replica_id: int = CONSUMER
) -> tuple[int, int]:
    ctx = cast("Any", SimpleNamespace(services=SimpleNamespace(replicas=broker.replicas), version=version))
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="t", partitions=[wanted])]
    answer = handle(ctx, ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=topics))
    assert isinstance(answer, ListOffsetsResponse)
    (found,) = answer.topics[0].partitions
    return found.error_code, found.offset


@pytest.mark.parametrize("timestamp", [-6, -7, -100, -(1 << 63)])
def test_what_is_below_zero_and_no_place_in_a_log_is_refused(broker: Broker, timestamp: int) -> None:
    assert ask(broker, timestamp) == (ErrorCode.UNSUPPORTED_VERSION, -1)


@pytest.mark.parametrize(
    ("timestamp", "since", "offset"),
    [
        (LATEST, 1, 1),
        (EARLIEST, 1, 0),
        (0, 1, 0),
        (MAX_TIMESTAMP, 7, 0),
        (EARLIEST_LOCAL, 8, 0),
        (LATEST_TIERED, 9, -1),
    ],
)
def test_places_are_known_from_their_version_on(broker: Broker, timestamp: int, since: int, offset: int) -> None:
    assert ask(broker, timestamp, version=since) == (ErrorCode.NONE, offset)
    if since > 1:
        assert ask(broker, timestamp, version=since - 1) == (ErrorCode.UNSUPPORTED_VERSION, -1)


def test_only_a_consumer_is_held_to_an_isolation_level_that_there_is(broker: Broker) -> None:
    assert ask(broker, LATEST, isolation_level=2) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    assert ask(broker, LATEST, isolation_level=2, replica_id=FOLLOWER) == (ErrorCode.NONE, 1)
