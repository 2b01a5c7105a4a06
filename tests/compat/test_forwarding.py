"""Requests about topics reach the controller through any broker; librdkafka sees what came of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from confluent_kafka.admin import AdminClient

from ottla.peers import Peer
from ottla.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tests.peers import OttlaKeepers, wait_until
from tests.peers.brokers import OttlaBrokers

TIMEOUT_MS = 60_000


async def make_grow_and_delete(port: int, name: str) -> None:
    peer = Peer("127.0.0.1", port, client_id="anybody")
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=3)
    made = await peer.call(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 5, CreateTopicsResponse)
    assert [(each.name, each.error_code) for each in made.topics] == [(name, 0)]
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=3, assignments=None)], timeout_ms=TIMEOUT_MS
    )
    grown = await peer.call(more, 3, CreatePartitionsResponse)
    assert [each.error_code for each in grown.results] == [0]
    second = CreatableTopic(name=f"{name}-doomed", num_partitions=1, replication_factor=1)
    await peer.call(CreateTopicsRequest(topics=[second], timeout_ms=TIMEOUT_MS), 5, CreateTopicsResponse)
    away = DeleteTopicsRequest(topic_names=[second.name], timeout_ms=TIMEOUT_MS)
    gone = await peer.call(away, 5, DeleteTopicsResponse)
    assert [each.error_code for each in gone.responses] == [0]
    peer.close()


def test_any_broker_takes_requests_about_topics(tmp_path: Path) -> None:
    with (
        OttlaKeepers(1, tmp_path / "keeper") as keepers,
        OttlaBrokers(3, f"{keepers.hosts}/any", tmp_path / "brokers") as brokers,
    ):
        names = [f"through-{port}" for port in brokers.ports]
        for port, name in zip(brokers.ports, names, strict=True):
            asyncio.run(make_grow_and_delete(port, name))
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})

        def topics() -> bool:
            found = admin.list_topics(timeout=120).topics
            replicas = {
                name: [len(each.replicas) for each in found[name].partitions.values()]
                for name in names
                if name in found
            }
            return replicas == {name: [3, 3, 3] for name in names} and not any("doomed" in name for name in found)

        wait_until(topics, timeout_s=60, what="librdkafka sees them")
