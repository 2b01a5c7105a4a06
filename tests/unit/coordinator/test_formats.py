"""Records as Apache Kafka 3.9.1 wrote them, and partitions as it chooses them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.coordinator import partition_for
from ottla.coordinator.groups.formats import GroupCodec, OffsetRecord, Stored
from ottla.coordinator.groups.group import Group, GroupState
from ottla.coordinator.groups.shard import GroupShard
from ottla.coordinator.loading import RecordCodec, replay_slice
from ottla.log import FileRange
from ottla.log.files import OpenFile
from ottla.metadata.ids import TopicPartition
from ottla.records import Record, frames
from ottla.records.legacy import check_any, read_any
from ottla.wire import EncodeError, encode
from ottla.wire.messages.offset_commit import OffsetCommitKey, OffsetCommitValue
from tests.groupmodel import GroupModel

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9.1-log-dir"


def golden_file(partition: int) -> Path:
    return GOLDEN / f"__consumer_offsets-{partition}" / "00000000000000000000.log"


def golden_records() -> Iterator[Record]:
    for partition in (0, 1):
        data = golden_file(partition).read_bytes()
        for frame in frames(data):
            if not check_any(data, frame).is_control:
                yield from read_any(data, frame.position)


def told(record: Stored | None) -> tuple[object, ...]:
    """What a committed offset says, be it read already or not."""
    assert isinstance(record, OffsetRecord)
    return record.group_id, record.topic, record.partition, record.value


def test_what_kafka_wrote_is_read_and_written_as_it_was() -> None:
    codec, seen = GroupCodec(), 0
    for record in golden_records():
        assert record.key is not None
        decoded = codec.decode(record.key, record.value)
        assert decoded is not None
        assert codec.encode(decoded) == (record.key, record.value)
        seen += 1
    assert seen == 15 + 3


def test_the_groups_that_kafka_left() -> None:
    groups: dict[str, Group] = {}
    codec: RecordCodec[Stored] = GroupCodec()
    for partition in (0, 1):
        shard = GroupShard(GroupConfig(), str)
        path = golden_file(partition)
        file = OpenFile(path, os.O_RDONLY)
        end = replay_slice(shard, codec, FileRange(file, 0, path.stat().st_size), 0)
        assert end == (15, 6)[partition]
        groups |= shard.groups
    assert set(groups) == {"static", "txgroup"}
    static = groups["static"]
    assert static.state is GroupState.STABLE
    assert static.subscribed_topics == frozenset({"src"})
    ((member_id, member),) = static.members.items()
    assert static.static_members == {"inst-1": member_id}
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (45_000, 300_000)
    first = static.offsets.get(TopicPartition("src", 0))
    assert first is not None
    assert (first.offset, first.metadata) == (3, "some metadata\0")
    sent = groups["txgroup"].offsets.get(TopicPartition("src", 0))
    assert sent is not None
    assert sent.offset == 7, "the transaction between was aborted"


def test_a_client_of_old_has_its_own_version() -> None:
    model = GroupModel()
    expiring = OffsetRecord("g", "t", 0, model.at(1, expire_ms=5)._replace(leader_epoch=-1))
    _, value = GroupCodec().encode(expiring)
    assert value is not None
    assert value[:2] == b"\0\1"
    assert told(GroupCodec().decode(*GroupCodec().encode(expiring))) == told(expiring)


def test_kinds_of_later_releases_are_passed_over_and_rubbish_is_not() -> None:
    assert GroupCodec().decode(b"\0\3\0\1g", b"whatever") is None
    for key, value in ((b"", b""), (b"\0\2\0\7g", None), (b"\0\2\0\1g", b"\0\3\0"), (b"\0\2\0\1g", b"\0\x63")):
        with pytest.raises(CorruptionError):
            GroupCodec().decode(key, value)


@pytest.mark.parametrize(
    ("group_id", "partitions", "expected"),
    # From Kafka's own Utils.abs(id.hashCode) % partitions.
    [("", 50, 0), ("g", 50, 3), ("plain", 2, 0), ("static", 2, 0), ("txgroup", 2, 1), ("polygenelubricants", 50, 0)],
)
def test_a_group_is_where_kafka_would_look_for_it(group_id: str, partitions: int, expected: int) -> None:
    assert partition_for(group_id, partitions) == expected


def test_offsets_are_packed_as_the_wire_codec_does() -> None:
    model, codec = GroupModel(), GroupCodec()
    for value in (model.at(7, metadata="héllo"), model.at(7, expire_ms=9)._replace(leader_epoch=-1)):
        key, stored = codec.encode(OffsetRecord("gröup", "t", 3, value))
        assert key == b"\0\1" + encode(OffsetCommitKey(group="gröup", topic="t", partition=3), 1)
        assert stored is not None
        version = stored[1]
        by_wire = OffsetCommitValue(
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            commit_timestamp=value.commit_timestamp_ms,
            expire_timestamp=value.expire_timestamp_ms,
        )
        assert stored == bytes((0, version)) + encode(by_wire, version)


def test_what_was_read_before_does_not_rub_off() -> None:
    model, codec = GroupModel(), GroupCodec()
    values = (model.at(1), model.at(2, metadata="m"), model.at(3, metadata="8 bytes!"), None)
    records = [
        OffsetRecord(group, topic, partition, value)
        for group in ("g", "gt")
        for topic in ("t", "")
        for partition in (0, 1, -1)
        for value in values
    ]
    for record in (*records, *reversed(records)):
        assert told(codec.decode(*codec.encode(record))) == told(record)
    key, stored = codec.encode(records[0])
    for rubbish in (stored[:-1] if stored else b"", b"\0\3" + b"\xff" * 22, b"\0"):
        with pytest.raises(CorruptionError):
            codec.decode(key, rubbish)
    assert told(codec.decode(key + b"more", stored)) == told(records[0])
    with pytest.raises(CorruptionError):
        codec.decode(key[:-1], stored)


def test_an_id_that_is_too_long_is_refused() -> None:
    with pytest.raises(EncodeError):
        GroupCodec().encode(OffsetRecord("g" * 40_000, "t", 0, None))
