"""One step of one group: how it rebalances.

A rebalance has two halves. First all members join, and each is told the new generation; the leader is told who they are.
Then each asks for its assignment, the leader bringing those of all: they are written to the log, and everybody is answered.

Who is late: a member that does not join again within the longest rebalance timeout is left out; one that joined and does not
ask for its assignment within that time is removed; one that is not heard of within its session timeout is removed, unless it
waits for an answer of ours. The first rebalance of a group is drawn out a little while members keep coming.

A static member that is late to join stays until its session ends, and one that comes back under its old name takes over the
place of the former: without a rebalance if nothing but its id changes for the others.

Timers, by key:
    ("session", member)    the member was not heard of       ("join",)   the members had time enough to join
    ("pending", member)    an id was given out and not used  ("sync",)   the members had time enough to ask
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.formats import GroupRecord, Stored
from ottla.coordinator.groups.group import NO_GENERATION, Group, GroupState, Member, Protocols
from ottla.coordinator.outcome import Outcome, Reply, answered
from ottla.wire import ErrorCode
from ottla.wire.messages.k11_join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.k14_sync_group import SyncGroupResponse

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""For a member that does not know its id yet. Its client may be gone, and nothing would tell."""
NO_MEMBER: Final = ""


class Timer(IntEnum):
    """Numbers, which are hashed at once: every request of a member touches a timer."""

    SESSION = 0
    PENDING = 1
    JOIN = 2
    SYNC = 3


class TimerKey(NamedTuple):
    group_id: str
    timer: Timer
    member_id: str = NO_MEMBER


