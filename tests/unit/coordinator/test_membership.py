"""How members of a group join, synchronize, are heard of and leave."""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.group import GroupState
from ottla.coordinator.groups.shard import Identity
from ottla.wire import ErrorCode
from tests.groupmodel import GROUP, GroupModel

AT_ONCE = GroupConfig(initial_rebalance_delay_ms=0)


@pytest.fixture
def model() -> GroupModel:
    return GroupModel()


def state(model: GroupModel) -> GroupState:
    return model.shard.groups[GROUP].state


# Joining.


def test_the_first_rebalance_waits_for_more_members(model: GroupModel) -> None:
    one = model.join()
    model.pass_time(2_999)
    assert not one.is_answered
    two = model.join()
    model.pass_time(1)
    assert not one.is_answered, "a member came, so it goes on"
    model.pass_time(3_000)
    assert one.answer.generation_id == two.answer.generation_id == 1
    assert {each.member_id for each in one.answer.members} == {one.answer.member_id, two.answer.member_id}
    assert two.answer.leader == one.answer.member_id
    assert not two.answer.members


def test_the_first_rebalance_does_not_wait_longer_than_the_rebalance_timeout(model: GroupModel) -> None:
    waiting = [model.join(rebalance_ms=7_000)]
    for _ in range(4):
        model.pass_time(2_000)
        waiting.append(model.join(rebalance_ms=7_000))
    assert waiting[0].is_answered
    assert len(waiting[0].answer.members) == 4


def test_a_client_that_can_is_given_an_id_first(model: GroupModel) -> None:
    refused = model.join(needs_known_id=True).answer
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = model.join(refused.member_id, needs_known_id=True)
    model.pass_time(3_000)
    assert joined.answer.member_id == refused.member_id


def test_an_id_that_is_not_used_is_forgotten(model: GroupModel) -> None:
    refused = model.join(needs_known_id=True, session_ms=10_000).answer
    model.pass_time(10_000)
    assert model.join(refused.member_id).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_who_was_given_an_id() -> None:
    model = GroupModel(AT_ONCE)
    (leader,) = model.stable("a")
    pending = model.join(needs_known_id=True).answer
    again = model.join(leader.member_id)
    assert not again.is_answered
    model.join(pending.member_id, needs_known_id=True)
    assert len(again.answer.members) == 2


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(model: GroupModel, session_ms: int) -> None:
    assert model.join(session_ms=session_ms).answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_full_group_takes_nobody_else() -> None:
    model = GroupModel(GroupConfig(size_max=2))
    model.stable("a", "b")
    assert model.join().answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_that_outgrew_the_limit_sheds_the_last_to_come_again() -> None:
    model = GroupModel()
    members = model.stable("a", "b", "c")
    model = model.restarted(GroupConfig(size_max=2))
    assert state(model) is GroupState.PREPARING_REBALANCE
    back = [model.join(each.member_id) for each in members]
    assert back[2].answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert back[0].answer.generation_id == 2


def test_the_protocol_that_most_like_best_is_taken_of_those_that_all_have() -> None:
    model = GroupModel()
    one = model.join(protocols=(("only-mine", b""), ("a", b"1"), ("b", b"2")))
    model.join(protocols=(("b", b""), ("a", b"")))
    model.join(protocols=(("b", b""), ("a", b"")))
    model.pass_time(6_000)
    assert one.answer.protocol_name == "b"
    assert one.answer.members[0].metadata == b"2"
    assert model.join(protocols=(("c", b""),)).answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    refused = model.join(protocol_type="connect").answer
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_repeated_join_is_told_the_same_again_and_a_leader_asks_for_a_rebalance() -> None:
    model = GroupModel()
    leader, follower = model.stable("a", "b")
    assert model.join(follower.member_id).answer.generation_id == 1
    assert state(model) is GroupState.STABLE
    assert not model.join(leader.member_id).is_answered
    assert state(model) is GroupState.PREPARING_REBALANCE


def test_a_join_that_is_sent_twice_is_answered_twice() -> None:
    model = GroupModel()
    leader, follower = model.stable("a", "b")
    first = model.join(leader.member_id)
    second = model.join(leader.member_id)
    assert first.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    model.join(follower.member_id)
    assert second.answer.generation_id == 2


