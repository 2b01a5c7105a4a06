"""Random requests about groups, from a seed, and who is answered when.

Members of a group wait for each other: a request to join is answered when others have joined, too. So each actor has a
connection of its own, and a *model* (``tests.groupmodel`` behind our own handlers, with time standing still) says after
each request whose answers are due. Both brokers then have to give just these. What the model answers is never compared.

A request is drawn once and made for each party, since ids differ: ``own`` is whatever the party told the actor.

What Kafka leaves to chance, or forgets to answer, is avoided here: who leads after a leader has left two or more behind, a
member that joins again while it waits, or leaves while it waits for an assignment. Ours answers them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast

from ottla.broker.api import Parked
from ottla.broker.apis import ALL
from ottla.broker.context import Context
from ottla.broker.dispatch import Dispatch
from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.group import Group
from ottla.metadata import BrokerId, ReplicaAssignment, Topic, TopicId
from ottla.metadata.image import Image
from ottla.metadata.names import CONSUMER_OFFSETS
from ottla.wire import APIS, ApiKey, ErrorCode, Message, decode, encode
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.k12_heartbeat import HeartbeatRequest
from ottla.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.wire.messages.k16_list_groups import ListGroupsRequest
from ottla.wire.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.groupmodel import GroupModel

ACTORS: Final = ("ann", "bob", "cat", "dan", "eve")
ADMIN: Final = "admin"
"""Whose requests never wait."""
INSTANCES: Final = {"dan": "i-dan", "eve": "i-eve"}
GROUPS: Final = ("g", "group two")
"""As they begin; each episode has groups of its own."""
EPISODE: Final = 80
"""Requests until all begin anew: members that nobody can name any more keep a group from settling."""
SIZE_MAX: Final = 4
TOPICS: Final = {"t": 3, "u": 1}
SESSION_MS: Final = 600_000
"""Longer than any test: time plays no part here."""
PROTOCOLS: Final = (("range",), ("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("sticky",), ())
WEIGHTS: Final = {
    "join": 30,
    "sync": 26,
    "heartbeat": 12,
    "leave": 5,
    "commit": 16,
    "fetch": 8,
    "describe": 8,
    "list": 4,
    "delete": 4,
    "delete_offsets": 4,
    "find": 4,
}
_OF_ACTORS: Final = ("join", "sync", "heartbeat", "commit")
_TOPIC_IDS = 10
_LOOKING = (ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS)
"""Requests that change nothing and are answered at once."""


@dataclass
class Seat:
    """What an actor was told by one party."""

    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""


@dataclass
class Party:
    """One of the three who are asked, as far as requests depend on it."""

    seats: dict[str, Seat] = field(default_factory=lambda: {actor: Seat() for actor in ACTORS})

    def learn(self, actor: str, response: Message | None) -> None:
        if not isinstance(response, JoinGroupResponse):
            return
        seat = self.seats[actor]
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            seat.member_id = response.member_id
        elif not response.error_code:
            self.seats[actor] = Seat(
                response.member_id,
                response.generation_id,
                response.protocol_type,
                response.protocol_name,
                response.leader,
            )

    def topic_id(self, name: str) -> bytes:
        raise NotImplementedError


@dataclass
class Move:
    actor: str
    key: ApiKey
    version: int
    what: str
    make: Callable[[Party, int], Message]
    episode: int = 0

    def __str__(self) -> str:
        return f"{self.actor}: {APIS[self.key].name} v{self.version} {self.what}"


class Model(Party):
    """The shard of our own, behind our own handlers."""

    def __init__(self) -> None:
        super().__init__()
        config = GroupConfig(initial_rebalance_delay_ms=0, size_max=SIZE_MAX)
        self.model = GroupModel(config)
        self.waiting: dict[str, Parked] = {}
        self._asked_in: dict[str, int] = {}
        self._handlers = {handler.key: handler.handle for handler in ALL}
        replicas = ReplicaAssignment((BrokerId(0),))
        topics = {
            name: Topic(name, TopicId(self.topic_id(name)), dict.fromkeys(range(count), replicas))
            for name, count in {**TOPICS, CONSUMER_OFFSETS: 3}.items()
        }
        cluster = SimpleNamespace(image=Image().with_topics(topics))
        clock = SimpleNamespace(wall_ms=lambda: self.model.now_ms)
        self._services = SimpleNamespace(groups=self, cluster=cluster, clock=clock, dispatch=Dispatch(ALL))

    def send(self, move: Move) -> list[str]:
        """Whose answers are due now: that of the request itself, or of others, or nobody's."""
        if move.key in _LOOKING:
            return [move.actor]
        context = Context(cast("Any", self._services), "PLAINTEXT", ("127.0.0.1", 0))
        context.version, context.client_id = move.version, move.actor
        answer = self._handlers[move.key](context, move.make(self, move.version))
        self.model.pass_time()
        if isinstance(answer, Parked):
            parked = answer
        else:
            parked = Parked()
            parked.complete(answer)
        self.waiting[move.actor] = parked
        self._asked_in[move.actor] = move.version
        return self._answered()

    def _answered(self) -> list[str]:
        done = [actor for actor, parked in self.waiting.items() if parked.is_complete]
        for actor in done:
            response, version = self.waiting.pop(actor).response, self._asked_in[actor]
            assert isinstance(response, Message)
            self.learn(actor, decode(type(response), version, encode(response, version)))
        return done

    def topic_id(self, name: str) -> bytes:
        return name.encode()[:16].rjust(16)

    def states(self, group_ids: Iterable[str]) -> dict[str, str]:
        """As a client is told them."""
        groups = {group_id: self.group(group_id) for group_id in group_ids}
        return {group_id: "Dead" if group is None else group.state.value for group_id, group in groups.items()}

    # As a coordinator.

    def run(self, _group_id: str, operation: Callable[..., Any]) -> ErrorCode:
        self.model.do(operation(self.model.shard, self.model.now_ms))
        return ErrorCode.NONE

    def run_each(self, _group_id: str, operation: Callable[..., Any]) -> ErrorCode:
        self.model.do_all(operation(self.model.shard, self.model.now_ms))
        return ErrorCode.NONE

    def run_gathered(self, group_id: str, operation: Callable[..., Any]) -> ErrorCode:
        return self.run(group_id, operation)

    def group(self, group_id: str) -> Group | None:
        return self.model.shard.groups.get(group_id)