class Joining(NamedTuple):
    """A request to join, whatever its version."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    needs_known_id: bool
    """The client can be told an id first, and join with it (KIP-394)."""
    can_skip_assignment: bool
    """The client understands that it leads and has nothing to assign (KIP-814)."""


class Rebalance:
    """What a request or a timer makes of a group; ``outcome`` collects it."""

    def __init__(self, group: Group, config: GroupConfig, now_ms: int) -> None:
        self.outcome: Outcome[Stored] = Outcome()
        self._group = group
        self._config = config
        self._now_ms = now_ms

    # Joining.

    def join(self, request: Joining, new_member_id: str, reply: Reply) -> None:
        """``new_member_id`` is for who has no id yet."""
        if not self._accepts(request.member_id):
            self._group.remove(request.member_id)
            self._refuse_join(reply, NO_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not self._group.supports(request.protocol_type, request.protocols):
            self._refuse_join(reply, request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif request.member_id == NO_MEMBER:
            self._join_anew(request, new_member_id, reply)
        else:
            self._join_again(request, reply)
        self._complete_join_if_all_are_there()

    def _accepts(self, member_id: str) -> bool:
        """Whether the group has room for it."""
        group, size_max = self._group, self._config.size_max
        member = group.members.get(member_id)
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                return (member is not None and member.awaiting_join is not None) or group.awaiting_join < size_max
            case _:
                return member is not None or len(group.members) < size_max

    def _join_anew(self, request: Joining, new_member_id: str, reply: Reply) -> None:
        group = self._group
        former = group.static_members.get(request.instance_id or "") if request.instance_id is not None else None
        if former is not None:
            self._take_over(group.members[former], new_member_id, request, reply)
        elif request.needs_known_id:
            group.pending_members[new_member_id] = None
            self._set_timer(Timer.PENDING, request.session_timeout_ms, new_member_id)
            self._refuse_join(reply, new_member_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(new_member_id, request, reply)

    def _join_again(self, request: Joining, reply: Reply) -> None:
        group, member_id = self._group, request.member_id
        if member_id in group.pending_members:
            # Ids are given out to dynamic members only: with a name of its own, it is somebody else.
            if request.instance_id is not None:
                self._refuse_join(reply, NO_MEMBER, ErrorCode.UNKNOWN_SERVER_ERROR)
                return
            self._set_timer(Timer.PENDING, None, member_id)
            self._add(member_id, request, reply)
            return
        error = check_member(group, member_id, request.instance_id)
        if error is not None or group.state in (GroupState.EMPTY, GroupState.DEAD):
            self._refuse_join(reply, member_id, error or ErrorCode.UNKNOWN_MEMBER_ID)
            return
        member = group.members[member_id]
        if self._is_repetition(member, request):
            self.outcome.reply(reply, self._joined(member))
        else:
            self._update(member, request, reply)
            self._prepare_if_possible()

    def _is_repetition(self, member: Member, request: Joining) -> bool:
        """It missed the answer, perhaps. A leader that joins a stable group asks for a rebalance."""
        group = self._group
        same = member.protocols == request.protocols
        if group.state is GroupState.COMPLETING_REBALANCE:
            return same
        return group.state is GroupState.STABLE and same and not group.is_leader(member.member_id)

    def _add(self, member_id: str, request: Joining, reply: Reply) -> None:
        group = self._group
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
        )
        member.is_new = True
        member.awaiting_join = reply
        if group.state is GroupState.PREPARING_REBALANCE and group.generation == 0:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        self._set_timer(Timer.SESSION, NEW_MEMBER_TIMEOUT_MS, member_id)
        self._prepare_if_possible()

    def _update(self, member: Member, request: Joining, reply: Reply) -> None:
        self._group.offer(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        # Kafka never answers a request that was overtaken so; its client has given up on it.
        overtaken = self._group.await_join(member, reply)
        self.outcome.reply(overtaken, join_refused(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))

    # Static members that come back.

    def _take_over(self, member: Member, member_id: str, request: Joining, reply: Reply) -> None:
        group, former_id, leader_id = self._group, member.member_id, self._group.leader_id
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self.outcome.reply(group.await_join(member, None), join_refused(former_id, ErrorCode.FENCED_INSTANCE_ID))
        self.outcome.reply(_taken_sync(member), sync_refused(ErrorCode.FENCED_INSTANCE_ID))
        self._set_timer(Timer.SESSION, None, former_id)
        group.rename(member, member_id)
        self._set_session(member)
        if group.state is not GroupState.STABLE:
            self._update(member, request, reply)
            self._prepare_if_possible()
            return
        group.offer(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        if group.select_protocol() != group.protocol_name:
            group.await_join(member, reply)
            self._prepare_if_possible()
            return

        def refused(code: ErrorCode) -> Outcome[Stored]:
            step = Rebalance(group, self._config, self._now_ms)
            step._give_back(member, member_id, former_id, before)
            response = join_refused(NO_MEMBER, storing_error(code))
            response.generation_id, response.leader = group.generation, leader_id or NO_MEMBER
            response.protocol_type, response.protocol_name = group.protocol_type, group.protocol_name
            step.outcome.reply(reply, response)
            return step.outcome

        assignments = {each.member_id: each.assignment for each in group.members.values()}
        self._write(assignments)
        self.outcome.refused = refused
        response = self._joined(member)
        if request.can_skip_assignment:
            response.skip_assignment = group.is_leader(member_id)
        else:
            # Told of itself as the leader, it would assign, and nobody would hear of that.
            response.leader, response.members = leader_id or NO_MEMBER, []
        self.outcome.reply(reply, response)

    def _give_back(self, member: Member, member_id: str, former_id: str, before: tuple[Protocols, int, int]) -> None:
        """What was taken over could not be written, so the former id holds."""
        if self._group.members.get(member_id) is not member:
            return
        self._group.offer(member, before[0])
        member.rebalance_timeout_ms, member.session_timeout_ms = before[1:]
        self._set_timer(Timer.SESSION, None, member_id)
        self._group.rename(member, former_id)
        self._set_session(member)

    # The first half.

    def _prepare_if_possible(self) -> None:
        if self._group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY):
            self.prepare()

    def prepare(self) -> None:
        """Begin a rebalance: whoever waits for an assignment is told to join again."""
        group = self._group
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._refuse_syncs(ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self._set_timer(Timer.SYNC, None)
        if group.state is GroupState.EMPTY:
            delay_ms = self._config.initial_rebalance_delay_ms
            group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.new_member_added = False
        else:
            delay_ms = group.rebalance_timeout_ms
            group.initial_delay_left_ms = None
        group.transition(GroupState.PREPARING_REBALANCE, self._now_ms)
        self._set_timer(Timer.JOIN, delay_ms)
        self._complete_join_if_all_are_there()

    def _complete_join_if_all_are_there(self) -> None:
        group = self._group
        preparing = group.state is GroupState.PREPARING_REBALANCE
        if preparing and group.initial_delay_left_ms is None and group.has_all_joined:
            self._complete_join()

    def on_join_time_up(self) -> None:
        group = self._group
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        left_ms = group.initial_delay_left_ms
        if left_ms and group.new_member_added:
            delay_ms = min(self._config.initial_rebalance_delay_ms, left_ms)
            group.new_member_added, group.initial_delay_left_ms = False, left_ms - delay_ms
            self._set_timer(Timer.JOIN, delay_ms)
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        group = self._group
        group.initial_delay_left_ms = None
        for member in [each for each in group.members.values() if each.awaiting_join is None and not each.is_static]:
            group.remove(member.member_id)
            self._set_timer(Timer.SESSION, None, member.member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none has come: their sessions will end one by one.
            self._set_timer(Timer.JOIN, group.rebalance_timeout_ms)
            return
        self._set_timer(Timer.JOIN, None)
        group.begin_generation(self._now_ms)
        if not group.members:
            self._write({})
            return
        for member in group.members.values():
            self.outcome.reply(group.await_join(member, None), self._joined(member))
            self._set_session(member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._set_timer(Timer.SYNC, group.rebalance_timeout_ms)

    # The second half.

    def sync(self, member_id: str, assignments: Mapping[str, bytes], reply: Reply) -> None:
        """A member of this generation asks for its assignment."""
        group, member = self._group, self._group.members[member_id]
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                self.outcome.reply(reply, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
            case GroupState.COMPLETING_REBALANCE:
                self.outcome.reply(member.awaiting_sync, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
                member.awaiting_sync = reply
                self._has_synced(member_id)
                if group.is_leader(member_id):
                    self._assign(assignments)
            case GroupState.STABLE:
                self._has_synced(member_id)
                self.outcome.after_log = True
                self.outcome.refused = lambda code: answered(reply, sync_refused(storing_error(code)))
                self.outcome.reply(reply, self._synced(member.assignment))
                self._set_session(member)
            case _:
                self.outcome.reply(reply, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        group, generation = self._group, self._group.generation
        waiting = [(member, _taken_sync(member)) for member in group.members.values()]

        def refused(code: ErrorCode) -> Outcome[Stored]:
            step = Rebalance(group, self._config, self._now_ms)
            for _, reply in waiting:
                step.outcome.reply(reply, sync_refused(storing_error(code)))
            if group.generation == generation and group.state is not GroupState.DEAD:
                step._prepare_if_possible()
            return step.outcome

        self._write(assignments)
        self.outcome.refused = refused
        for member, reply in waiting:
            if reply is not None:
                self.outcome.reply(reply, self._synced(assignments.get(member.member_id, b"")))
                self._set_session(member)

    def _has_synced(self, member_id: str) -> None:
        pending = self._group.pending_sync
        pending.discard(member_id)
        if not pending:
            self._set_timer(Timer.SYNC, None)

    def on_sync_time_up(self) -> None:
        group = self._group
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            group.remove(member_id)
            self._set_timer(Timer.SESSION, None, member_id)
        self.prepare()

    def _refuse_syncs(self, code: ErrorCode) -> None:
        for member in self._group.members.values():
            member.assignment = b""
            waiting = _taken_sync(member)
            if waiting is not None:
                self.outcome.reply(waiting, sync_refused(code))
                self._set_session(member)

    # Members that are heard of, and that are not.

    def heard_of(self, member_id: str) -> None:
        self._set_session(self._group.members[member_id])

    def on_session_end(self, member_id: str) -> None:
        member = self._group.members.get(member_id)
        if member is None:
            return
        # Who waits for an answer of ours is not expected to be heard of; but a new one may be gone, and nobody would know.
        waits = member.awaiting_join is not None or member.awaiting_sync is not None
        if member.is_new or not waits:
            self.remove(member)

    def on_pending_end(self, member_id: str) -> None:
        self._group.pending_members.pop(member_id, None)
        self._complete_join_if_all_are_there()

    def remove(self, member: Member) -> None:
        group = self._group
        self.outcome.reply(group.await_join(member, None), join_refused(NO_MEMBER, ErrorCode.UNKNOWN_MEMBER_ID))
        self.outcome.reply(_taken_sync(member), sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        self._set_timer(Timer.SESSION, None, member.member_id)
        self._prepare_after_removal()

    def remove_pending(self, member_id: str) -> None:
        self._group.pending_members.pop(member_id, None)
        self._set_timer(Timer.PENDING, None, member_id)
        self._complete_join_if_all_are_there()

    def _prepare_after_removal(self) -> None:
        if self._group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare()
        else:
            self._complete_join_if_all_are_there()

    # What comes out.

    def _write(self, assignments: Mapping[str, bytes]) -> None:
        group = self._group
        self.outcome.records.append(GroupRecord(group.group_id, group.value(assignments, self._now_ms)))

    def _set_session(self, member: Member) -> None:
        self._set_timer(Timer.SESSION, member.session_timeout_ms, member.member_id)

    def _set_timer(self, timer: Timer, delay_ms: int | None, member_id: str = NO_MEMBER) -> None:
        self.outcome.timers[TimerKey(self._group.group_id, timer, member_id)] = delay_ms

    def _refuse_join(self, reply: Reply, member_id: str, code: ErrorCode) -> None:
        self.outcome.reply(reply, join_refused(member_id, code))

    def _joined(self, member: Member) -> JoinGroupResponse:
        group = self._group
        members = []
        if group.is_leader(member.member_id):
            members = [
                JoinGroupResponseMember(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    metadata=each.metadata(group.protocol_name or ""),
                )
                for each in group.members.values()
            ]
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or NO_MEMBER,
            member_id=member.member_id,
            members=members,
        )

    def _synced(self, assignment: bytes) -> SyncGroupResponse:
        group = self._group
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
        )


def check_member(group: Group, member_id: str, instance_id: str | None) -> ErrorCode | None:
    """Whether somebody is the member that it says it is."""
    if instance_id is not None:
        current = group.static_members.get(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return None if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def join_refused(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, generation_id=NO_GENERATION, protocol_name=None, leader=NO_MEMBER, member_id=member_id
    )


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def storing_error(code: ErrorCode) -> ErrorCode:
    """What members are told when the group could not be written."""
    return _STORING_ERRORS.get(code, code)


_STORING_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def _taken_sync(member: Member) -> Reply | None:
    """Who waits for a member's assignment, and now does no more."""
    waiting, member.awaiting_sync = member.awaiting_sync, None
    return waiting
