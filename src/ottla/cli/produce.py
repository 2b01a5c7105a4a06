"""The command ``ottla produce``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli.client.connection import FAILED, INTERRUPTED, Target, client_command, missing_topic
from ottla.cli.client.layout import LayoutError, parse_layout
from ottla.cli.client.reading import Readable, check_readable, line_record, read_by_layout, read_json_lines, read_lines
from ottla.cli.client.record import ClientRecord, Headers, RecordInputError
from ottla.cli.client.times import parse_instant
from ottla.cli.consume import writer

if TYPE_CHECKING:
    from confluent_kafka import Message

    from ottla.cli.client.producing import Outcome

LINES = "lines"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"0": "0", "1": "1", "all": "all", "-1": "all"}
OWN_TOPIC = "-"
RECORD_BYTES_MAX = 128 << 20
"""Of one record as it is read; the broker and message.max.bytes set their own limits, which are lower by default."""


class Read(NamedTuple):
    """How records are told from bytes: of a stream, and of one argument."""

    stream: Callable[[Readable], Iterator[ClientRecord]]
    argument: Callable[[bytes], Iterator[ClientRecord]]


@click.command("produce", context_settings={"show_default": True})
@click.argument("topic")
@click.argument("values", metavar="[VALUE]...", nargs=-1)
@click.option(
    "-i",
    "--input",
    "files",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
    multiple=True,
    help="Read this file, not stdin; may be given many times.",
)
@click.option("-f", "--format", "form", metavar="FORMAT", default=LINES, help="lines, jsonl, or a format string.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="In each line, what stands before this is the key.")
@click.option("-k", "--key", help="Key of every record that has none.")
@click.option("-H", "--header", "headers", metavar="k=v", multiple=True, help="Header of every record.")
@click.option("-p", "--partition", metavar="N", type=click.IntRange(-1), help="Partition; -1 lets the key decide.")
@click.option("-t", "--timestamp", metavar="T", help="Time of every record that has none: ms, a date or RFC 3339.")
@click.option("-z", "--compression", type=click.Choice(CODECS), default="none", help="How batches are packed.")
@click.option("-a", "--acks", type=click.Choice(tuple(ACKS)), default="all", help="Who has to have a record.")
@click.option("-Z", "--tombstone", is_flag=True, help="An empty value is null, which deletes its key.")
@click.option("-o", "--output", metavar="FORMAT", help="Print each record that was delivered, as consume does.")
@click.option("--allow-auto-topic-creation", is_flag=True, help="Let the brokers create a topic that is missing.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
@client_command
def command(
    topic: str,
    values: tuple[str, ...],
    *,
    files: tuple[Path, ...],
    form: str,
    key_delimiter: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    timestamp: str | None,
    compression: str,
    acks: str,
    tombstone: bool,
    output: str | None,
    allow_auto_topic_creation: bool,
    quiet: bool,
    target: Target,
) -> None:
    """Send records to a topic.

    Records are the VALUEs, or come from the files, or from stdin: one a line, or JSON lines as consume --json writes them,
    or by a format string as consume has it. A TOPIC of - sends each record to the topic that it names.

    Exits with 1 if any record was not delivered, and says which. Ctrl-C sends what was read before it ends.

    \b
    ottla produce orders -k 17 '{"item": "lamp"}'
    ottla produce orders -K : < lines-of-key:value
    ottla produce orders -f '%k\\t%v\\n' -z zstd -i orders.tsv
    ottla produce orders -f '%V{big32}%v' < framed.bin
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    if values and files:
        raise click.UsageError("VALUE and --input exclude each other")
    read = _reader(form, key_delimiter)
    stamp = _Stamp(
        topic="" if topic == OWN_TOPIC else topic,
        key=None if key is None else key.encode(),
        headers=parse_headers(headers),
        partition=partition,
        timestamp=_timestamp(timestamp),
        tombstone=tombstone,
    )
    write = None if output is None else writer(output, _no_watermarks)
    from ottla.cli.client import consuming, producing

    def delivered(number: int, message: Message) -> None:  # noqa: ARG001  which record it was is in the message
        if write is not None:
            sys.stdout.buffer.write(write(consuming.from_message(message)))

    connection = target.connect()

    def exists(name: str) -> bool:
        # librdkafka would wait for a missing topic for minutes.
        return allow_auto_topic_creation or name in connection.cluster.topics

    if stamp.topic and not exists(stamp.topic):
        raise missing_topic(stamp.topic, is_written=True)
    producer = target.producer(producing.settings(compression=compression, acks=ACKS[acks]))
    records = (stamp.apply(record, exists) for record in _records(values, files, read))
    progress = _Progress(shown=not quiet and sys.stderr.isatty())
    outcome = producing.produce(producer, records, delivered=delivered, progress=progress)
    progress.clear()
    sys.stdout.flush()
    finish(outcome, quiet=quiet)


