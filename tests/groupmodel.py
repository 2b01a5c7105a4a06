"""A shard of groups without a broker: what it decides is done at once, and time moves by hand.

Records go through their bytes on the way to ``replay``, as they do in a log; ``log`` holds them, and ``restarted`` is the
shard that another broker would have after a failover.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.formats import NEVER, CommittedOffset, GroupCodec, Stored
from ottla.coordinator.groups.rebalance import Joining
from ottla.coordinator.groups.shard import GroupShard, Identity
from ottla.coordinator.loading import NO_PRODUCER
from ottla.coordinator.outcome import Outcome, TimerKey
from ottla.metadata.ids import TopicPartition
from ottla.wire import ErrorCode, Message
from ottla.wire.messages.k11_join_group import JoinGroupResponse
from ottla.wire.messages.k12_heartbeat import HeartbeatResponse
from ottla.wire.messages.k14_sync_group import SyncGroupResponse

M = TypeVar("M", bound=Message)

NOW_MS = 1_700_000_000_000
GROUP = "g"
PROTOCOLS = (("range", b"all"),)


class Waiting(Generic[M]):
    """An answer, or that there is none yet."""

    def __init__(self) -> None:
        self.answers: list[M] = []

    def __call__(self, response: Message) -> None:
        self.answers.append(response)  # type: ignore[arg-type]

    @property
    def is_answered(self) -> bool:
        return bool(self.answers)

    @property
    def answer(self) -> M:
        (answer,) = self.answers
        return answer


class Codes(Message):
    """What became of partitions, as an answer."""

    __slots__ = ("codes",)

    def __init__(self, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        self.codes = codes


class GroupModel:
    def __init__(
        self,
        config: GroupConfig | None = None,
        log: list[tuple[bytes, bytes | None]] | None = None,
        now_ms: int = NOW_MS,
    ) -> None:
        self.config = config or GroupConfig()
        self.now_ms = now_ms
        self.refusal: ErrorCode | None = None
        """What keeps records from being written, if anything does."""
        self.log = log if log is not None else []
        self._ids = 0
        self._timers: dict[TimerKey, int] = {}
        self._codec = GroupCodec()
        self.shard = GroupShard(self.config, self._new_id)
        for offset, (key, value) in enumerate(self.log):
            self._replay(key, value, offset)
        self.do(self.shard.loaded(self.now_ms))

    def restarted(self, config: GroupConfig | None = None) -> GroupModel:
        return GroupModel(config or self.config, self.log, self.now_ms)

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def do(self, outcome: Outcome[Stored]) -> None:
        if outcome.records and self.refusal is not None:
            self._set_timers(outcome)
            if outcome.refused is not None:
                self.do(outcome.refused(self.refusal))
                return
        else:
            for record in outcome.records:
                self.log.append(self._codec.encode(record))
                self._replay(*self.log[-1], len(self.log) - 1)
            self._set_timers(outcome)
        for reply, response in outcome.replies:
            reply(response)

    def do_all(self, outcomes: Iterator[Outcome[Stored]]) -> None:
        for outcome in outcomes:
            self.do(outcome)

    def _replay(self, key: bytes, value: bytes | None, offset: int) -> None:
        record = self._codec.decode(key, value)
        assert record is not None
        self.shard.replay(record, offset=offset, producer_id=NO_PRODUCER)

    def _set_timers(self, outcome: Outcome[Stored]) -> None:
        for key, delay_ms in outcome.timers.items():
            self._timers.pop(key, None)
            if delay_ms is not None:
                self._timers[key] = self.now_ms + delay_ms

    def pass_time(self, milliseconds: int = 0) -> None:
        """Let time pass, with every timer going off at its own."""
        end_ms = self.now_ms + milliseconds
        while due := [(at, number, key) for number, (key, at) in enumerate(self._timers.items()) if at <= end_ms]:
            self.now_ms, _, key = min(due, key=lambda each: each[:2])
            del self._timers[key]
            self.do(self.shard.on_timer(key, self.now_ms))
        self.now_ms = end_ms

    # Requests, as most tests send them.

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        client: str = "c",
        protocols: tuple[tuple[str, bytes], ...] = PROTOCOLS,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        needs_known_id: bool = False,
        can_skip_assignment: bool = False,
        group: str = GROUP,
    ) -> Waiting[JoinGroupResponse]:
        waiting: Waiting[JoinGroupResponse] = Waiting()
        request = Joining(
            member_id,
            instance_id,
            client,
            "/127.0.0.1",
            session_ms,
            rebalance_ms,
            protocol_type,
            protocols,
            needs_known_id,
            can_skip_assignment,
        )
        self.do(self.shard.join(group, request, self.now_ms, waiting))
        return waiting

    def sync(
        self,
        joined: JoinGroupResponse,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        group: str = GROUP,
    ) -> Waiting[SyncGroupResponse]:
        waiting: Waiting[SyncGroupResponse] = Waiting()
        who = Identity(joined.member_id, instance_id, joined.generation_id)
        protocol = (joined.protocol_type, joined.protocol_name)
        self.do(self.shard.sync(group, who, protocol, assignments or {}, self.now_ms, waiting))
        return waiting

    def heartbeat(self, member_id: str, generation: int, *, instance_id: str | None = None) -> int:
        waiting: Waiting[HeartbeatResponse] = Waiting()
        self.do(self.shard.heartbeat(GROUP, Identity(member_id, instance_id, generation), self.now_ms, waiting))
        return waiting.answer.error_code

    def leave(self, *members: Identity) -> list[ErrorCode]:
        told: list[ErrorCode] = []

        def respond(codes: list[ErrorCode]) -> Message:
            told.extend(codes)
            return HeartbeatResponse()

        self.do(self.shard.leave(GROUP, members, self.now_ms, Waiting(), respond))
        return told

    def commit(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset],
        who: Identity = Identity(""),  # noqa: B008  it cannot be changed
        *,
        group: str = GROUP,
    ) -> dict[TopicPartition, ErrorCode]:
        told: dict[TopicPartition, ErrorCode] = {}

        def respond(codes: Mapping[TopicPartition, ErrorCode]) -> Message:
            return Codes(codes)

        def reply(response: Message) -> None:
            assert isinstance(response, Codes)
            told.update(response.codes)

        self.do(self.shard.commit(group, who, offsets, self.now_ms, reply, respond))
        return told

    def committed(self, topic: str, partition: int = 0, *, group: str = GROUP) -> int | None:
        found = self.shard.groups.get(group)
        value = None if found is None else found.offsets.get(TopicPartition(topic, partition))
        return None if value is None else value.offset

    def at(self, offset: int, *, metadata: str = "", expire_ms: int = NEVER) -> CommittedOffset:
        return CommittedOffset(offset, -1, metadata, self.now_ms, expire_ms)

    def expire(self) -> None:
        for group_id in list(self.shard.groups):
            self.do_all(self.shard.expire(group_id, self.now_ms))

    def stable(self, *clients: str) -> list[JoinGroupResponse]:
        """A group with these members, each of which has the assignment ``for`` itself; the leader comes first."""
        waiting = [self.join(client=client) for client in clients]
        self.pass_time(self.config.initial_rebalance_delay_ms * 3)
        joined = [each.answer for each in waiting]
        joined.sort(key=lambda each: each.member_id != each.leader)
        assignments = {each.member_id: f"for {each.member_id}".encode() for each in joined}
        for number, each in enumerate(joined):
            synced = self.sync(each, assignments if number == 0 else None)
            assert synced.answer.assignment == assignments[each.member_id]
        return joined
