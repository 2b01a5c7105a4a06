"""The command ``ottla cat``: kcat's flags, for hands that know them."""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.client.connection import NOT_FOUND, Connection, Failure, Target, client_command
from ottla.cli.client.kcat import compile_format, envelope, parse_offsets, unescape, wants_headers
from ottla.cli.client.layout import LayoutError
from ottla.cli.client.ranges import RangeError
from ottla.cli.client.reading import Source, line_record
from ottla.cli.client.record import ANY_PARTITION, ClientRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka.admin import TopicMetadata

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MESSAGE_BYTES_MAX = 128 << 20


@click.command("cat")
@click.option("-C", "mode", flag_value="C", help="Consume.")
@click.option("-P", "mode", flag_value="P", help="Produce.")
@click.option("-L", "mode", flag_value="L", help="List brokers, topics and partitions.")
@click.option("-Q", "mode", flag_value="Q", help="Offsets by time: -t TOPIC:PARTITION:MS.")
@click.option("-t", "topics", metavar="TOPIC", multiple=True, help="Topic.")
@click.option("-p", "partition", metavar="N", type=click.IntRange(-1), default=ANY_PARTITION, help="Partition.")
@click.option("-o", "offsets", metavar="OFFSET", multiple=True, help="beginning, end, n, -n, s@MS, e@MS.")
@click.option("-c", "count", metavar="N", type=click.IntRange(0), help="Stop after so many messages; 0 for no limit.")
@click.option("-e", "at_end", is_flag=True, help="Stop at the end of the partitions.")
@click.option("-f", "form", metavar="FORMAT", help="%s %S %R %k %K %t %p %o %T %h")
@click.option("-J", "as_json", is_flag=True, help="One JSON envelope a message.")
@click.option("-K", "key_delimiter", metavar="TEXT", help="Stands between key and value.")
@click.option("-D", "delimiter", metavar="TEXT", default=r"\n", help="Stands between messages.")
@click.option("-k", "key", metavar="KEY", help="Key of every message.")
@click.option("-H", "headers", metavar="k=v", multiple=True, help="Header of every message.")
@click.option("-z", "codec", type=click.Choice(CODECS), default="none", help="How batches are packed.")
@click.option("-Z", "null", is_flag=True, help="What is empty is read as null, and written as NULL.")
@click.option(
    "-l",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Produce from a file.",
)
@click.option("-u", "unbuffered", is_flag=True, help="Write each message at once.")
@click.option("-q", "quiet", is_flag=True, help="No remarks.")
@client_command
def command(
    target: Target, mode: str | None, topics: tuple[str, ...], offsets: tuple[str, ...], **options: Any
) -> None:
    r"""Produce, consume and list as kcat does.

    Without a mode it consumes, or produces if something is piped in. Groups (-G) and registries (-r) are not part of it.

    ottla cat -b localhost:9092 -t orders -C -o -10 -e -f '%k %s\n'
    """
    mode = mode or ("C" if sys.stdin.isatty() else "P")
    options["count"] = options["count"] or None
    if mode == "L":
        _list(target.connect(), topics, as_json=options["as_json"])
        return
    if not topics:
        raise click.UsageError("-t names the topic")
    if mode == "Q":
        _query(target, topics)
    elif mode == "P":
        _produce(target, topics[0], **options)
    else:
        _consume(target, topics, offsets, **options)


def _consume(
    target: Target,
    topics: tuple[str, ...],
    offsets: tuple[str, ...],
    *,
    partition: int,
    count: int | None,
    at_end: bool,
    form: str | None,
    as_json: bool,
    key_delimiter: str | None,
    delimiter: str,
    null: bool,
    unbuffered: bool,
    quiet: bool,
    **_: object,
) -> None:
    from ottla.cli.client import consuming
    from ottla.cli.consume import tell_of_headers

    if form is None:
        key_part = "" if key_delimiter is None else "%k" + key_delimiter.replace("%", "%%")
        form = key_part + "%s" + delimiter.replace("%", "%%")
    try:
        write = compile_format(form, b"NULL" if null else b"")
        wanted = parse_offsets(offsets, stop_at_end=at_end)
    except (LayoutError, RangeError) as error:
        raise click.UsageError(str(error)) from None
    connection = target.connect()
    request = consuming.Request(
        topics=list(dict.fromkeys(topics)),
        partitions=[] if partition == ANY_PARTITION else [partition],
        range=wanted,
        limit=count,
        read_committed=False,
        now_ms=int(time.time() * 1000),
        headers=as_json or wants_headers(form),
    )
    if as_json:
        found = connection.cluster.topics

        def write(record: ClientRecord) -> bytes:
            return envelope(record, found[record.topic].partitions[record.partition].leader)

    planned = consuming.plan(target, connection, request)
    stdout = sys.stdout.buffer
    try:
        for record in consuming.consume(target, planned, request, idle=stdout.flush):
            stdout.write(write(record))
            if record.lacks_headers and not quiet:
                tell_of_headers(record)
            if unbuffered:
                stdout.flush()
    finally:
        stdout.flush()
    if at_end and not quiet:
        click.echo("% Reached the end of every partition: exiting", err=True)


