"""What a cluster tells of a topic: partitions with their offsets, and settings with where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click
from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition, Uuid
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, OffsetSpec, ResourceType

from ottla.cli.client.connection import Connection, Target, explain, wait
from ottla.cli.client.output import Column, Output, Row, field, show, table_lines

Offsets = dict[tuple[str, int], int | None]


def describe_topics(target: Target, connection: Connection, names: list[str], output: Output) -> list[dict[str, Any]]:
    """One dict for each topic, as ``--json`` has it."""
    if not names:
        return []
    admin = connection.admin
    described = admin.describe_topics(TopicCollection(names), request_timeout=target.timeout_s)
    led = [
        (name, number)
        for name in names
        for number, partition in connection.cluster.topics[name].partitions.items()
        if partition.leader >= 0
    ]
    refusals: set[str] = set()
    first = list_offsets(admin, led, OffsetSpec.earliest(), target.timeout_s, refusals=refusals)
    last = list_offsets(admin, led, OffsetSpec.latest(), target.timeout_s, refusals=refusals)
    for refusal in sorted(refusals):
        output.note(f"offsets are not shown: {refusal}")
    configs = _configs(target, admin, names, output)
    topics = []
    for name in names:
        description = wait(described[name], target.timeout_s + 1)
        partitions = [
            {
                "partition": partition.id,
                "leader": partition.leader.id if partition.leader is not None else None,
                "replicas": [node.id for node in partition.replicas],
                "isr": [node.id for node in partition.isr],
                "log_start_offset": first.get((name, partition.id)),
                "high_watermark": last.get((name, partition.id)),
            }
            for partition in sorted(description.partitions, key=lambda partition: partition.id)
        ]
        topics.append(
            {
                "name": name,
                "topic_id": format_topic_id(description.topic_id),
                "internal": description.is_internal,
                "partitions": partitions,
                "configs": configs[name],
            }
        )
    return topics


def format_topic_id(topic_id: Uuid) -> str:
    """As Kafka's tools have it; librdkafka writes the other alphabet of base64."""
    return str(topic_id).replace("+", "-").replace("/", "_")


def list_offsets(
    admin: AdminClient,
    partitions: Iterable[tuple[str, int]],
    spec: OffsetSpec,
    timeout_s: float,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    *,
    refusals: set[str] | None = None,
) -> Offsets:
    """The offset of each partition by one rule, one request a broker; None where no record answers to it.

    A partition of which a broker does not tell it has none, if there are ``refusals``: the reason is put there.
    """
    wanted = {TopicPartition(topic, number): spec for topic, number in partitions}
    if not wanted:
        return {}
    futures = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=timeout_s)
    found: Offsets = {}
    for partition, future in futures.items():
        try:
            offset = wait(future, timeout_s + 1).offset
        except KafkaException as error:
            # Below zero are librdkafka's own, as when nobody answers.
            if refusals is None or error.args[0].code() < 0:
                raise
            refusals.add(f"{partition.topic}-{partition.partition}: {explain(error.args[0])}")
            offset = -1
        found[partition.topic, partition.partition] = offset if offset >= 0 else None
    return found


def _configs(target: Target, admin: AdminClient, names: list[str], output: Output) -> Mapping[str, list[Row] | None]:
    """The settings of each topic, by name; None where the cluster does not tell."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    found: dict[str, list[Row] | None] = {}
    refusals = set()
    for resource, future in admin.describe_configs(resources, request_timeout=target.timeout_s).items():
        try:
            entries = wait(future, target.timeout_s + 1)
        except KafkaException as error:
            refusals.add(explain(error.args[0]))
            found[resource.name] = None
            continue
        found[resource.name] = [
            {
                "name": name,
                "value": None if entry.is_sensitive else entry.value,
                "source": ConfigSource(entry.source).name,
                "read_only": bool(entry.is_read_only),
                "sensitive": bool(entry.is_sensitive),
            }
            for name, entry in sorted(entries.items())
        ]
    for refusal in sorted(refusals):
        output.note(f"settings are not shown: {refusal}")
    return found


_PARTITION_COLUMNS = (
    field("PARTITION", "partition"),
    field("LEADER", "leader"),
    field("REPLICAS", "replicas"),
    field("ISR", "isr"),
    field("LOG-START", "log_start_offset"),
    field("HIGH-WATERMARK", "high_watermark"),
)
_CONFIG_COLUMNS = (field("SETTING", "name"), field("VALUE", "value"), field("SOURCE", "source"))


def show_descriptions(output: Output, topics: list[dict[str, Any]]) -> None:
    if output.form not in ("table", "wide"):
        show(output, "topics", topics, ())
        return
    for number, topic in enumerate(topics):
        if number:
            click.echo()
        _show_table(output, topic)


def _show_table(output: Output, topic: dict[str, Any]) -> None:
    click.echo(f"{topic['name']}  id {topic['topic_id']}" + ("  internal" if topic["internal"] else ""))
    configs = [
        config
        for config in topic["configs"] or []
        if output.form == "wide" or config["source"] == ConfigSource.DYNAMIC_TOPIC_CONFIG.name
    ]
    parts: list[tuple[list[Row], tuple[Column, ...]]] = [(topic["partitions"], _PARTITION_COLUMNS)]
    if configs:
        parts.append((configs, _CONFIG_COLUMNS))
    for rows, columns in parts:
        for line in table_lines(rows, columns, header=not output.quiet):
            click.echo(f"  {line}")
