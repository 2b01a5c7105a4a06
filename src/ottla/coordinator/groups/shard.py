"""The groups of one partition of ``__consumer_offsets``.

A handler looks up the group, refuses who may not ask, and leaves the rest to ``rebalance``; offsets are committed, told and
taken away here. Every refusal is Kafka's own, in Kafka's order, since the first that applies is what a client hears.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.formats import CommittedOffset, OffsetRecord, Stored
from ottla.coordinator.groups.group import Group, GroupState
from ottla.coordinator.groups.rebalance import (
    NO_MEMBER,
    Joining,
    Rebalance,
    Timer,
    TimerKey,
    check_member,
    join_refused,
    sync_refused,
)
from ottla.coordinator.groups.removal import expired, is_unused, removal
from ottla.coordinator.loading import NO_PRODUCER
from ottla.coordinator.outcome import Outcome, Reply, answered
from ottla.metadata.ids import TopicPartition
from ottla.wire import ErrorCode, Message
from ottla.wire.messages.k12_heartbeat import HeartbeatResponse

TOMBSTONES_MAX: Final = 1_000
"""Records that are taken away in one batch."""


class Identity(NamedTuple):
    """Who says that it is a member, and of which generation."""

    member_id: str
    instance_id: str | None = None
    generation: int = -1


class GroupShard:
    """See the module."""

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self.groups: dict[str, Group] = {}
        self._in_transactions: dict[int, set[str]] = {}
        """By producer, the groups for which a transaction that is not decided yet has committed offsets."""
        self._config = config
        self._new_id = new_id

    # Membership.

    def join(self, group_id: str, request: Joining, now_ms: int, reply: Reply) -> Outcome[Stored]:
        config = self._config
        if not config.session_timeout_min_ms <= request.session_timeout_ms <= config.session_timeout_max_ms:
            return answered(reply, join_refused(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT))
        group = self.groups.get(group_id)
        if group is None:
            if request.member_id != NO_MEMBER:
                return answered(reply, join_refused(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            group = self.groups[group_id] = Group(group_id, now_ms)
        step = Rebalance(group, config, now_ms)
        is_new = request.member_id == NO_MEMBER
        new_id = f"{request.instance_id or request.client_id}-{self._new_id()}" if is_new else NO_MEMBER
        step.join(request, new_id, reply)
        return step.outcome

    def sync(
        self,
        group_id: str,
        who: Identity,
        protocol: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
        now_ms: int,
        reply: Reply,
    ) -> Outcome[Stored]:
        """``protocol`` is the type and the name that the member believes in; None leaves it unsaid."""
        group = self.groups.get(group_id)
        if group is None:
            return answered(reply, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
        error = _check_generation(group, who)
        if error is None:
            held = (group.protocol_type, group.protocol_name)
            if any(told is not None and told != is_ for told, is_ in zip(protocol, held, strict=True)):
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is not None:
            return answered(reply, sync_refused(error))
        step = Rebalance(group, self._config, now_ms)
        step.sync(who.member_id, assignments, reply)
        return step.outcome

    def heartbeat(self, group_id: str, who: Identity, now_ms: int, reply: Reply) -> Outcome[Stored]:
        group = self.groups.get(group_id)
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _check_generation(group, who)
        if error is None and group is not None and group.state is GroupState.EMPTY:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not None or group is None:
            return answered(reply, HeartbeatResponse(error_code=error or ErrorCode.NONE))
        step = Rebalance(group, self._config, now_ms)
        step.heard_of(who.member_id)
        preparing = group.state is GroupState.PREPARING_REBALANCE
        code = ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE
        step.outcome.reply(reply, HeartbeatResponse(error_code=code))
        return step.outcome

    def leave(
        self,
        group_id: str,
        members: Sequence[Identity],
        now_ms: int,
        reply: Reply,
        respond: Callable[[list[ErrorCode]], Message],
    ) -> Outcome[Stored]:
        """``respond`` makes the answer out of what became of each member, in order."""
        group = self.groups.get(group_id)
        if group is None:
            return answered(reply, respond([ErrorCode.UNKNOWN_MEMBER_ID] * len(members)))
        step = Rebalance(group, self._config, now_ms)
        codes = [self._leave(group, step, who) for who in members]
        step.outcome.reply(reply, respond(codes))
        return step.outcome

    def _leave(self, group: Group, step: Rebalance, who: Identity) -> ErrorCode:
        member_id = who.member_id
        if member_id == NO_MEMBER:  # an administrator removes a static member by its name
            found = None if who.instance_id is None else group.static_members.get(who.instance_id)
            if found is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = found
        elif member_id in group.pending_members:
            step.remove_pending(member_id)
            return ErrorCode.NONE
        elif (error := check_member(group, member_id, who.instance_id)) is not None:
            return error
        step.remove(group.members[member_id])
        return ErrorCode.NONE

    # Offsets.

    def check_commit(self, group_id: str, who: Identity) -> ErrorCode | None:
        """Whether somebody may commit offsets for a group."""
        group = self.groups.get(group_id)
        if group is None:
            # Without members there is nothing to be wrong about, unless somebody believes in a generation.
            return None if who.generation < 0 else ErrorCode.ILLEGAL_GENERATION
        if who.generation < 0 and group.state is GroupState.EMPTY:
            return None
        if who.generation >= 0 or who.member_id != NO_MEMBER or who.instance_id is not None:
            error = _check_generation(group, who)
        else:
            error = None if group.state is GroupState.EMPTY else ErrorCode.UNKNOWN_MEMBER_ID
        if error is None and group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def commit(
        self,
        group_id: str,
        who: Identity,
        offsets: Mapping[TopicPartition, CommittedOffset],
        now_ms: int,
        reply: Reply,
        respond: Callable[[Mapping[TopicPartition, ErrorCode]], Message],
    ) -> Outcome[Stored]:
        """``respond`` makes the answer out of what became of each partition."""
        error = self.check_commit(group_id, who)
        if error is not None:
            return answered(reply, respond(dict.fromkeys(offsets, error)))
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, now_ms)
        step = Rebalance(group, self._config, now_ms)
        if who.member_id in group.members:
            step.heard_of(who.member_id)
        outcome = step.outcome
        codes = {where: self._check_metadata(value) for where, value in offsets.items()}
        outcome.records = [
            OffsetRecord(group_id, *where, value) for where, value in offsets.items() if not codes[where]
        ]

        def refused(code: ErrorCode) -> Outcome[Stored]:
            failed = _COMMITTING_ERRORS.get(code, code)
            return answered(reply, respond({where: each or failed for where, each in codes.items()}))

        outcome.refused = refused
        outcome.reply(reply, respond(codes))
        return outcome

    def _check_metadata(self, value: CommittedOffset) -> ErrorCode:
        characters = len(value.metadata)
        if characters * 2 > self._config.metadata_max:  # Java counts some of them twice
            characters = len(value.metadata.encode("utf-16-be", "surrogatepass")) // 2
        return ErrorCode.NONE if characters <= self._config.metadata_max else ErrorCode.OFFSET_METADATA_TOO_LARGE

    def delete_offsets(
        self,
        group_id: str,
        wanted: Iterable[TopicPartition],
        reply: Reply,
        respond: Callable[[ErrorCode, Mapping[TopicPartition, ErrorCode]], Message],
    ) -> Outcome[Stored]:
        """``respond`` gets what is wrong with the group, and what became of each partition."""
        group = self.groups.get(group_id)
        if group is None:
            return answered(reply, respond(ErrorCode.GROUP_ID_NOT_FOUND, {}))
        if group.state is not GroupState.EMPTY and not group.is_consumer:
            return answered(reply, respond(ErrorCode.NON_EMPTY_GROUP, {}))
        codes = {}
        for where in wanted:
            held = group.state is not GroupState.EMPTY and group.is_subscribed_to(where.topic)
            codes[where] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if held else ErrorCode.NONE
        gone = [where for where, code in codes.items() if not code]
        outcome: Outcome[Stored] = self._removal(group, gone) if gone else Outcome()
        outcome.refused = lambda code: answered(reply, respond(_COMMITTING_ERRORS.get(code, code), {}))
        outcome.reply(reply, respond(ErrorCode.NONE, codes))
        return outcome

    # The end of groups and offsets. What comes in several pieces is decided piece by piece, each on what the former left.

    def delete(self, group_id: str, reply: Reply, respond: Callable[[ErrorCode], Message]) -> Iterator[Outcome[Stored]]:
        group = self.groups.get(group_id)
        if group is None or group.state is not GroupState.EMPTY:
            error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else ErrorCode.NON_EMPTY_GROUP
            yield answered(reply, respond(error))
            return
        while len(group.offsets) > TOMBSTONES_MAX:
            yield removal(group, list(islice(group.offsets, TOMBSTONES_MAX)))
        outcome = self._removal(group, list(group.offsets))
        outcome.refused = lambda code: answered(reply, respond(_COMMITTING_ERRORS.get(code, code)))
        outcome.reply(reply, respond(ErrorCode.NONE))
        yield outcome

    def forget_topic(self, group_id: str, topic: str) -> Iterator[Outcome[Stored]]:
        """A topic was deleted, and with it goes what a group committed for it."""
        group = self.groups.get(group_id)
        if group is not None:
            yield from self._in_pieces(group, [where for where in group.offsets if where.topic == topic])

    def expire(self, group_id: str, now_ms: int) -> Iterator[Outcome[Stored]]:
        """Take away what a group kept long enough, and the group itself if nothing is left of it."""
        group = self.groups.get(group_id)
        if group is None:
            return
        gone = expired(group, self._config.retention_ms, now_ms)
        if gone or is_unused(group):
            yield from self._in_pieces(group, gone)

    def _in_pieces(self, group: Group, gone: list[TopicPartition]) -> Iterator[Outcome[Stored]]:
        for start in range(0, max(len(gone), 1), TOMBSTONES_MAX):
            yield self._removal(group, gone[start : start + TOMBSTONES_MAX])

    def _removal(self, group: Group, gone: Sequence[TopicPartition]) -> Outcome[Stored]:
        outcome = removal(group, gone)
        if not outcome.records and is_unused(group):
            self._drop(group)  # it never was in the log
        return outcome

    def _drop(self, group: Group) -> None:
        group.state = GroupState.DEAD
        self.groups.pop(group.group_id, None)

    # What the log says.

    def replay(self, record: Stored, *, offset: int, producer_id: int) -> None:
        group = self.groups.get(record.group_id)
        if isinstance(record, OffsetRecord):
            kept = record.kept
            if kept is None:
                if group is not None:
                    group.offsets.remove(TopicPartition(record.topic, record.partition))
                    self._drop_if_nothing_is_left(group)
                return
            if group is None:
                group = self.groups[record.group_id] = Group(record.group_id)
            if producer_id == NO_PRODUCER:
                group.offsets.put(record.topic, record.partition, kept, offset)
            else:
                where = TopicPartition(record.topic, record.partition)
                group.offsets.put_pending(producer_id, where, kept, at=offset)
                self._in_transactions.setdefault(producer_id, set()).add(record.group_id)
        elif record.value is not None:
            if group is None:
                group = self.groups[record.group_id] = Group(record.group_id)
            group.apply(record.value)
        elif group is not None:
            group.forget()
            self._drop_if_nothing_is_left(group)

    def _drop_if_nothing_is_left(self, group: Group) -> None:
        if group.generation == 0 and is_unused(group):
            self._drop(group)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        for group_id in self._in_transactions.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, committed=committed)
                self._drop_if_nothing_is_left(group)

    # Beginning, end, and time.

    def loaded(self, now_ms: int) -> Outcome[Stored]:
        """Members get a full session to be heard of; a group that outgrew the limit begins to shed."""
        outcome: Outcome[Stored] = Outcome()
        for group in self.groups.values():
            step = Rebalance(group, self._config, now_ms)
            for member_id in group.members:
                step.heard_of(member_id)
            if len(group.members) > self._config.size_max:
                step.prepare()
            outcome.timers |= step.outcome.timers
        return outcome

    def unloaded(self) -> Outcome[Stored]:
        outcome: Outcome[Stored] = Outcome()
        for group in self.groups.values():
            group.state = GroupState.DEAD
            for member in group.members.values():
                refusal = join_refused(member.member_id, ErrorCode.NOT_COORDINATOR)
                outcome.reply(group.await_join(member, None), refusal)
                outcome.reply(member.awaiting_sync, sync_refused(ErrorCode.NOT_COORDINATOR))
        return outcome

    def on_timer(self, key: object, now_ms: int) -> Outcome[Stored]:
        assert isinstance(key, TimerKey), "all timers were set by a rebalance"
        group = self.groups.get(key.group_id)
        if group is None:
            return Outcome()
        step = Rebalance(group, self._config, now_ms)
        match key.timer:
            case Timer.SESSION:
                step.on_session_end(key.member_id)
            case Timer.PENDING:
                step.on_pending_end(key.member_id)
            case Timer.JOIN:
                step.on_join_time_up()
            case Timer.SYNC:
                step.on_sync_time_up()
        return step.outcome


_COMMITTING_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""What committers are told when offsets could not be written."""


def _check_generation(group: Group, who: Identity) -> ErrorCode | None:
    error = check_member(group, who.member_id, who.instance_id)
    if error is None and who.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error
