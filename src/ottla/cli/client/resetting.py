"""A reset worked out and carried out: where each partition of a group is, and where it is to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from ottla.cli.client.connection import NOT_FOUND, Connection, Failure, Target, missing_topic, wait
from ottla.cli.client.description import list_offsets
from ottla.cli.client.groups import Partition, committed_offsets
from ottla.cli.client.output import Row
from ottla.cli.client.ranges import Kind, Range, resolve
from ottla.cli.client.resets import Place

IDLE = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


def check_idle(target: Target, connection: Connection, group: str) -> None:
    """A group with members would go on where its members are, and commit that."""
    described = connection.admin.describe_consumer_groups([group], request_timeout=target.timeout_s)
    found = wait(described[group], target.timeout_s + 1)
    if found.state not in IDLE:
        raise Failure(
            f"{group} has {len(found.members)} members and is {found.state.name}; stop them first, "
            f"'ottla group describe {group}' shows who they are"
        )


def chosen_partitions(connection: Connection, topics: Mapping[str, list[int]]) -> list[Partition]:
    """Of the topics that were named; numbers that were named, too, have to be there."""
    chosen = []
    for topic, numbers in topics.items():
        chosen += [(topic, number) for number in numbers or _partitions_of(connection, topic)]
    _check_there(connection, chosen)
    return chosen


def _partitions_of(connection: Connection, topic: str) -> list[int]:
    found = connection.cluster.topics.get(topic)
    if found is None:
        raise missing_topic(topic)
    return sorted(found.partitions)


def _check_there(connection: Connection, named: Iterable[Partition]) -> None:
    for topic, number in named:
        there = _partitions_of(connection, topic)
        if number not in there:
            raise Failure(f"{topic} has the partitions 0 to {len(there) - 1}, not {number}", NOT_FOUND)


def plan_reset(
    target: Target,
    connection: Connection,
    group: str,
    topics: Mapping[str, list[int]],
    wanted: Place | Mapping[Partition, int],
    now_ms: int,
) -> list[Row]:
    """One row for each partition. An offset beyond either end is moved to that end.

    There is no new offset for a partition that is gone, nor where a shift has nothing to begin at.
    """
    admin, timeout_s = connection.admin, target.timeout_s
    committed = committed_offsets(target, admin, group)
    if not isinstance(wanted, Place):
        named = set(chosen_partitions(connection, topics))
        partitions = there = [where for where in sorted(wanted) if not topics or where in named]
        _check_there(connection, there)
    elif topics:
        partitions = there = chosen_partitions(connection, topics)
    else:
        partitions, known = sorted(committed), connection.cluster.topics
        there = [where for where in partitions if where[0] in known and where[1] in known[where[0]].partitions]
    low = list_offsets(admin, there, OffsetSpec.earliest(), timeout_s)
    high = list_offsets(admin, there, OffsetSpec.latest(), timeout_s)
    at: Mapping[Partition, int | None] = {}
    if isinstance(wanted, Place) and wanted.bound is not None and wanted.bound.kind is Kind.TIME:
        at = list_offsets(admin, there, OffsetSpec.for_timestamp(wanted.bound.value), timeout_s)
    rows = []
    for where in partitions:
        now = committed[where].offset if where in committed else None
        if where not in high:
            rows.append(_row(group, where, now, None, None))
            continue
        first, end = low[where] or 0, high[where] or 0
        if not isinstance(wanted, Place):
            new: int | None = wanted[where]
        elif wanted.bound is None:
            new = None if now is None else now + wanted.shift
        else:
            times = {wanted.bound.value: at.get(where)}
            new = resolve(Range(wanted.bound), low=first, high=end, offsets=times, now_ms=now_ms).start
        new = None if new is None else min(max(new, first), end)
        rows.append(_row(group, where, now, new, end))
    return rows


def _row(group: str, where: Partition, now: int | None, new: int | None, end: int | None) -> Row:
    return {
        "group": group,
        "topic": where[0],
        "partition": where[1],
        "committed_offset": now,
        "new_offset": new,
        "high_watermark": end,
        "lag": None if new is None or end is None else end - new,
    }


def carry_out(target: Target, connection: Connection, group: str, rows: Iterable[Row]) -> None:
    offsets = [
        TopicPartition(str(row["topic"]), int(str(row["partition"])), int(str(row["new_offset"])))
        for row in rows
        if row["new_offset"] is not None
    ]
    if not offsets:
        return
    request = [ConsumerGroupTopicPartitions(group, offsets)]
    futures = connection.admin.alter_consumer_group_offsets(request, request_timeout=target.timeout_s)
    for each in wait(futures[group], target.timeout_s + 1).topic_partitions or ():
        if each.error is not None:
            raise KafkaException(each.error)
