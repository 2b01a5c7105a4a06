"""The commands ``ottla topic create|ls|describe|delete``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from ottla.cli import options
from ottla.cli.client.connection import (
    Connection,
    Target,
    client_command,
    explain,
    missing_topic,
    output_command,
    wait,
)
from ottla.cli.client.deleting import Deletion, deletion_command, show_done
from ottla.cli.client.output import Output, Row, field, show

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

INTERNAL = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
"""Kafka's own topics, by the names that Kafka knows them by; metadata as librdkafka shows it does not say."""
BROKER_DEFAULT = -1


@click.group("topic", context_settings={"show_default": True})
def command() -> None:
    """Create, list, describe and delete topics."""


@command.command("create")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("-p", "--partitions", metavar="N", type=click.IntRange(1), help="Partitions; the brokers' default.")
@click.option("-r", "--replication-factor", metavar="N", type=click.IntRange(1), help="Replicas; the brokers' default.")
@click.option(
    "--replica-assignment",
    metavar="B:B,...",
    help="Brokers of each partition: 1:2,2:3 is two partitions on 1 and 2, and on 2 and 3.",
)
@options.settings("--config", help="Give any topic setting.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is no error.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check it, and create nothing.")
@output_command
@client_command
def create(
    names: tuple[str, ...],
    *,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    config_settings: dict[str, str],
    if_not_exists: bool,
    dry_run: bool,
    output: Output,
    target: Target,
) -> None:
    """Create topics.

    \b
    ottla topic create orders -p 6 -r 3 --config retention.ms=604800000
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    assignment = _assignment(replica_assignment)
    if assignment and (partitions or replication_factor):
        raise click.UsageError("--replica-assignment says how many partitions and replicas there are")
    from confluent_kafka import KafkaException
    from confluent_kafka.cimpl import NewTopic

    # librdkafka tells a list of assignments from a missing one by its presence.
    placement = (
        {"num_partitions": len(assignment), "replica_assignment": assignment}
        if assignment
        else {
            "num_partitions": partitions or BROKER_DEFAULT,
            "replication_factor": replication_factor or BROKER_DEFAULT,
        }
    )
    wanted = [NewTopic(name, config=config_settings, **placement) for name in dict.fromkeys(names)]
    connection = target.connect()  # kept while answers are waited for: they end with it
    futures = connection.admin.create_topics(wanted, validate_only=dry_run, operation_timeout=target.timeout_s)
    rows: list[Row] = []
    failed: list[str] = []
    for name, future in futures.items():
        status = "would be created" if dry_run else "created"
        try:
            wait(future, target.timeout_s + 1)
        except KafkaException as error:
            refusal: KafkaError = error.args[0]
            status = "exists"
            if not (if_not_exists and refusal.name() == "TOPIC_ALREADY_EXISTS"):
                failed.append(f"{name}: {explain(refusal)}")
                continue
        rows.append({"name": name, "status": status})
    show_done(output, "topics", "name", rows, failed)


@command.command("ls")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option("-i", "--internal", is_flag=True, help="Also the topics that Kafka keeps for itself.")
@output_command
@client_command
def ls(patterns: tuple[str, ...], *, internal: bool, output: Output, target: Target) -> None:
    """List topics.

    PATTERN is a name, or has * ? [...] in it as file names do.
    """
    connection = target.connect()
    rows = [
        _summary(connection, name)
        for name in sorted(connection.cluster.topics)
        if (internal or name not in INTERNAL) and (not patterns or _matches(name, patterns))
    ]
    columns = (
        field("NAME", "name"),
        field("PARTITIONS", "partitions"),
        field("REPLICAS", "replication_factor"),
        field("UNDER-REPLICATED", "under_replicated", wide=True),
        field("LEADERLESS", "leaderless", wide=True),
        field("INTERNAL", "internal", wide=True),
    )
    show(output, "topics", rows, columns)


@command.command("describe", short_help="Show leaders, replicas, offsets and settings of topics.")
@click.argument("patterns", metavar="PATTERN...", nargs=-1, required=True)
@output_command
@client_command
def describe(patterns: tuple[str, ...], *, output: Output, target: Target) -> None:
    """Show partitions, leaders, replicas, offsets and settings of topics.

    A table shows the settings that differ from their defaults, --format wide and the others show all.
    """
    from ottla.cli.client.description import describe_topics, show_descriptions

    connection = target.connect()
    names = _found(connection, patterns)
    show_descriptions(output, describe_topics(target, connection, names, output))


@command.command("delete")
@deletion_command("topic")
def delete(patterns: tuple[str, ...], *, deletion: Deletion, output: Output, target: Target) -> None:
    """Delete topics and everything in them."""
    connection = target.connect()
    deletion.carry_out(
        _found(connection, patterns, missing_is_error=not deletion.if_exists),
        lambda names: connection.admin.delete_topics(names, operation_timeout=target.timeout_s),
        column="name",
        target=target,
        output=output,
    )


def _assignment(text: str | None) -> list[list[int]]:
    if text is None:
        return []
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--replica-assignment: {text!r} is not of the form 1:2,2:3") from None


def _summary(connection: Connection, name: str) -> Row:
    partitions = connection.cluster.topics[name].partitions.values()
    return {
        "name": name,
        "partitions": len(partitions),
        "replication_factor": max((len(partition.replicas) for partition in partitions), default=0),
        "under_replicated": sum(len(partition.isrs) < len(partition.replicas) for partition in partitions),
        "leaderless": sum(partition.leader < 0 for partition in partitions),
        "internal": name in INTERNAL,
    }


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _found(connection: Connection, patterns: tuple[str, ...], *, missing_is_error: bool = True) -> list[str]:
    """The topics that are meant. A pattern never means one of Kafka's own; a name does."""
    found: dict[str, None] = {}
    for pattern in patterns:
        names = [name for name in sorted(connection.cluster.topics) if _means(pattern, name)]
        if not names and missing_is_error:
            raise missing_topic(pattern)
        found.update(dict.fromkeys(names))
    return list(found)


def _means(pattern: str, name: str) -> bool:
    return pattern == name or (name not in INTERNAL and fnmatchcase(name, pattern))