# The assignment.


def test_all_are_answered_when_the_leader_has_brought_the_assignment() -> None:
    model = GroupModel()
    one, two = model.join(), model.join()
    model.pass_time(6_000)
    follower = model.sync(two.answer)
    assert not follower.is_answered
    leader = model.sync(one.answer, {two.answer.member_id: b"x"})
    assert (follower.answer.assignment, leader.answer.assignment) == (b"x", b"")
    assert state(model) is GroupState.STABLE
    again = model.restarted()
    assert again.sync(two.answer).answer.assignment == b"x"


def test_an_assignment_that_cannot_be_written_starts_the_rebalance_again() -> None:
    model = GroupModel()
    joined = model.join()
    model.pass_time(3_000)
    model.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert model.sync(joined.answer, {}).answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state(model) is GroupState.PREPARING_REBALANCE
    model.refusal = None
    again = model.join(joined.answer.member_id)
    assert again.answer.generation_id == 2


def test_who_does_not_ask_for_its_assignment_is_removed() -> None:
    model = GroupModel()
    one, two = model.join(rebalance_ms=20_000), model.join(rebalance_ms=20_000)
    model.pass_time(6_000)
    model.sync(one.answer, {})
    for _ in range(5):
        model.pass_time(3_500)
        model.heartbeat(two.answer.member_id, 1)
        assert model.heartbeat(one.answer.member_id, 1) == ErrorCode.NONE
    model.pass_time(2_500)
    assert model.heartbeat(two.answer.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert model.heartbeat(one.answer.member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_takes_back_what_members_wait_for() -> None:
    model = GroupModel()
    _, two = model.join(), model.join()
    model.pass_time(6_000)
    waiting = model.sync(two.answer)
    model.join()
    assert waiting.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


# Who is heard of, and who is not.


def test_a_member_that_is_not_heard_of_is_removed() -> None:
    model = GroupModel()
    one, two = model.stable("a", "b")
    model.pass_time(9_000)
    assert model.heartbeat(one.member_id, 1) == ErrorCode.NONE
    model.pass_time(1_000)
    assert model.heartbeat(one.member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert model.heartbeat(two.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert model.join(one.member_id).answer.generation_id == 2


def test_a_member_that_does_not_join_again_is_left_out_when_the_time_is_up() -> None:
    model = GroupModel()
    one, two = model.stable("a", "b")
    again = model.join(one.member_id)
    for _ in range(10):
        model.pass_time(6_000)
        model.heartbeat(two.member_id, 1)
    assert [each.member_id for each in again.answer.members] == [one.member_id]
    assert model.heartbeat(two.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_waits_for_an_answer_is_not_expected_to_be_heard_of() -> None:
    model = GroupModel()
    one, two = model.stable("a", "b")
    again = model.join(one.member_id, session_ms=10_000)
    for _ in range(4):
        model.pass_time(6_000)
        model.heartbeat(two.member_id, 1)
    model.join(two.member_id)
    assert again.answer.generation_id == 2


def test_a_new_member_that_waits_for_minutes_is_given_up() -> None:
    model = GroupModel()
    one, two = model.stable("a", "b")
    new = model.join(rebalance_ms=1_000_000)
    for _ in range(50):
        model.pass_time(6_000)
        model.heartbeat(one.member_id, 1)
        model.heartbeat(two.member_id, 1)
    assert new.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member", "generation", "expected"),
    [
        ("own", 1, ErrorCode.NONE),
        ("own", 0, ErrorCode.ILLEGAL_GENERATION),
        ("own", 2, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_heartbeats_of_others_are_refused(member: str, generation: int, expected: ErrorCode) -> None:
    model = GroupModel()
    (one,) = model.stable("a")
    assert model.heartbeat(one.member_id if member == "own" else member, generation) == expected


def test_all_leave_and_the_group_is_empty_and_keeps_its_generation() -> None:
    model = GroupModel()
    one, two = model.stable("a", "b")
    told = model.leave(Identity(one.member_id), Identity("nobody"))
    assert told == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert state(model) is GroupState.PREPARING_REBALANCE
    model.leave(Identity(two.member_id))
    assert state(model) is GroupState.EMPTY
    assert state(model.restarted()) is GroupState.EMPTY
    again = model.restarted()
    joined = again.join()
    again.pass_time(3_000)
    assert joined.answer.generation_id == 3


def test_after_a_failover_members_go_on_and_have_a_full_session() -> None:
    model = GroupModel()
    one, two = model.stable("a", "b")
    model.pass_time(9_999)
    again = model.restarted()
    again.pass_time(9_999)
    assert again.heartbeat(one.member_id, 1) == ErrorCode.NONE
    again.pass_time(1)
    assert again.heartbeat(two.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID


# Static members.


def test_a_static_member_takes_its_place_again_without_a_rebalance() -> None:
    model = GroupModel()
    one = model.join(instance_id="one")
    model.pass_time(3_000)
    model.sync(one.answer, {one.answer.member_id: b"x"}, instance_id="one")
    back = model.join(instance_id="one").answer
    assert back.error_code == 0
    assert back.generation_id == 1
    assert back.leader == one.answer.member_id != back.member_id, "so that it does not believe that it leads"
    assert model.sync(back, instance_id="one").answer.assignment == b"x"
    assert model.heartbeat(one.answer.member_id, 1, instance_id="one") == ErrorCode.FENCED_INSTANCE_ID
    assert model.restarted().heartbeat(back.member_id, 1, instance_id="one") == ErrorCode.NONE


def test_a_static_leader_is_told_that_there_is_nothing_to_assign() -> None:
    model = GroupModel()
    one = model.join(instance_id="one")
    model.pass_time(3_000)
    model.sync(one.answer, {}, instance_id="one")
    back = model.join(instance_id="one", can_skip_assignment=True).answer
    assert back.skip_assignment
    assert back.leader == back.member_id
    assert len(back.members) == 1


def test_a_static_member_that_changes_the_protocol_causes_a_rebalance() -> None:
    model = GroupModel()
    one = model.join(instance_id="one", protocols=(("a", b""), ("b", b"")))
    model.pass_time(3_000)
    model.sync(one.answer, {}, instance_id="one")
    back = model.join(instance_id="one", protocols=(("b", b""),))
    assert (back.answer.generation_id, back.answer.protocol_name) == (2, "b")


def test_a_static_member_that_cannot_be_written_keeps_its_former_id() -> None:
    model = GroupModel()
    one = model.join(instance_id="one")
    model.pass_time(3_000)
    model.sync(one.answer, {}, instance_id="one")
    model.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    back = model.join(instance_id="one").answer
    assert back.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert model.heartbeat(one.answer.member_id, 1, instance_id="one") == ErrorCode.NONE


def test_an_older_twin_is_fenced_while_it_waits() -> None:
    model = GroupModel()
    one = model.join(instance_id="one")
    two = model.join(instance_id="one")
    assert one.answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    model.pass_time(3_000)
    assert two.answer.generation_id == 1


def test_a_static_member_is_not_left_out_before_its_session_ends() -> None:
    model = GroupModel()
    one = model.join(instance_id="one", session_ms=100_000)
    two = model.join()
    model.pass_time(6_000)
    model.sync(one.answer, {}, instance_id="one")
    model.sync(two.answer)
    three = model.join()
    again = model.join(two.answer.member_id)
    model.pass_time(60_000)
    assert len(again.answer.members or three.answer.members) == 3
    assert again.answer.leader == two.answer.member_id, "the former leader has not come"


def test_an_administrator_removes_a_static_member_by_its_name() -> None:
    model = GroupModel()
    one = model.join(instance_id="one")
    model.pass_time(3_000)
    assert one.answer.error_code == 0
    told = model.leave(Identity("", "nobody"), Identity("", "one"))
    assert told == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert state(model) is GroupState.EMPTY


def test_whoever_waits_is_told_when_another_broker_takes_over() -> None:
    model = GroupModel()
    waiting = model.join()
    model.do(model.shard.unloaded())
    assert waiting.answer.error_code == ErrorCode.NOT_COORDINATOR
