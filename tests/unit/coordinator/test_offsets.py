"""What groups commit, who may, and how long it is kept."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.formats import OffsetRecord
from ottla.coordinator.groups.shard import TOMBSTONES_MAX, Identity
from ottla.metadata.ids import TopicPartition
from ottla.wire import ErrorCode, encode
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.k42_delete_groups import DeleteGroupsResponse
from tests.groupmodel import GROUP, GroupModel, Waiting

RETENTION_MS = 1_000_000
CONFIG = GroupConfig(initial_rebalance_delay_ms=0, retention_ms=RETENTION_MS)
T0 = TopicPartition("t", 0)


@pytest.fixture
def model() -> GroupModel:
    return GroupModel(CONFIG)


def subscription(*topics: str) -> bytes:
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def member(model: GroupModel, *topics: str) -> Identity:
    waiting = model.join(protocols=(("range", subscription(*topics)),))
    model.pass_time()
    joined = waiting.answer
    model.sync(joined, {})
    return Identity(joined.member_id, None, joined.generation_id)


def codes(model: GroupModel, who: Identity) -> Iterable[ErrorCode]:
    return set(model.commit({T0: model.at(1)}, who).values())


def test_what_is_committed_survives_a_failover(model: GroupModel) -> None:
    assert model.commit({T0: model.at(5, metadata="m"), TopicPartition("u", 3): model.at(7)}) == {
        T0: ErrorCode.NONE,
        TopicPartition("u", 3): ErrorCode.NONE,
    }
    again = model.restarted()
    assert (again.committed("t"), again.committed("u", 3), again.committed("u")) == (5, 7, None)
    assert again.shard.groups[GROUP].offsets.get(T0) == model.at(5, metadata="m")


def test_nobody_but_members_commits_for_a_group_that_has_some(model: GroupModel) -> None:
    assert codes(model, Identity("", None, 1)) == {ErrorCode.ILLEGAL_GENERATION}, "there is no such group"
    assert codes(model, Identity("")) == {ErrorCode.NONE}
    who = member(model, "t")
    assert codes(model, who) == {ErrorCode.NONE}
    assert codes(model, Identity("")) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert codes(model, Identity("nobody", None, who.generation)) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert codes(model, who._replace(generation=who.generation - 1)) == {ErrorCode.ILLEGAL_GENERATION}
    assert codes(model, who._replace(instance_id="x")) == {ErrorCode.UNKNOWN_MEMBER_ID}


def test_no_commit_between_the_halves_of_a_rebalance(model: GroupModel) -> None:
    waiting = model.join()
    model.pass_time()
    joined = waiting.answer
    who = Identity(joined.member_id, None, joined.generation_id)
    assert codes(model, who) == {ErrorCode.REBALANCE_IN_PROGRESS}
    model.sync(joined, {})
    assert codes(model, who) == {ErrorCode.NONE}


def test_metadata_is_counted_as_java_counts(model: GroupModel) -> None:
    offsets = {
        TopicPartition("t", 0): model.at(1, metadata="x" * 4096),
        TopicPartition("t", 1): model.at(1, metadata="x" * 4097),
        TopicPartition("t", 2): model.at(1, metadata="😀" * 2048),
        TopicPartition("t", 3): model.at(1, metadata="😀" * 2049),
    }
    told = [model.commit(offsets)[where] for where in offsets]
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert told == [ErrorCode.NONE, too_large, ErrorCode.NONE, too_large]
    assert [model.committed("t", number) for number in range(4)] == [1, None, 1, None]


def test_a_commit_that_cannot_be_written_changes_nothing(model: GroupModel) -> None:
    model.commit({T0: model.at(1)})
    model.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert model.commit({T0: model.at(2)}) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert model.committed("t") == 1


def test_a_commit_counts_as_a_heartbeat(model: GroupModel) -> None:
    who = member(model, "t")
    model.pass_time(9_999)
    model.commit({T0: model.at(1)}, who)
    model.pass_time(9_999)
    assert model.heartbeat(who.member_id, who.generation) == ErrorCode.NONE


# Expiry.


def test_offsets_without_members_expire_by_their_commit(model: GroupModel) -> None:
    model.commit({T0: model.at(1)})
    model.pass_time(RETENTION_MS // 2)
    model.commit({TopicPartition("t", 1): model.at(2)})
    model.pass_time(RETENTION_MS // 2)
    model.expire()
    assert (model.committed("t", 0), model.committed("t", 1)) == (None, 2)
    model.pass_time(RETENTION_MS)
    model.expire()
    assert GROUP not in model.shard.groups
    assert GROUP not in model.restarted().shard.groups


def test_offsets_of_a_group_that_had_members_expire_from_its_end(model: GroupModel) -> None:
    who = member(model, "t")
    model.commit({T0: model.at(1)}, who)
    for _ in range(RETENTION_MS // 5_000 + 1):
        model.pass_time(5_000)
        model.heartbeat(who.member_id, who.generation)
    model.leave(who)
    model.pass_time(RETENTION_MS - 1)
    model.expire()
    assert model.committed("t") == 1, "though the commit is older"
    again = model.restarted()
    again.pass_time(1)
    again.expire()
    assert GROUP not in again.shard.groups
    assert GROUP not in again.restarted().shard.groups


def test_of_a_stable_group_expires_what_nobody_subscribes_to(model: GroupModel) -> None:
    who = member(model, "t")
    model.commit({T0: model.at(1), TopicPartition("other", 0): model.at(1)}, who)
    for _ in range(RETENTION_MS // 5_000):
        model.pass_time(5_000)
        model.heartbeat(who.member_id, who.generation)
    model.expire()
    assert (model.committed("t"), model.committed("other")) == (1, None)


def test_a_client_of_old_says_itself_how_long(model: GroupModel) -> None:
    model.commit({T0: model.at(1, expire_ms=model.now_ms + 10)})
    again = model.restarted()
    again.pass_time(9)
    again.expire()
    assert again.committed("t") == 1
    again.pass_time(1)
    again.expire()
    assert again.committed("t") is None


def test_an_empty_group_without_offsets_goes(model: GroupModel) -> None:
    who = member(model, "t")
    model.leave(who)
    model.expire()
    assert GROUP not in model.shard.groups
    assert GROUP not in model.restarted().shard.groups


def test_very_many_offsets_go_in_batches(model: GroupModel) -> None:
    for number in range(2 * TOMBSTONES_MAX + 1):
        model.commit({TopicPartition("t", number): model.at(1)})
    model.pass_time(RETENTION_MS)
    pieces = []
    for piece in model.shard.expire(GROUP, model.now_ms):
        pieces.append(len(piece.records))
        model.do(piece)
    assert pieces == [TOMBSTONES_MAX, TOMBSTONES_MAX, 1]
    assert not model.restarted().shard.groups


# Deletion.


def delete(model: GroupModel, group: str = GROUP) -> ErrorCode:
    told: list[ErrorCode] = []

    def respond(code: ErrorCode) -> DeleteGroupsResponse:
        told.append(code)
        return DeleteGroupsResponse()

    model.do_all(model.shard.delete(group, Waiting(), respond))
    return told[-1]


def test_a_group_is_deleted_with_all_that_it_committed(model: GroupModel) -> None:
    who = member(model, "t")
    model.commit({T0: model.at(1)}, who)
    assert delete(model) == ErrorCode.NON_EMPTY_GROUP
    model.leave(who)
    assert delete(model) == ErrorCode.NONE
    assert not model.restarted().shard.groups
    assert delete(model) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deleted_topic_is_forgotten_by_all_groups(model: GroupModel) -> None:
    model.commit({T0: model.at(1), TopicPartition("u", 0): model.at(2)})
    model.commit({T0: model.at(1)}, group="other")
    for group_id in list(model.shard.groups):
        model.do_all(model.shard.forget_topic(group_id, "t"))
    assert (model.committed("t"), model.committed("u")) == (None, 2)
    assert "other" not in model.restarted().shard.groups


# Transactions, as other brokers write them.


def test_offsets_of_a_transaction_count_once_it_is_committed(model: GroupModel) -> None:
    shard = model.shard
    shard.replay(OffsetRecord(GROUP, "t", 0, model.at(1)), offset=0, producer_id=-1)
    shard.replay(OffsetRecord(GROUP, "t", 0, model.at(2)), offset=1, producer_id=9)
    assert model.committed("t") == 1
    assert shard.groups[GROUP].offsets.is_pending(T0)
    shard.end_transaction(9, committed=True)
    assert model.committed("t") == 2
    shard.replay(OffsetRecord(GROUP, "t", 0, model.at(3)), offset=2, producer_id=9)
    shard.end_transaction(9, committed=False)
    assert model.committed("t") == 2
    shard.replay(OffsetRecord(GROUP, "t", 0, model.at(4)), offset=3, producer_id=9)
    shard.replay(OffsetRecord(GROUP, "t", 0, model.at(5)), offset=4, producer_id=-1)
    shard.end_transaction(9, committed=True)
    assert model.committed("t") == 5, "which was written later"
