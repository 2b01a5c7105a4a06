"""What becomes of offsets that nobody needs, and of groups that have none left.

Offsets are kept for ``offsets.retention.minutes``, counted

    from the end of the last member     if the group had members, and has none
    from each commit                    if it never had any, or if its members do not subscribe to the topic any more

A client of old that said itself how long gets just that. While a group rebalances, or if its subscriptions cannot be read,
nothing expires.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.coordinator.groups.formats import CommittedOffset, GroupRecord, OffsetRecord, Stored
from ottla.coordinator.groups.group import Group, GroupState
from ottla.coordinator.outcome import Outcome
from ottla.metadata.ids import TopicPartition


def expired(group: Group, retention_ms: int, now_ms: int) -> list[TopicPartition]:
    """Which of its offsets were kept long enough."""
    offsets, since_ms = group.offsets, group.state_timestamp_ms
    if group.state is GroupState.EMPTY:
        if group.protocol_type is not None and since_ms is not None:
            return offsets.expired(lambda _: since_ms, retention_ms=retention_ms, now_ms=now_ms)
        return offsets.expired(_committed_ms, retention_ms=retention_ms, now_ms=now_ms)
    if group.is_consumer and group.subscribed_topics is not None and group.state is GroupState.STABLE:
        old = offsets.expired(_committed_ms, retention_ms=retention_ms, now_ms=now_ms)
        return [where for where in old if not group.is_subscribed_to(where.topic)]
    return []


def is_unused(group: Group) -> bool:
    """Nobody is in it, and nothing is remembered. Who was given an id and has not come yet does not count, as with Kafka."""
    return group.state is GroupState.EMPTY and group.offsets.is_empty


def removal(group: Group, gone: Sequence[TopicPartition]) -> Outcome[Stored]:
    """Take away offsets, and the group too if nothing is left of it. One of generation 0 never was in the log."""
    outcome: Outcome[Stored] = Outcome()
    there = [where for where in gone if where in group.offsets]
    outcome.records = [OffsetRecord(group.group_id, *where, None) for where in there]
    is_empty = group.state is GroupState.EMPTY and not group.offsets.is_more_than(there)
    if is_empty and group.generation > 0:
        outcome.records.append(GroupRecord(group.group_id, None))
    return outcome


def _committed_ms(value: CommittedOffset) -> int:
    return value.commit_timestamp_ms
