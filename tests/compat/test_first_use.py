"""The topics that a cluster makes when they are first needed: everybody who asks meanwhile is answered when they are there.

librdkafka looks for a coordinator three times within half a second and then not again: an administrator's question to a new cluster
waited for a minute and failed if three answers told it to come back.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from ottla.peers import Peer
from ottla.wire import ErrorCode
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers

ASKERS = 12
PACE_S = 0.01
"""One behind the other, so that some ask before, some during and some after the making."""


async def coordinator(port: int, number: int) -> ErrorCode:
    await asyncio.sleep(number * PACE_S)
    peer = Peer("127.0.0.1", port, client_id=f"asker-{number}")
    found = await peer.call(FindCoordinatorRequest(key=f"group-{number}"), 2, FindCoordinatorResponse)
    peer.close()
    return ErrorCode(found.error_code)


async def leaders(port: int, number: int) -> list[int]:
    await asyncio.sleep(number * PACE_S)
    peer = Peer("127.0.0.1", port, client_id=f"asker-{number}")
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="mentioned")], allow_auto_topic_creation=True)
    told = await peer.call(asked, 9, MetadataResponse)
    peer.close()
    return [topic.error_code for topic in told.topics] + [each.leader_id for each in told.topics[0].partitions]


async def everybody(ports: list[int]) -> tuple[list[ErrorCode], list[list[int]]]:
    asked = [(ports[number % len(ports)], number) for number in range(ASKERS)]
    found = await asyncio.gather(*(coordinator(port, number) for port, number in asked))
    told = await asyncio.gather(*(leaders(port, number) for port, number in asked))
    return found, told


def test_who_asks_while_a_topic_is_made_is_answered_when_it_has_leaders(tmp_path: Path) -> None:
    with (
        OttlaKeepers(1, tmp_path / "keeper") as keepers,
        OttlaBrokers(3, f"{keepers.hosts}/first", tmp_path / "brokers") as brokers,
    ):
        found, told = asyncio.run(everybody(list(brokers.ports)))
        assert found == [ErrorCode.NONE] * ASKERS
        assert all(codes[0] == ErrorCode.NONE and min(codes[1:]) > 0 for codes in told), told


def test_the_first_question_about_a_group_is_answered(tmp_path: Path) -> None:
    with (
        OttlaKeepers(1, tmp_path / "keeper") as keepers,
        OttlaBrokers(1, f"{keepers.hosts}/first", tmp_path / "brokers") as brokers,
    ):
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        described = admin.describe_consumer_groups(["nobody"], request_timeout=20)["nobody"].result()
        assert described.state is ConsumerGroupState.DEAD