def _produce(
    target: Target,
    topic: str,
    *,
    partition: int,
    count: int | None,
    key_delimiter: str | None,
    delimiter: str,
    key: str | None,
    headers: tuple[str, ...],
    codec: str,
    null: bool,
    file: Path | None,
    **_: object,
) -> None:
    from ottla.cli.client import producing
    from ottla.cli.produce import finish, open_stdin, parse_headers

    fixed = parse_headers(headers)

    def records() -> Iterator[ClientRecord]:
        with file.open("rb") if file is not None else nullcontext(open_stdin()) as stream:
            source = Source(stream, MESSAGE_BYTES_MAX)
            taken = 0
            while (count is None or taken < count) and not source.at_end():
                taken += 1
                yield stamped(source.until(unescape(delimiter), may_end=True))

    def stamped(line: bytes) -> ClientRecord:
        has_key = key_delimiter is not None and unescape(key_delimiter) in line
        record = line_record(line, unescape(key_delimiter or "") if has_key else b"")
        if null:
            record = record._replace(key=record.key or None, value=record.value or None)
        return record._replace(
            topic=topic,
            key=record.key if has_key or key is None else key.encode(),
            headers=fixed,
            partition=partition,
        )

    connection = target.connect()
    if topic not in connection.cluster.topics:
        raise Failure(f"no topic is called {topic}; 'ottla topic create {topic}' creates it", NOT_FOUND)
    producer = target.producer(producing.settings(compression=codec, acks="all"))
    finish(producing.produce(producer, records()), quiet=True)


def _list(connection: Connection, topics: tuple[str, ...], *, as_json: bool) -> None:
    cluster = connection.cluster
    chosen = [found for name, found in sorted(cluster.topics.items()) if not topics or name in topics]
    if as_json:
        document = {
            "originating_broker": {"id": cluster.orig_broker_id, "name": cluster.orig_broker_name},
            "query": {"topic": ",".join(topics) or "*"},
            "controllerid": cluster.controller_id,
            "brokers": [
                {"id": broker.id, "name": f"{broker.host}:{broker.port}"} for broker in cluster.brokers.values()
            ],
            "topics": [_topic(found) for found in chosen],
        }
        click.echo(json.dumps(document))
        return
    click.echo(
        f"Metadata for {', '.join(topics) or 'all topics'} (from broker {cluster.orig_broker_id}: {cluster.orig_broker_name}):"
    )
    click.echo(f" {len(cluster.brokers)} brokers:")
    for broker in cluster.brokers.values():
        role = " (controller)" if broker.id == cluster.controller_id else ""
        click.echo(f"  broker {broker.id} at {broker.host}:{broker.port}{role}")
    click.echo(f" {len(chosen)} topics:")
    for found in chosen:
        click.echo(f'  topic "{found.topic}" with {len(found.partitions)} partitions:')
        for number, partition in sorted(found.partitions.items()):
            replicas, isrs = (",".join(map(str, ids)) for ids in (partition.replicas, partition.isrs))
            click.echo(f"    partition {number}, leader {partition.leader}, replicas: {replicas}, isrs: {isrs}")


def _topic(found: TopicMetadata) -> dict[str, object]:
    return {
        "topic": found.topic,
        "partitions": [
            {
                "partition": number,
                "leader": partition.leader,
                "replicas": [{"id": broker} for broker in partition.replicas],
                "isrs": [{"id": broker} for broker in partition.isrs],
            }
            for number, partition in sorted(found.partitions.items())
        ],
    }


def _query(target: Target, topics: tuple[str, ...]) -> None:
    from confluent_kafka.admin import OffsetSpec

    from ottla.cli.client.description import list_offsets

    wanted = []
    for text in topics:
        topic, _, rest = text.partition(":")
        number, _, instant = rest.partition(":")
        if not (topic and number.isdecimal() and instant.lstrip("-").isdecimal()):
            raise click.UsageError(f"-t {text}: with -Q it is TOPIC:PARTITION:MS")
        wanted.append((topic, int(number), int(instant)))
    connection = target.connect()
    special = {-1: OffsetSpec.latest(), -2: OffsetSpec.earliest()}
    for topic, partition, time_ms in wanted:
        if topic not in connection.cluster.topics or partition not in connection.cluster.topics[topic].partitions:
            raise Failure(f"there is no partition {topic}-{partition}; 'ottla topic ls' shows what there is", NOT_FOUND)
        spec = special.get(time_ms) or OffsetSpec.for_timestamp(time_ms)
        offset = list_offsets(connection.admin, [(topic, partition)], spec, target.timeout_s)[topic, partition]
        click.echo(f"{topic} [{partition}] offset {-1 if offset is None else offset}")