class Generator:
    """Moves without end, the same for the same seed."""

    def __init__(self, seed: int, model: Model) -> None:
        self._draw = random.Random(seed)
        self._model = model
        self._versions: dict[ApiKey, list[int]] = {}
        self.groups: tuple[str, ...] = ()
        self._home: dict[str, str] = {}

    def moves(self, count: int) -> Iterator[Move]:
        for number in range(count):
            if number % EPISODE == 0:
                self._begin(number // EPISODE)
            move = self._one()
            move.episode = number // EPISODE
            yield move

    def _begin(self, episode: int) -> None:
        self.groups = tuple(f"{name} {episode}" for name in GROUPS)
        self._home = {actor: self.groups[self._draw.random() < 0.2] for actor in ACTORS}
        self._model.waiting.clear()

    def _one(self) -> Move:
        draw = self._draw
        kind = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        idle = [actor for actor in ACTORS if actor not in self._model.waiting]
        if not idle and kind in _OF_ACTORS:
            kind = "leave"
        move: Move = getattr(self, f"_{kind}")(*([draw.choice(idle)] if kind in _OF_ACTORS else []))
        return move

    def _version(self, key: ApiKey, *, least: int = 0) -> int:
        """The one that was not sent for longest."""
        low, high = APIS[key].offered
        versions = self._versions.setdefault(key, list(range(low, high + 1)))
        chosen = next(version for version in versions if version >= least)
        versions.remove(chosen)
        versions.append(chosen)
        return chosen

    def _move(
        self, actor: str, key: ApiKey, what: str, make: Callable[[Party, int], Message], *, least: int = 0
    ) -> Move:
        return Move(actor, key, self._version(key, least=least), what, make)

    # Who says to be whom.

    def _group(self, actor: str | None = None) -> str:
        chance = self._draw.random()
        if chance < 0.03:
            return ""
        if chance < 0.06:
            return self._draw.choice((*self.groups, "nobody's"))
        return self._home[actor] if actor is not None else self._draw.choice(self.groups)

    def _member(self, actor: str, *, mostly: float = 0.88) -> Callable[[Party], str]:
        chance = self._draw.random()
        other = self._draw.choice(ACTORS)
        if chance < mostly:
            return lambda party: party.seats[actor].member_id
        if chance < mostly + 0.04:
            return lambda party: party.seats[other].member_id
        return (lambda _party: "") if chance < mostly + 0.08 else (lambda _party: "nobody")

    def _is_known(self, actor: str, group_id: str) -> bool:
        group, member_id = self._model.group(group_id), self._model.seats[actor].member_id
        return group is not None and (member_id in group.members or member_id in group.pending_members)

    def _would_lose_a_leader(self, actor: str) -> bool:
        """The group is full without it, so it would be sent away."""
        group = self._model.group(self._home[actor])
        if group is None or group.awaiting_join < SIZE_MAX:
            return False
        return group.leader_id is not None and group.members[group.leader_id].awaiting_join is None

    def _waits(self, group_id: str, member_id: str) -> bool:
        """Another request of the same member would never be answered by Kafka, once this one has overtaken it."""
        group = self._model.group(group_id)
        member = None if group is None else group.members.get(member_id)
        return member is not None and (member.awaiting_join is not None or member.awaiting_sync is not None)

    def _is_twice(self, actor: str, group_id: str, member_id: str, instance: str | None) -> bool:
        """An actor would become a second member, and nobody could tell the two apart."""
        group = self._model.group(group_id)
        inside = [] if group is None else [each for each in group.members.values() if each.client_id == actor]
        return (
            bool(inside)
            and (instance is None or inside[0].instance_id != instance)
            and member_id != inside[0].member_id
        )

    def _instance(self, actor: str, version: int, least: int) -> str | None:
        if version < least:
            return None
        chance = self._draw.random()
        if chance < 0.9:
            return INSTANCES.get(actor)
        return self._draw.choice((None, "i-nobody", *INSTANCES.values()))

    def _generation(self, actor: str) -> Callable[[Party], int]:
        chance = self._draw.random()
        if chance < 0.88:
            return lambda party: party.seats[actor].generation
        more = self._draw.choice((-1, 1, 5))
        return (lambda party: party.seats[actor].generation + more) if chance < 0.95 else (lambda _party: -1)

    # Membership.

    def _join(self, actor: str) -> Move:
        draw = self._draw
        if self._would_lose_a_leader(actor):
            return self._heartbeat(actor)
        version = self._version(ApiKey.JOIN_GROUP)
        group, instance = self._group(actor), self._instance(actor, version, 5)
        member = self._member(actor, mostly=0.8)
        if self._is_twice(actor, group, member(self._model), instance):
            member = lambda party: party.seats[actor].member_id  # noqa: E731
        elif not self._is_known(actor, group) and draw.random() < 0.85:
            member = lambda _party: ""  # noqa: E731  it was given up, and begins anew
        if self._waits(group, member(self._model)):
            return self._heartbeat(actor)
        session_ms = SESSION_MS if draw.random() < 0.95 else draw.choice((5_999, 1_800_001))
        protocol_type = "consumer" if draw.random() < 0.95 else draw.choice(("", "connect"))
        readable = draw.random() < 0.9
        topics = list(draw.choice((("t",), ("t", "u"), ("u",))))
        names = draw.choice(PROTOCOLS) if draw.random() < 0.4 else ("range",)
        subscription = ConsumerProtocolSubscription(topics=topics, user_data=actor.encode())
        metadata = b"\0\0" + encode(subscription, 0) if readable else b"?" + actor.encode()
        protocols = [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]

        def make(party: Party, _version: int) -> Message:
            return JoinGroupRequest(
                group_id=group,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=SESSION_MS,
                member_id=member(party),
                group_instance_id=instance,
                protocol_type=protocol_type,
                protocols=protocols,
            )

        what = f"{group!r} {member(self._model)!r} {instance} {protocol_type} {names} {topics}"
        return Move(actor, ApiKey.JOIN_GROUP, version, what, make)

    def _sync(self, actor: str) -> Move:
        draw = self._draw
        version = self._version(ApiKey.SYNC_GROUP)
        group, instance = self._group(actor), self._instance(actor, version, 3)
        member, generation = self._member(actor), self._generation(actor)
        if self._waits(group, member(self._model)):
            return self._heartbeat(actor)
        left_out = draw.choice(ACTORS) if draw.random() < 0.2 else None
        wrong = draw.choice(("type", "name", "none")) if draw.random() < 0.06 else None

        def make(party: Party, version: int) -> Message:
            seat = party.seats[actor]
            assignments = []
            if seat.leader == seat.member_id:
                assignments = [
                    SyncGroupRequestAssignment(member_id=other.member_id, assignment=f"for {name}".encode())
                    for name, other in party.seats.items()
                    if name != left_out and other.member_id
                ]
            request = SyncGroupRequest(
                group_id=group,
                generation_id=generation(party),
                member_id=member(party),
                group_instance_id=instance,
                assignments=assignments,
            )
            if version >= 5 and wrong != "none":
                request.protocol_type = "other" if wrong == "type" else seat.protocol_type or "consumer"
                request.protocol_name = "other" if wrong == "name" else seat.protocol_name or "range"
            return request

        what = f"{group!r} {member(self._model)!r} {generation(self._model)} {instance} {wrong}"
        return Move(actor, ApiKey.SYNC_GROUP, version, what, make)

    def _heartbeat(self, actor: str) -> Move:
        version = self._version(ApiKey.HEARTBEAT)
        group, instance = self._group(actor), self._instance(actor, version, 3)
        member, generation = self._member(actor), self._generation(actor)

        def make(party: Party, _version: int) -> Message:
            return HeartbeatRequest(
                group_id=group,
                generation_id=generation(party),
                member_id=member(party),
                group_instance_id=instance,
            )

        return Move(actor, ApiKey.HEARTBEAT, version, f"{group!r} {generation(self._model)} {instance}", make)

    def _leave(self) -> Move:
        """By an administrator, so that those can leave who wait. The leader does not leave two behind."""
        draw = self._draw
        actor = draw.choice(ACTORS)
        group_id = self._group(actor)
        leaving = [actor] + ([draw.choice(ACTORS)] if draw.random() < 0.2 else [])
        group = self._model.group(group_id)
        if group is not None and not self._may_leave(group, leaving):
            return self._heartbeat_of_nobody(group_id)
        version = self._version(ApiKey.LEAVE_GROUP, least=0 if len(leaving) == 1 else 3)
        by_name = version >= 3 and draw.random() < 0.15
        instances = [INSTANCES.get(each) if version >= 3 and draw.random() < 0.9 else None for each in leaving]
        bogus = draw.random() < 0.05

        def make(party: Party, version: int) -> Message:
            ids = ["nobody" if bogus else party.seats[each].member_id for each in leaving]
            if version < 3:
                return LeaveGroupRequest(group_id=group_id, member_id=ids[0])
            members = [
                MemberIdentity(
                    member_id="" if by_name and instance is not None else member_id, group_instance_id=instance
                )
                for member_id, instance in zip(ids, instances, strict=True)
            ]
            return LeaveGroupRequest(group_id=group_id, members=members)

        return Move(ADMIN, ApiKey.LEAVE_GROUP, version, f"{group_id!r} {leaving} {instances} {by_name=} {bogus=}", make)

    def _may_leave(self, group: Group, leaving: list[str]) -> bool:
        """Not the leader of two or more, and nobody who waits for an assignment: Kafka would never answer that."""
        ids = {self._model.seats[each].member_id for each in leaving}
        ids |= {group.static_members.get(INSTANCES.get(each, ""), "") for each in leaving}
        gone = [group.members[each] for each in ids if each in group.members]
        if any(member.awaiting_sync is not None for member in gone):
            return False
        return group.leader_id not in ids or len(group.members) - len(gone) < 2

    def _heartbeat_of_nobody(self, group_id: str) -> Move:
        request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="nobody")
        return self._move(ADMIN, ApiKey.HEARTBEAT, f"{group_id!r} nobody", lambda _party, _version: request)

    # Offsets.

    def _where(self) -> dict[str, list[int]]:
        draw = self._draw
        names = draw.sample(("t", "u", "nowhere"), draw.choice((1, 1, 2)))
        return {name: draw.sample(range(4), draw.choice((1, 1, 2))) for name in names}

    def _commit(self, actor: str) -> Move:
        draw = self._draw
        version = self._version(ApiKey.OFFSET_COMMIT)
        alone = draw.random() < 0.25
        group = self._group(actor)
        instance = None if alone else self._instance(actor, version, 7)
        member = (lambda _party: "") if alone else self._member(actor)
        generation = (lambda _party: -1) if alone else self._generation(actor)
        retention_ms = draw.choice((-1, -1, 3_600_000)) if version <= 4 else -1
        where = self._where()
        offsets = {
            (name, number): (draw.randrange(100), draw.choice((-1, 0, 3)), draw.choice((None, "", "m", "m" * 4097)))
            for name, numbers in where.items()
            for number in numbers
        }

        def make(party: Party, version: int) -> Message:
            topics = [
                OffsetCommitRequestTopic(
                    name=name if version < _TOPIC_IDS else "",
                    topic_id=party.topic_id(name) if version >= _TOPIC_IDS else bytes(16),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offsets[name, number][0],
                            committed_leader_epoch=offsets[name, number][1],
                            committed_metadata=offsets[name, number][2],
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in where.items()
            ]
            return OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=generation(party),
                member_id=member(party),
                group_instance_id=instance,
                retention_time_ms=retention_ms,
                topics=topics,
            )

        return Move(actor, ApiKey.OFFSET_COMMIT, version, f"{group!r} {alone=} {instance} {offsets}"[:300], make)

    def _fetch(self) -> Move:
        draw = self._draw
        version = self._version(ApiKey.OFFSET_FETCH)
        groups = [self._group() for _ in range(draw.choice((1, 1, 2)))]
        where = None if version >= 2 and draw.random() < 0.4 else self._where()
        stable = draw.random() < 0.5

        def make(party: Party, version: int) -> Message:
            if version < 8:
                topics = None
                if where is not None:
                    topics = [
                        OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in where.items()
                    ]
                return OffsetFetchRequest(group_id=groups[0], topics=topics, require_stable=stable and version >= 7)
            wanted = [
                OffsetFetchRequestGroup(
                    group_id=group_id,
                    topics=None
                    if where is None
                    else [
                        OffsetFetchRequestTopics(
                            name=name if version < _TOPIC_IDS else "",
                            topic_id=party.topic_id(name) if version >= _TOPIC_IDS else bytes(16),
                            partition_indexes=each,
                        )
                        for name, each in where.items()
                    ],
                )
                for group_id in dict.fromkeys(groups)
            ]
            return OffsetFetchRequest(groups=wanted, require_stable=stable)

        return Move(ADMIN, ApiKey.OFFSET_FETCH, version, f"{groups} {where}", make)

    def _delete_offsets(self) -> Move:
        group, where = self._group(), self._where()
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
            )
            for name, numbers in where.items()
        ]
        request = OffsetDeleteRequest(group_id=group, topics=topics)
        return self._move(ADMIN, ApiKey.OFFSET_DELETE, f"{group!r} {where}", lambda _party, _version: request)

    # Groups as such.

    def _describe(self) -> Move:
        groups = [self._group() for _ in range(self._draw.choice((1, 2)))]
        version = self._version(ApiKey.DESCRIBE_GROUPS)
        authorized = version >= 3 and self._draw.random() < 0.5
        request = DescribeGroupsRequest(groups=groups, include_authorized_operations=authorized)
        return Move(ADMIN, ApiKey.DESCRIBE_GROUPS, version, f"{groups} {authorized=}", lambda _party, _version: request)

    def _list(self) -> Move:
        version = self._version(ApiKey.LIST_GROUPS)
        request = ListGroupsRequest()
        if version >= 4 and self._draw.random() < 0.5:
            request.states_filter = [self._draw.choice(("Stable", "empty", "PreparingRebalance", "nonsense"))]
        if version >= 5 and self._draw.random() < 0.5:
            request.types_filter = [self._draw.choice(("classic", "Classic", "consumer", "nonsense"))]
        return Move(ADMIN, ApiKey.LIST_GROUPS, version, str(request), lambda _party, _version: request)

    def _delete(self) -> Move:
        groups = [self._group() for _ in range(self._draw.choice((1, 1, 2)))]
        request = DeleteGroupsRequest(groups_names=groups)
        return self._move(ADMIN, ApiKey.DELETE_GROUPS, f"{groups}", lambda _party, _version: request)

    def _find(self) -> Move:
        version = self._version(ApiKey.FIND_COORDINATOR)
        keys = [self._group(), "some key"]
        kind = self._draw.choice((0, 0, 0, 1, 1, 1, 9)) if version > 0 else 0

        def make(_party: Party, version: int) -> Message:
            if version < 4:
                return FindCoordinatorRequest(key=keys[0], key_type=kind)
            return FindCoordinatorRequest(coordinator_keys=keys, key_type=kind)

        return Move(ADMIN, ApiKey.FIND_COORDINATOR, version, f"{keys} {kind}", make)
