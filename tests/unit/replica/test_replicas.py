"""Replicas over real log directories: what was damaged stays closed, and no topic takes the records of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.log import LogConfig, LogDirectory
from ottla.log import TopicPartition as LogPartition
from ottla.log.errors import OffsetOutOfRangeError
from ottla.metadata import BrokerId, LeaderAndIsr, ReplicaAssignment, Topic, TopicId, TopicPartition
from ottla.records import Record, build_batch
from ottla.replica.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    NotEnoughReplicasError,
    NotLeaderError,
    OfflinePartitionError,
    PolicyViolationError,
    StaleOrderError,
    UnknownLeaderEpochError,
    UnknownPartitionError,
    UnknownTopicIdError,
)
from ottla.replica.partition import ALL, HIGH_WATERMARK
from ottla.replica.replicas import EPOCH_DURING_DELETE, Order, Replicas

NOW_MS = 1_700_000_000_000
ONE, TWO = BrokerId(1), BrokerId(2)
FIRST, SECOND = TopicId(b"first topic's id"), TopicId(b"second one's id.")
BATCH = build_batch([Record(b"k", b"v" * 50, NOW_MS)])


def topic(topic_id: TopicId, *, leader: int = 1, epoch: int = 0, isr: tuple[BrokerId, ...] = (ONE,)) -> Topic:
    replicas = isr if TWO in isr else (ONE,)
    state = LeaderAndIsr(BrokerId(leader), epoch, isr, 1)
    return Topic("t", topic_id, {0: ReplicaAssignment(replicas)}, {0: state})


class Broker:
    """The replicas of one start of a broker."""

    def __init__(self, folder: Path) -> None:
        self.directory = LogDirectory(folder)
        self.directory.load(lambda _topic: LogConfig(), now_ms=NOW_MS)
        self.replicas = Replicas(ONE, [self.directory], lambda _topic: LogConfig())

    def obey(self, topic: Topic, *, is_new: bool = False) -> None:
        for where, assignment, state in topic.leaders():
            assert state is not None
            order = Order(where, topic.topic_id, state, assignment.replicas, is_new)
            self.replicas.obey(order, now_ms=NOW_MS, now_s=0.0)

    def stop(self) -> None:
        self.replicas.checkpoint()
        self.directory.close(now_ms=NOW_MS)


def test_a_led_partition_takes_records_and_has_them_after_a_restart(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST))
    broker.replicas.partition("t", 0).append(BATCH, acks=ALL, now_ms=NOW_MS)
    assert broker.replicas.topic_name(FIRST) == "t"
    broker.stop()
    again = Broker(tmp_path)
    again.obey(topic(FIRST, epoch=1))
    partition = again.replicas.partition("t", 0)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 1)
    again.stop()


def test_a_log_without_a_topic_id_takes_that_of_the_first_topic_that_is_led(tmp_path: Path) -> None:
    """As one is left whose making was interrupted: or a later topic of that name would take its records for its own."""
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST))
    broker.replicas.partition("t", 0).append(BATCH, acks=1, now_ms=NOW_MS)
    (tmp_path / "t-0" / "partition.metadata").unlink()
    broker.stop()
    again = Broker(tmp_path)
    again.obey(topic(FIRST, epoch=1))
    again.stop()
    later = Broker(tmp_path)
    with pytest.raises(InconsistentTopicIdError):
        later.obey(topic(SECOND))
    later.stop()


def test_a_log_of_another_topic_of_that_name_is_not_led_and_keeps_its_records(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST))
    broker.replicas.partition("t", 0).append(BATCH, acks=1, now_ms=NOW_MS)
    broker.stop()
    again = Broker(tmp_path)
    with pytest.raises(InconsistentTopicIdError, match="another id"):
        again.obey(topic(SECOND))
    with pytest.raises(UnknownTopicIdError):
        again.replicas.topic_name(SECOND)
    again.obey(topic(FIRST, epoch=1))
    assert again.replicas.partition("t", 0).log.log_end_offset == 1
    again.stop()


@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_log_of_an_earlier_topic_makes_room_for_one_that_is_new(tmp_path: Path, *, is_restarted: bool) -> None:
    """It was not told of the end of the earlier one. Or nobody could ever write to the new one."""
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST))
    broker.replicas.partition("t", 0).append(BATCH, acks=1, now_ms=NOW_MS)
    if is_restarted:
        broker.stop()
        broker = Broker(tmp_path)
    broker.obey(topic(SECOND), is_new=True)
    partition = broker.replicas.partition("t", 0)
    assert partition.is_leader
    assert (partition.topic_id, partition.log.log_end_offset) == (SECOND, 0)
    with pytest.raises(UnknownTopicIdError):
        broker.replicas.topic_name(FIRST)
    (aside,) = tmp_path.glob("t-0.*-stray")
    (segment,) = aside.glob("*.log")
    assert segment.stat().st_size, "its records are kept"
    broker.stop()
    again = Broker(tmp_path)
    again.obey(topic(SECOND, epoch=1))
    assert again.replicas.partition("t", 0).topic_id == SECOND
    again.stop()


def test_what_is_led_makes_room_only_for_what_is_new_or_led_elsewhere(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST))
    with pytest.raises(InconsistentTopicIdError):
        broker.obey(topic(SECOND))
    assert broker.replicas.partition("t", 0).topic_id == FIRST
    broker.obey(topic(SECOND, leader=2, isr=(ONE, TWO)))
    assert broker.replicas.partition("t", 0).topic_id == SECOND
    assert not broker.replicas.partition("t", 0).is_leader
    broker.stop()


def test_a_log_of_another_topic_of_that_name_is_set_aside_where_another_broker_leads(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST))
    broker.replicas.partition("t", 0).append(BATCH, acks=1, now_ms=NOW_MS)
    broker.stop()
    again = Broker(tmp_path)
    again.obey(topic(SECOND, leader=2, isr=(ONE, TWO)))
    partition = again.replicas.partition("t", 0)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (0, 0)
    (aside,) = tmp_path.glob("t-0.*-stray")
    assert b"v" * 50 in (aside / f"{0:020}.log").read_bytes()
    again.stop()
    once_more = Broker(tmp_path)
    assert list(once_more.directory.logs) == [LogPartition("t", 0)]
    once_more.stop()


def test_after_a_crash_nothing_is_left_of_the_high_watermark_of_an_earlier_topic_of_that_name(tmp_path: Path) -> None:
    where = TopicPartition("t", 0)
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST))
    for _ in range(3):
        broker.replicas.partition("t", 0).append(BATCH, acks=1, now_ms=NOW_MS)
    broker.replicas.checkpoint()
    broker.replicas.stop(where, leader_epoch=EPOCH_DURING_DELETE, delete=True, now_ms=NOW_MS)
    broker.obey(topic(SECOND, isr=(ONE, TWO)))
    broker.replicas.partition("t", 0).append(BATCH, acks=1, now_ms=NOW_MS)
    assert broker.replicas.partition("t", 0).log.high_watermark == 0
    broker.directory.abandon()
    again = Broker(tmp_path)
    again.obey(topic(SECOND, isr=(ONE, TWO), epoch=1))
    assert again.replicas.partition("t", 0).log.log_end_offset == 1
    assert again.replicas.partition("t", 0).log.high_watermark == 0
    again.stop()


def test_a_damaged_log_stays_closed_and_nothing_is_made_in_its_place(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST))
    for _ in range(3):
        broker.replicas.partition("t", 0).append(BATCH, acks=1, now_ms=NOW_MS)
    broker.replicas.partition("t", 0).log.flush(now_ms=NOW_MS)
    broker.replicas.checkpoint()
    segment = tmp_path / "t-0" / f"{0:020}.log"
    data = bytearray(segment.read_bytes())
    data[len(BATCH) + 70] ^= 0xFF  # in the second of three batches, which all were synced: no crash does that
    segment.write_bytes(data)
    broker.directory.abandon()
    again = Broker(tmp_path)
    with pytest.raises(OfflinePartitionError):
        again.obey(topic(FIRST, epoch=1))
    with pytest.raises(OfflinePartitionError):
        again.replicas.partition("t", 0)
    assert segment.read_bytes() == data
    again.directory.abandon()


def test_a_deleted_topic_is_gone_and_who_waited_is_woken(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST))
    partition = broker.replicas.partition("t", 0)
    woken: list[bool] = []
    partition.wait(lambda: woken.append(partition.is_leader))
    where = TopicPartition("t", 0)
    broker.replicas.stop(where, leader_epoch=EPOCH_DURING_DELETE, delete=True, now_ms=NOW_MS)
    assert woken == [False]
    with pytest.raises(UnknownPartitionError):
        broker.replicas.partition("t", 0)
    with pytest.raises(UnknownTopicIdError):
        broker.replicas.topic_name(FIRST)
    broker.stop()


def test_leaders_and_their_epochs(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST, epoch=4))
    partition = broker.replicas.partition("t", 0)
    with pytest.raises(FencedLeaderEpochError):
        partition.check_leader(3)
    with pytest.raises(UnknownLeaderEpochError):
        partition.check_leader(5)
    partition.check_leader(4)
    broker.obey(topic(FIRST, leader=2, epoch=5, isr=(TWO, ONE)))
    with pytest.raises(NotLeaderError):
        partition.append(BATCH, acks=1, now_ms=NOW_MS)
    with pytest.raises(StaleOrderError):
        broker.obey(topic(FIRST, epoch=4))  # late news
    assert (partition.leader, partition.leader_epoch) == (TWO, 5)
    broker.stop()


@pytest.mark.parametrize(("isr", "wanted"), [((ONE,), 2), ((ONE, TWO), 2), ((ONE, TWO), 3)])
def test_no_more_replicas_are_asked_for_than_there_are(tmp_path: Path, isr: tuple[BrokerId, ...], wanted: int) -> None:
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST, isr=isr))
    broker.replicas.configure("t", LogConfig(), min_insync_replicas=wanted)
    assert broker.replicas.partition("t", 0).append(BATCH, acks=ALL, now_ms=NOW_MS).last_offset == 0
    broker.stop()


def test_too_few_replicas_in_sync_refuse_acks_all_and_nothing_else(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    both = Topic("t", FIRST, {0: ReplicaAssignment((ONE, TWO))}, {0: LeaderAndIsr(ONE, 0, (ONE,), 1)})
    broker.obey(both)
    broker.replicas.configure("t", LogConfig(), min_insync_replicas=2)
    partition = broker.replicas.partition("t", 0)
    with pytest.raises(NotEnoughReplicasError):
        partition.append(BATCH, acks=ALL, now_ms=NOW_MS)
    partition.append(BATCH, acks=1, now_ms=NOW_MS)
    assert partition.log.log_end_offset == 1
    broker.stop()


def test_records_are_deleted_up_to_the_high_watermark_and_no_further(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.obey(topic(FIRST))
    partition = broker.replicas.partition("t", 0)
    for _ in range(4):
        partition.append(BATCH, acks=ALL, now_ms=NOW_MS)
    assert partition.delete_records(1) == 1
    assert (partition.low_watermark, partition.log.log_end_offset) == (1, 4)
    assert partition.delete_records(0) == 0
    assert partition.low_watermark == 1
    for wrong in (5, -2):
        with pytest.raises(OffsetOutOfRangeError):
            partition.delete_records(wrong)
    assert partition.delete_records(HIGH_WATERMARK) == 4
    broker.stop()
    again = Broker(tmp_path)
    again.obey(topic(FIRST, epoch=1))
    assert again.replicas.partition("t", 0).low_watermark == 4
    again.replicas.configure("t", LogConfig(cleanup_policy=frozenset({"compact"})), min_insync_replicas=1)
    with pytest.raises(PolicyViolationError):
        again.replicas.partition("t", 0).delete_records(HIGH_WATERMARK)
    again.stop()