class _Stamp(NamedTuple):
    """What the command line says of every record."""

    topic: str
    key: bytes | None
    headers: Headers
    partition: int | None
    timestamp: int | None
    tombstone: bool

    def apply(self, record: ClientRecord, exists: Callable[[str], bool]) -> ClientRecord:
        topic = self.topic or record.topic
        if not topic:
            raise RecordInputError("it names no topic, and neither does the command line")
        if not self.topic and not exists(topic):
            raise RecordInputError(missing_topic(topic, is_written=True).message)
        return record._replace(
            topic=topic,
            key=self.key if record.key is None else record.key,
            value=None if self.tombstone and not record.value else record.value,
            headers=record.headers + self.headers,
            partition=record.partition if self.partition is None else self.partition,
            timestamp=self.timestamp if record.timestamp is None else record.timestamp,
        )


class _Progress:
    """A line on the terminal that is written over, at most twice a second."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._due = time.monotonic() + 0.5
        self._width = 0

    def __call__(self, outcome: Outcome) -> None:
        if self._shown and (now := time.monotonic()) >= self._due:
            self._due = now + 0.5
            self._write(f"{outcome.delivered} records, {outcome.delivered_bytes / 1e6:.1f} MB")

    def clear(self) -> None:
        if self._width:
            self._write("")
            click.echo("\r", nl=False, err=True)

    def _write(self, text: str) -> None:
        click.echo("\r" + text.ljust(self._width), nl=False, err=True)
        self._width = len(text)


def finish(outcome: Outcome, *, quiet: bool) -> None:
    """Say what became of the records, and end with the code for it."""
    for failure in outcome.first_failures:
        click.echo(f"record {failure.number}: {failure.reason}", err=True)
    if outcome.failed > len(outcome.first_failures):
        click.echo(f"... and {outcome.failed - len(outcome.first_failures)} more", err=True)
    if outcome.input_error is not None:
        click.echo(
            f"record {outcome.input_error.number}: {outcome.input_error.reason}; nothing behind it was read", err=True
        )
    tell_of_times(outcome.retimed)
    went_wrong = outcome.failed or outcome.input_error is not None or outcome.unknown
    if not quiet or went_wrong or outcome.interrupted:
        parts = [f"{outcome.delivered} delivered"]
        parts += [f"{outcome.failed} failed"] if outcome.failed else []
        parts += [f"{outcome.unknown} not known"] if outcome.unknown else []
        click.echo(("interrupted: " if outcome.interrupted else "") + ", ".join(parts), err=True)
    if outcome.interrupted:
        sys.exit(INTERRUPTED)
    if went_wrong:
        sys.exit(FAILED)


def tell_of_times(retimed: int) -> None:
    if retimed:
        click.echo(f"{retimed} with a time of 0, which librdkafka takes for none: they have the time of now", err=True)


def _records(values: tuple[str, ...], files: tuple[Path, ...], read: Read) -> Iterator[ClientRecord]:
    if values:
        for value in values:
            # What is no text arrives as surrogates, and leaves as the bytes it was.
            yield from read.argument(value.encode(errors="surrogateescape"))
        return
    for file in files or (Path("-"),):
        if str(file) == "-":
            yield from read.stream(open_stdin())
            continue
        try:
            with file.open("rb") as stream:
                yield from read.stream(stream)
        except OSError as error:
            raise RecordInputError(f"{file}: {error.strerror}") from None


def open_stdin() -> Readable:
    stream = sys.stdin.buffer
    assert isinstance(stream, BufferedReader), "stdin is a file"
    return stream


def _reader(form: str, key_delimiter: str | None) -> Read:
    if form == LINES:
        delimiter = (key_delimiter or "").encode()
        return Read(
            lambda stream: read_lines(stream, limit=RECORD_BYTES_MAX, key_delimiter=delimiter),
            lambda argument: iter((line_record(argument, delimiter),)),
        )
    if key_delimiter is not None:
        raise click.UsageError(f"--key-delimiter is for lines, not for --format {form}")
    if form in ("jsonl", "json"):
        return _read_both(lambda stream: read_json_lines(stream, limit=RECORD_BYTES_MAX))
    if "%" not in form:
        raise click.UsageError(f"--format: {form!r} is neither lines nor jsonl, nor is there a % in it")
    try:
        layout = parse_layout(form)
        check_readable(layout)
    except LayoutError as error:
        raise click.UsageError(f"--format: {error}") from None
    return _read_both(lambda stream: read_by_layout(layout, stream, limit=RECORD_BYTES_MAX))


def _read_both(read: Callable[[Readable], Iterator[ClientRecord]]) -> Read:
    return Read(read, lambda argument: read(BytesIO(argument)))


def parse_headers(given: tuple[str, ...]) -> Headers:
    headers = []
    for text in given:
        name, equals, value = text.partition("=")
        if not name:
            raise click.UsageError(f"--header: {text!r} is not of the form k=v")
        headers.append((name, value.encode() if equals else None))
    return tuple(headers)


def _timestamp(text: str | None) -> int | None:
    if text is None:
        return None
    found = parse_instant(text)
    if found is None:
        raise click.UsageError(f"--timestamp: {text!r} is neither milliseconds nor a date nor RFC 3339")
    return found


def _no_watermarks(topic: str, partition: int) -> tuple[int, int]:
    raise click.UsageError(f"--output: the watermarks of {topic}-{partition} are not known here")
