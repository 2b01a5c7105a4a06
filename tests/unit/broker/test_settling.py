"""A broker that was just started: it has clients wait until it knows of the cluster and leads what it is told it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.api import Answer, Parked
from ottla.broker.apis import k03_metadata
from ottla.broker.context import Context
from ottla.metadata.ids import TopicPartition
from ottla.replica.errors import NotHereError, UnknownPartitionError, UnknownTopicIdError
from ottla.wire import ErrorCode
from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.k06_update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.unit.broker.test_orders import OWN_EPOCH, Bench, lead
from tests.unit.replica.pairs import TOPIC_ID

ELSEWHERE_ID = b"elsewhere".ljust(16, b"-")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    made.cluster.is_settled = False
    yield made
    made.broker.close()


def tell(leader: int = 1) -> UpdateMetadataRequest:
    """Of "t", a partition of which is here, and of "elsewhere", which broker 2 has alone."""
    here = UpdateMetadataPartitionState(partition_index=0, leader=leader, isr=[1], replicas=[1])
    there = UpdateMetadataPartitionState(partition_index=0, leader=2, isr=[2], replicas=[2])
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=OWN_EPOCH,
        topic_states=[
            UpdateMetadataTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[here]),
            UpdateMetadataTopicState(topic_name="elsewhere", topic_id=ELSEWHERE_ID, partition_states=[there]),
        ],
        live_brokers=[
            UpdateMetadataBroker(
                id=number, endpoints=[UpdateMetadataEndpoint(port=number, host="h", listener="PLAINTEXT")]
            )
            for number in (1, 2)
        ],
    )


def ask(bench: Bench) -> Answer:
    services = SimpleNamespace(
        cluster=bench.cluster,
        loop=asyncio.get_running_loop(),
        config=SimpleNamespace(auto_create_topics=False),
    )
    ctx = Context(cast("Any", services), "PLAINTEXT", ("127.0.0.1", 1))
    ctx.version = 9
    return k03_metadata.handle(ctx, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))


def error(answer: object) -> int:
    assert isinstance(answer, MetadataResponse)
    (topic,) = answer.topics
    return topic.error_code


def test_nobody_hears_of_a_topic_before_it_is_led(bench: Bench) -> None:
    async def story() -> None:
        parked = ask(bench)
        assert isinstance(parked, Parked)
        await bench.orders.update_metadata(tell())
        assert parked.response is None, "the topic is known, and its leader does not lead yet"
        await bench.orders.leader_and_isr(lead())
        assert error(parked.response) == ErrorCode.NONE
        assert error(ask(bench)) == ErrorCode.NONE, "from now on at once"

    asyncio.run(story())


def test_nor_before_the_controller_has_said_who_is_there(bench: Bench) -> None:
    async def story() -> None:
        await bench.orders.leader_and_isr(lead())
        parked = ask(bench)
        assert isinstance(parked, Parked)
        await bench.orders.update_metadata(tell())
        assert error(parked.response) == ErrorCode.NONE

    asyncio.run(story())


def test_nor_before_it_leads_what_only_it_can_lead(bench: Bench) -> None:
    """librdkafka that hears of no leader asks again after half a minute."""

    async def story() -> None:
        await bench.orders.update_metadata(tell(leader=-1))
        parked = ask(bench)
        assert isinstance(parked, Parked)
        await bench.orders.leader_and_isr(lead())
        assert parked.response is None
        await bench.orders.update_metadata(tell())
        assert error(parked.response) == ErrorCode.NONE

    asyncio.run(story())


def test_who_leads_nothing_has_nobody_wait(bench: Bench) -> None:
    async def story() -> None:
        await bench.orders.update_metadata(tell(leader=2))
        assert error(ask(bench)) == ErrorCode.NONE

    asyncio.run(story())


def test_without_a_controller_clients_are_told_what_is_known(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(k03_metadata, "SETTLING_MAX_S", 0.0)

    async def story() -> None:
        answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        parked = ask(bench)
        assert isinstance(parked, Parked)
        parked.when_complete(answered.set_result)
        assert error(await answered) == ErrorCode.LEADER_NOT_AVAILABLE
        assert error(ask(bench)) == ErrorCode.LEADER_NOT_AVAILABLE, "and nobody waits once more"

    asyncio.run(story())


def test_a_partition_of_others_is_not_led_here_and_one_of_nobody_is_not_known(bench: Bench) -> None:
    asyncio.run(bench.orders.update_metadata(tell()))
    bench.broker.image = bench.cluster.image
    assert not bench.broker.replicas.was_told_of(TopicPartition("t", 0))
    replicas = bench.broker.replicas
    with pytest.raises(NotHereError):
        replicas.partition("elsewhere", 0)
    assert replicas.topic_name(ELSEWHERE_ID) == "elsewhere"
    for topic, number in (("elsewhere", 1), ("nowhere", 0)):
        with pytest.raises(UnknownPartitionError) as caught:
            replicas.partition(topic, number)
        assert caught.value.error == "UNKNOWN_TOPIC_OR_PARTITION"
    with pytest.raises(UnknownTopicIdError):
        replicas.topic_name(b"nowhere".ljust(16, b"-"))
