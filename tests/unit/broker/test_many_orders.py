"""Orders for many partitions: what they make and delete is put on disk together, and not by the thread that serves clients."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log import LogDirectory
from ottla.log import TopicPartition as LogPartition
from ottla.wire import ErrorCode
from ottla.wire.messages.k04_leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.k05_stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from tests.unit.broker.test_orders import OWN_EPOCH, Bench
from tests.unit.replica.pairs import TOPIC_ID

MANY = 40
CHECKPOINT_SYNCS = 2
"""The file that named them, and its own name."""


class Disk:
    """Counts how often each thread waits for the disk; ``fails`` makes it refuse."""

    def __init__(self) -> None:
        self.waits: dict[int, int] = {}
        self.fails = False
        self._fsync = os.fsync

    def fsync(self, fd: int) -> None:
        me = threading.get_ident()
        self.waits[me] = self.waits.get(me, 0) + 1
        if self.fails:
            raise OSError(errno.EIO, "the disk refuses")
        self._fsync(fd)

    def taken_here(self) -> int:
        """By the thread that serves clients, since the last time."""
        waits, self.waits = self.waits, {}
        return waits.get(threading.get_ident(), 0)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.broker.close()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(os, "fsync", disk.fsync)
    return disk


def lead_many(leader: int = 1) -> LeaderAndIsrRequest:
    states = [
        LeaderAndIsrPartitionState(partition_index=number, leader=leader, isr=[1, 2], replicas=[1, 2])
        for number in range(MANY)
    ]
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=states)
    return LeaderAndIsrRequest(controller_epoch=1, broker_epoch=OWN_EPOCH, topic_states=[topic])


def delete_many() -> StopReplicaRequest:
    states = [
        StopReplicaPartitionState(partition_index=number, leader_epoch=-2, delete_partition=True)
        for number in range(MANY)
    ]
    topic = StopReplicaTopicState(topic_name="t", partition_states=states)
    return StopReplicaRequest(controller_epoch=1, broker_epoch=OWN_EPOCH, topic_states=[topic])


def codes(answer: LeaderAndIsrResponse) -> set[int]:
    return {each.error_code for topic in answer.topics for each in topic.partition_errors}


def directory_of(bench: Bench) -> LogDirectory:
    (directory,) = bench.broker.replicas.directories
    return directory


def test_new_logs_are_on_disk_when_the_order_is_answered_and_clients_did_not_wait_for_that(
    bench: Bench, disk: Disk
) -> None:
    assert codes(asyncio.run(bench.orders.leader_and_isr(lead_many()))) == {ErrorCode.NONE}
    assert sum(disk.waits.values()) == 2 * MANY + 1  # each id and the folder it is in, and what holds the folders
    assert disk.taken_here() == 0
    assert len(bench.broker.replicas) == MANY
    ids = {directory_of(bench).topic_id(LogPartition("t", number)) for number in range(MANY)}
    assert [each.bytes for each in ids if each is not None] == [TOPIC_ID]


def test_many_logs_are_deleted_with_one_checkpoint(bench: Bench, disk: Disk) -> None:
    asyncio.run(bench.orders.leader_and_isr(lead_many()))
    points = directory_of(bench).path / "recovery-point-offset-checkpoint"
    directory_of(bench).checkpoint()
    assert points.read_text().count("t ") == MANY
    disk.taken_here()
    answer = asyncio.run(bench.orders.stop_replica(delete_many()))
    assert {each.error_code for each in answer.partition_errors} == {ErrorCode.NONE}
    assert disk.taken_here() == CHECKPOINT_SYNCS
    assert len(bench.broker.replicas) == 0
    assert "t " not in points.read_text()
    again = asyncio.run(bench.orders.leader_and_isr(lead_many()))
    assert codes(again) == {ErrorCode.NONE}


@pytest.mark.parametrize("leader", [1, 2])
def test_what_the_disk_refuses_is_neither_led_nor_followed(bench: Bench, disk: Disk, leader: int) -> None:
    disk.fails = True
    assert codes(asyncio.run(bench.orders.leader_and_isr(lead_many(leader)))) == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert len(bench.broker.replicas) == 0
    assert directory_of(bench).health.failure is not None
