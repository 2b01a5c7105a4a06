"""What a cluster tells of consumer groups: state, members, committed offsets, and how far behind they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, OffsetSpec

from ottla.cli.client.connection import Connection, Failure, Target, explain, wait
from ottla.cli.client.description import list_offsets
from ottla.cli.client.output import Output, Row, field, show, table_lines

Partition = tuple[str, int]
Committed = dict[Partition, TopicPartition]


def list_groups(target: Target, connection: Connection, output: Output) -> list[Row]:
    """All groups by name. A broker that does not tell is remarked on; none at all is an error."""
    found = wait(connection.admin.list_consumer_groups(request_timeout=target.timeout_s), target.timeout_s + 1)
    for error in found.errors or ():
        refusal = explain(error.args[0])
        if not found.valid:
            raise Failure(refusal)
        output.note(f"some groups may be missing: {refusal}")
    return [
        {"group": each.group_id, "state": each.state.name, "simple": bool(each.is_simple_consumer_group)}
        for each in sorted(found.valid or (), key=lambda each: str(each.group_id))
    ]


def describe_groups(target: Target, connection: Connection, names: list[str], output: Output) -> list[dict[str, Any]]:
    """One dict for each group, as ``--json`` has it. Where a broker does not tell an end, there is no lag to be told."""
    if not names:
        return []
    described = connection.admin.describe_consumer_groups(names, request_timeout=target.timeout_s)
    groups = []
    refusals: set[str] = set()
    for name in names:
        description: ConsumerGroupDescription = wait(described[name], target.timeout_s + 1)
        committed = committed_offsets(target, connection.admin, name)
        owners = {
            (each.topic, each.partition): member
            for member in description.members
            for each in member.assignment.topic_partitions or ()
        }
        ends = end_offsets(target, connection, {*committed, *owners}, refusals)
        partitions = [
            _partition(where, committed.get(where), ends.get(where), owners.get(where))
            for where in sorted({*committed, *owners})
        ]
        lags = [each["lag"] for each in partitions if isinstance(each["lag"], int)]
        groups.append(
            {
                "group": name,
                "state": description.state.name,
                "assignor": description.partition_assignor or None,
                "coordinator": description.coordinator.id,
                "lag": sum(lags) if lags else None,
                "partitions": partitions,
                "members": [_member(member) for member in description.members],
            }
        )
    for refusal in sorted(refusals):
        output.note(f"an end is not known: {refusal}")
    return groups


def committed_offsets(target: Target, admin: AdminClient, group: str) -> Committed:
    """What a group has committed, by partition; what it has not is left out."""
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=target.timeout_s)
    found = wait(futures[group], target.timeout_s + 1).topic_partitions or ()
    for each in found:
        if each.error is not None:
            raise KafkaException(each.error)
    return {(each.topic, each.partition): each for each in found if each.offset >= 0}


def end_offsets(
    target: Target, connection: Connection, partitions: Iterable[Partition], refusals: set[str]
) -> Mapping[Partition, int | None]:
    """Of those partitions that are still there and have a leader; ``refusals`` as for ``list_offsets``."""
    topics = connection.cluster.topics
    led = [
        (topic, number)
        for topic, number in partitions
        if topic in topics and number in topics[topic].partitions and topics[topic].partitions[number].leader >= 0
    ]
    return list_offsets(connection.admin, led, OffsetSpec.latest(), target.timeout_s, refusals=refusals)


def _partition(where: Partition, committed: TopicPartition | None, end: int | None, member: Any) -> Row:
    offset = None if committed is None else committed.offset
    return {
        "topic": where[0],
        "partition": where[1],
        "committed_offset": offset,
        "high_watermark": end,
        "lag": None if offset is None or end is None else max(end - offset, 0),
        "metadata": (committed.metadata or "") if committed is not None else None,
        "member_id": None if member is None else member.member_id,
        "client_id": None if member is None else member.client_id,
        "host": None if member is None else member.host,
    }


def _member(member: Any) -> Row:
    assigned = member.assignment.topic_partitions or ()
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "partitions": [
            {"topic": each.topic, "partition": each.partition}
            for each in sorted(assigned, key=lambda each: (each.topic, each.partition))
        ],
    }


_PARTITION_COLUMNS = (
    field("TOPIC", "topic"),
    field("PARTITION", "partition"),
    field("COMMITTED", "committed_offset"),
    field("END", "high_watermark"),
    field("LAG", "lag"),
    field("CLIENT", "client_id"),
    field("HOST", "host", wide=True),
    field("MEMBER", "member_id", wide=True),
    field("METADATA", "metadata", wide=True),
)
_MEMBER_COLUMNS = (
    field("MEMBER", "member_id"),
    field("INSTANCE", "instance_id"),
    field("CLIENT", "client_id"),
    field("HOST", "host"),
)


def show_groups(output: Output, groups: list[dict[str, Any]]) -> None:
    if output.form not in ("table", "wide"):
        show(output, "groups", groups, ())
        return
    wide = output.form == "wide"
    for number, group in enumerate(groups):
        if number:
            click.echo()
        assignor = f"  {group['assignor']}" if group["assignor"] else ""
        lag = "" if group["lag"] is None else f"  lag {group['lag']}"
        click.echo(f"{group['group']}  {group['state']}{assignor}  on broker {group['coordinator']}{lag}")
        columns = [column for column in _PARTITION_COLUMNS if wide or not column.wide]
        parts = [(group["partitions"], columns)]
        if wide:
            parts.append((group["members"], list(_MEMBER_COLUMNS)))
        for rows, shown in parts:
            if rows:
                for line in table_lines(rows, shown, header=not output.quiet):
                    click.echo(f"  {line}")
