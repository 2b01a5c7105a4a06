"""The commands ``ottla group ls|describe|reset|delete``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TextIO

import click

from ottla.cli import options
from ottla.cli.client.connection import (
    NOT_FOUND,
    Connection,
    Failure,
    Target,
    client_command,
    output_command,
)
from ottla.cli.client.deleting import Deletion, deletion_command
from ottla.cli.client.output import Output, Row, field, show
from ottla.cli.client.resets import Place, ResetError, parse_offsets, parse_place, parse_topics


@click.group("group", context_settings={"show_default": True})
def command() -> None:
    """List, describe, reset and delete consumer groups."""


@command.command("ls")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@output_command
@client_command
def ls(patterns: tuple[str, ...], *, output: Output, target: Target) -> None:
    """List groups.

    PATTERN is a name, or has * ? [...] in it as file names do.
    """
    from ottla.cli.client.groups import list_groups

    found = list_groups(target, target.connect(), output)
    rows = [row for row in found if not patterns or any(fnmatchcase(str(row["group"]), each) for each in patterns)]
    columns = (field("GROUP", "group"), field("STATE", "state"), field("SIMPLE", "simple", wide=True))
    show(output, "groups", rows, columns)


@command.command("describe", short_help="Show members of groups, and how far behind they are.")
@click.argument("patterns", metavar="PATTERN...", nargs=-1, required=True)
@output_command
@client_command
def describe(patterns: tuple[str, ...], *, output: Output, target: Target) -> None:
    """Show who is in groups, what they have committed, and how far behind they are."""
    from ottla.cli.client.groups import describe_groups, show_groups

    connection = target.connect()
    names = _found(target, connection, patterns, output)
    show_groups(output, describe_groups(target, connection, names, output))


@command.command("reset")
@click.argument("group", callback=options.not_empty)
@click.option(
    "-t",
    "--topic",
    "topics",
    metavar="TOPIC[:P,...]",
    multiple=True,
    help="Only this topic, or these partitions of it; otherwise all that the group has committed.",
)
@click.option("--to", "to", metavar="PLACE", help="Where to go on: PLACE as said above.")
@click.option("--shift", metavar="N", type=int, help="So many records on, or back if negative.")
@click.option(
    "--from-file", "file", metavar="FILE", type=click.File(encoding="utf-8-sig"), help="Offsets in a file; - is stdin."
)
@click.option("--execute", is_flag=True, help="Do it; without this it is only shown.")
@output_command
@client_command
def reset(
    group: str,
    *,
    topics: tuple[str, ...],
    to: str | None,
    shift: int | None,
    file: TextIO | None,
    execute: bool,
    output: Output,
    target: Target,
) -> None:
    """Let a group go on somewhere else. Its members have to be stopped.

    \b
    PLACE:
      start, end         the first record that is there, or what comes from now on
      n, +n, -n          offset n, n behind the beginning, n before the end
      @T                 the first record of time T: 2024-02-29, 2024-02-29T12:00:00Z,
                         milliseconds, or -1h before now
    \b
    FILE has lines of topic,partition,offset as kafka-consumer-groups exports them, or of
    'ottla group reset ... --format jsonl'.
    \b
    ottla group reset billing --to start
    ottla group reset billing -t orders:0,1 --to @-1h --execute
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    from ottla.cli.client.resetting import carry_out, check_idle, plan_reset

    now_ms = int(time.time() * 1000)
    try:
        wanted = _wanted(group, to, shift, file, now_ms=now_ms)
        named = parse_topics(topics)
    except ResetError as error:
        raise click.UsageError(str(error)) from None
    connection = target.connect()
    rows = plan_reset(target, connection, group, named, wanted, now_ms)
    if not rows:
        why = (
            "has committed nothing; -t names topics to begin with" if file is None else f"is not told of in {file.name}"
        )
        raise Failure(f"{group} {why}", NOT_FOUND)
    unmoved = [_reason(row) for row in rows if row["new_offset"] is None]
    if len(unmoved) == len(rows):
        raise Failure(f"nothing can be set for {group}: {'; '.join(unmoved)}", NOT_FOUND)
    check_idle(target, connection, group)
    if execute:
        carry_out(target, connection, group, rows)
    columns = (
        field("TOPIC", "topic"),
        field("PARTITION", "partition"),
        field("COMMITTED", "committed_offset"),
        field("NEW", "new_offset"),
        field("LAG", "lag"),
    )
    show(output, "offsets", rows, columns)
    for reason in unmoved:
        output.note(f"left as it is: {reason}")
    if not execute:
        output.note("nothing was changed; --execute does it")


@command.command("delete")
@deletion_command("group")
def delete(patterns: tuple[str, ...], *, deletion: Deletion, output: Output, target: Target) -> None:
    """Delete groups without members, and all that they have committed."""
    connection = target.connect()
    deletion.carry_out(
        _found(target, connection, patterns, output, missing_is_error=not deletion.if_exists),
        lambda names: connection.admin.delete_consumer_groups(names, request_timeout=target.timeout_s),
        column="group",
        target=target,
        output=output,
    )


def _reason(row: Row) -> str:
    """Why there is no new offset for a partition."""
    why = "is gone" if row["high_watermark"] is None else "has nothing committed to shift from"
    return f"{row['topic']}:{row['partition']} {why}"


def _wanted(
    group: str, to: str | None, shift: int | None, file: TextIO | None, *, now_ms: int
) -> Place | Mapping[tuple[str, int], int]:
    if sum(each is not None for each in (to, shift, file)) != 1:
        raise ResetError("one of --to, --shift and --from-file says where to go on")
    if file is not None:
        try:
            return parse_offsets(file, group)
        except UnicodeDecodeError:
            raise ResetError(f"{file.name} is no text in UTF-8") from None
    return Place(shift=shift or 0) if to is None else parse_place(to, now_ms=now_ms)


def _found(
    target: Target,
    connection: Connection,
    patterns: tuple[str, ...],
    output: Output,
    *,
    missing_is_error: bool = True,
) -> list[str]:
    from ottla.cli.client.groups import list_groups

    there = [str(row["group"]) for row in list_groups(target, connection, output)]
    found: dict[str, None] = {}
    for pattern in patterns:
        names = [name for name in there if name == pattern or fnmatchcase(name, pattern)]
        if not names and missing_is_error:
            raise Failure(f"no group is called {pattern}; 'ottla group ls' shows what there is", NOT_FOUND)
        found.update(dict.fromkeys(names))
    return list(found)
