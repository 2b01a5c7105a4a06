"""Whoever produces to a broker that does not lead is told of the leader, by the versions that can carry it (KIP-951)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.apis import k00_produce
from ottla.metadata import BrokerId, LeaderAndIsr
from ottla.replica.errors import NotLeaderError
from ottla.wire import ErrorCode, encode
from ottla.wire.messages.k00_produce import ProduceResponse, TopicProduceResponse
from tests.sources import COMPILED


@pytest.mark.skipif(COMPILED, reason="compiled handlers take nothing but the services of a broker")
@pytest.mark.parametrize(("version", "leader"), [(7, None), (9, None), (10, 2), (12, 2)])
def test_the_leader_is_told_where_the_version_has_a_place_for_it(version: int, leader: int | None) -> None:
    state = LeaderAndIsr(BrokerId(2), 5, (BrokerId(2),), 1)
    tallies = SimpleNamespace(produce_refused=lambda *_: None)
    services = SimpleNamespace(
        dispatch=SimpleNamespace(tallies=tallies),
        cluster=SimpleNamespace(image=SimpleNamespace(topics={"t": SimpleNamespace(states={0: state})})),
    )
    ctx = cast("Any", SimpleNamespace(services=services, version=version))
    refused = k00_produce._refused(ctx, "t", 0, NotLeaderError("elsewhere"), None, 1)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (refused.current_leader and refused.current_leader.leader_id) == leader
    encode(ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[refused])]), version)
