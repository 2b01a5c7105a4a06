"""A group of the classic protocol as a value: who is in it, in which state, and what it committed.

                    ┌───────────────────────────── the last member is gone ────────────────────────────┐
                    ▼                                                                                  │
    EMPTY ──a member joins──► PREPARING_REBALANCE ──all have joined, or the time is up──► COMPLETING_REBALANCE
                                   ▲    ▲                                                    │      │
                                   │    └──────── somebody joins, leaves or expires ─────────┘      │ the leader's assignment
                                   └───── somebody joins, leaves or expires ───── STABLE ◄──────────┘ is in the log

A group without members and offsets is DEAD: it is taken out, and whoever still holds it is told to look again.

In the log are the group as it was when it last became STABLE or EMPTY, and its offsets. ``apply`` takes that in, be it in
the course of loading or because it was just written. All else here is soft: members who are about to join, who waits for
an answer. After a failover they come again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from ottla.coordinator.groups.offsets import Offsets
from ottla.coordinator.outcome import Reply
from ottla.metadata.hashorder import trie_order
from ottla.wire import DecodeError, decode
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.group_metadata import GroupMetadataValue, MemberMetadata

CONSUMER: Final = "consumer"
"""The protocol type of consumers, whose subscriptions the coordinator can read."""
_SUBSCRIPTION_VERSION_MAX: Final = 3
NO_GENERATION: Final = -1

Protocols = tuple[tuple[str, bytes], ...]
"""What a member offers, with its metadata for each, the one it likes best first."""


class GroupState(Enum):
    """By the names that clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Member:
    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        """Of a static member: the name it keeps when it is started anew."""
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.awaiting_join: Reply | None = None
        self.awaiting_sync: Reply | None = None
        self.is_new = False
        """It has not been told its id yet, so it cannot send heartbeats."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def metadata(self, protocol: str) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Iterable[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)


class Group:
    """See the module."""

    def __init__(self, group_id: str, now_ms: int | None = None) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
        """Since when it is in this state; None if the log does not tell."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, None] = {}
        """Ids that were given out and have not been used to join yet (KIP-394)."""
        self.pending_sync: set[str] = set()
        """Who was told the generation and has not asked for its assignment yet."""
        self.new_member_added = False
        """During the first rebalance, which is drawn out while members keep coming."""
        self.initial_delay_left_ms: int | None = None
        """How long the first rebalance may still be drawn out; None during any other."""
        self.subscribed_topics: frozenset[str] | None = None
        """None if that is not known."""
        self.awaiting_join = 0
        """Members who wait for the rebalance to end."""
        self.offsets = Offsets()
        self._offers: Counter[str] = Counter()

    # State.

    def transition(self, state: GroupState, now_ms: int) -> None:
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def is_consumer(self) -> bool:
        return self.protocol_type == CONSUMER

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return not self.pending_members and self.awaiting_join == len(self.members)

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscribed_topics is None or topic in self.subscribed_topics

    # Members.

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count(member.protocols, 1)
        self.awaiting_join += member.awaiting_join is not None
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            self.awaiting_join -= member.awaiting_join is not None
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_members.pop(member_id, None)
        self.pending_sync.discard(member_id)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member came back, and goes by a new id."""
        assert member.instance_id is not None, "only a static member is known by more than its id"
        del self.members[member.member_id]
        if self.is_leader(member.member_id):
            self.leader_id = member_id
        self.pending_sync.discard(member.member_id)
        member.member_id = self.static_members[member.instance_id] = member_id
        self.members[member_id] = member

    def offer(self, member: Member, protocols: Protocols) -> None:
        """A member has other protocols than before."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def await_join(self, member: Member, reply: Reply | None) -> Reply | None:
        """Let a member wait for the rebalance to end, or wait no more; gives who waited for it before."""
        before, member.awaiting_join = member.awaiting_join, reply
        self.awaiting_join += (reply is not None) - (before is not None)
        return before

    def _count(self, protocols: Protocols, change: int) -> None:
        for name, _ in protocols:
            self._offers[name] += change

    def elect_joined_leader(self) -> bool:
        """A leader that did not come again is replaced by one of those who did; False if nobody did."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((each for each in self.members.values() if each.awaiting_join is not None), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    # Protocols.

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and any(
            self._offers[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """The one that most members like best, of those that all of them have. Of equals, the one that Kafka would take."""
        candidates = {name for name, count in self._offers.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(trie_order(votes), key=votes.__getitem__)

    def begin_generation(self, now_ms: int) -> None:
        self.generation += 1
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.transition(GroupState.EMPTY, now_ms)
        self.subscribed_topics = self._subscribed_topics()
        self.pending_sync.clear()

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.is_consumer:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        # Most members say the same.
        for metadata in {member.metadata(self.protocol_name) for member in self.members.values()}:
            try:
                topics.update(_subscription(metadata))
            except DecodeError:
                return None
        return frozenset(topics)

    # What the log says.

    def value(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupMetadataValue:
        """The group as it is written."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=now_ms if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name or ""),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )

    def apply(self, value: GroupMetadataValue) -> None:
        """Take in what is in the log. Members that are known keep what the log does not tell."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        known = {each.member_id for each in value.members}
        for member_id in [each for each in self.members if each not in known]:
            self.remove(member_id)
        for each in value.members:
            self._apply_member(each, value)
        self.leader_id = value.leader
        self.state = GroupState.STABLE if value.members else GroupState.EMPTY
        self.state_timestamp_ms = value.current_state_timestamp if value.current_state_timestamp >= 0 else None
        self.subscribed_topics = self._subscribed_topics()

    def _apply_member(self, each: MemberMetadata, value: GroupMetadataValue) -> None:
        member = self.members.get(each.member_id)
        if member is None:
            member = Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                rebalance_timeout_ms=each.rebalance_timeout,
                session_timeout_ms=each.session_timeout,
                protocols=((value.protocol or "", each.subscription),),
            )
            self.add(member, value.protocol_type)
        member.assignment = each.assignment

    def forget(self) -> None:
        """The log has no members for it any more; offsets it may still have."""
        for member_id in list(self.members):
            self.remove(member_id)
        self.state, self.state_timestamp_ms = GroupState.EMPTY, None
        self.generation, self.protocol_type, self.protocol_name = 0, None, None
        self.subscribed_topics = None


def _subscription(metadata: bytes) -> list[str]:
    """The topics in a consumer's metadata; versions from the future begin like the newest that is known."""
    if len(metadata) < 2:
        raise DecodeError("a subscription without a version")
    version = int.from_bytes(metadata[:2], "big", signed=True)
    if version < 0:
        raise DecodeError(f"a subscription of version {version}")
    return decode(ConsumerProtocolSubscription, min(version, _SUBSCRIPTION_VERSION_MAX), metadata, 2).topics
