"""The command ``ottla consume``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TYPE_CHECKING

import click

from ottla.cli import options
from ottla.cli.client import jsonrecord
from ottla.cli.client.connection import Target, client_command
from ottla.cli.client.formatting import Formatter, Watermarks
from ottla.cli.client.layout import LayoutError, parse_layout, wants_headers
from ottla.cli.client.ranges import END, START, Range, RangeError, parse_range
from ottla.cli.client.record import ClientRecord

if TYPE_CHECKING:
    from ottla.cli.client.grouped import GroupRequest

VALUES = r"%v\n"


@click.command("consume", context_settings={"show_default": True})
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-o", "--offset", metavar="RANGE", default="start", help="From where to where: RANGE as said above.")
@click.option("-n", "--num", "count", metavar="COUNT", type=click.IntRange(0), help="Stop after so many records.")
@click.option(
    "-p", "--partition", "partitions", metavar="N", type=click.IntRange(0), multiple=True, help="Only this partition."
)
@click.option(
    "-g",
    "--group",
    metavar="NAME",
    callback=options.not_empty,
    help="Share the partitions with others of this group, and commit.",
)
@click.option("-f", "--format", "form", metavar="FORMAT", default=VALUES, help="jsonl, json, or a format string.")
@click.option("--json", "as_json", is_flag=True, help="Short for --format jsonl.")
@click.option("--read-committed", is_flag=True, help="Leave out what transactions did not commit.")
@click.option("-q", "--quiet", is_flag=True, help="No remarks.")
@client_command
def command(
    topics: tuple[str, ...],
    *,
    offset: str,
    count: int | None,
    partitions: tuple[int, ...],
    group: str | None,
    form: str,
    as_json: bool,
    read_committed: bool,
    quiet: bool,
    target: Target,
) -> None:
    """Read records of topics.

    Without an end in RANGE and without -n, it goes on with what is appended until Ctrl-C. Without -g, no group is joined and
    nothing is committed. With -g, reading goes on where the group has committed; RANGE says where to begin where it has
    not (start or end), and :end stops when all that this member has is read.

    \b
    RANGE:
      start, end         from the beginning, or what comes from now on
      +n, -n, n          n behind the beginning, n before the end, from offset n
      FROM:TO, :TO       up to TO, which is not read itself; :end stops at the end of now
      @T, @T1:T2         by time: 2024-02-29, 2024-02-29T12:00:00Z, milliseconds,
                         -1h before now; T2 also end, or 2h for so long behind T1
    \b
    FORMAT:
      %t topic  %p partition  %o offset  %k key  %v value  %d timestamp  %e leader epoch
      %K %V %T lengths  %H headers  %h{%k=%v } for each header  %i number of the record
      %k{hex} %v{base64} %v{unpack[>ixs]}  %o{hex32} %V{big32}  %d{strftime[%F %T]}
      %[ %] start and high watermark of the partition  %a{timestamp-type}
      \\n \\t \\r \\\\ \\xNN  %% %{ %}
    \b
    ottla consume orders -o -10:end
    ottla consume orders -o @-1h:end -f '%p/%o %d{strftime[%T]} %k=%v\\n'
    ottla consume orders --json -o :end | ottla produce orders-copy -f jsonl
    ottla consume orders -g billing
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    now_ms = int(time.time() * 1000)
    try:
        wanted = parse_range(offset, now_ms=now_ms)
    except RangeError as error:
        raise click.UsageError(f"--offset: {error}") from None
    form = "jsonl" if as_json else form
    known: dict[tuple[str, int], tuple[int, int]] = {}
    write = writer(form, lambda topic, partition: known[topic, partition])
    names = list(dict.fromkeys(topics))
    records: Generator[ClientRecord, None, None]
    if group is not None:
        request = _in_group(names, group, wanted, count, partitions, form, read_committed=read_committed)
        target.connect()
        from ottla.cli.client.grouped import consume_in_group

        records = consume_in_group(target, request, idle=sys.stdout.buffer.flush)
    else:
        from ottla.cli.client import consuming

        alone = consuming.Request(
            topics=names,
            partitions=sorted(set(partitions)),
            range=wanted,
            limit=count,
            read_committed=read_committed,
            now_ms=now_ms,
            headers=_wants_headers(form),
        )
        planned = consuming.plan(target, target.connect(), alone)
        known.update(planned.watermarks)
        records = consuming.consume(target, planned, alone, idle=sys.stdout.buffer.flush)
    _print(records, write, quiet=quiet)


def _print(
    records: Generator[ClientRecord, None, None], write: Callable[[ClientRecord], bytes], *, quiet: bool
) -> None:
    stdout = sys.stdout.buffer
    read = 0
    try:
        with closing(records):
            for record in records:
                stdout.write(write(record))
                read += 1
                if record.lacks_headers and not quiet:
                    tell_of_headers(record)
    finally:
        if not quiet and sys.stderr.isatty():
            click.echo(f"{read} records", err=True)
        stdout.flush()


def _in_group(
    topics: list[str],
    group: str,
    wanted: Range,
    limit: int | None,
    partitions: tuple[int, ...],
    form: str,
    *,
    read_committed: bool,
) -> GroupRequest:
    """What can be asked of a group: the group itself knows the partitions, and where it is in them."""
    from ottla.cli.client.grouped import GroupRequest

    if partitions:
        raise click.UsageError("--partition and --group exclude each other: a group shares out all partitions")
    if wanted.start not in _BEGINNINGS or wanted.stop not in (None, END):
        raise click.UsageError("--offset with --group is start or end, perhaps with :end")
    if "%[" in form or "%]" in form:
        raise click.UsageError("--format: %[ and %] are not known in a group")
    return GroupRequest(
        topics,
        group,
        _BEGINNINGS[wanted.start],
        wanted.stop is not None,
        limit,
        read_committed,
        _wants_headers(form),
    )


_BEGINNINGS = {START: "earliest", END: "latest"}


def tell_of_headers(record: ClientRecord) -> None:
    where = f"{record.topic}-{record.partition}, offset {record.offset}"
    click.echo(
        f"{where}: its headers are left out, as the key of one is no UTF-8; 'ottla log dump' shows them", err=True
    )


def _wants_headers(form: str) -> bool:
    return form in ("jsonl", "json") or wants_headers(parse_layout(form))


def writer(form: str, watermarks: Watermarks) -> Callable[[ClientRecord], bytes]:
    """What a record is printed as."""
    if form == "jsonl":
        return jsonrecord.dump_line
    if form == "json":
        return lambda record: json.dumps(jsonrecord.to_json(record), ensure_ascii=False, indent=1).encode() + b"\n"
    if "%" not in form:
        raise click.UsageError(f"--format: {form!r} is neither jsonl nor json, nor is there a % in it")
    try:
        return Formatter(parse_layout(form), watermarks).format
    except LayoutError as error:
        raise click.UsageError(f"--format: {error}") from None
