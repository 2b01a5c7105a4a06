"""The commands ``ottla log dump|verify|adopt|release``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ottla.cli.client.connection import FAILED, NOT_FOUND, Failure, exit_codes, output_command
from ottla.cli.client.output import Output, Stream

PATHS = click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path, exists=False)
)


@click.group("log", context_settings={"show_default": True})
def command() -> None:
    """Show and check what a partition's files hold; take over those of another broker.

    PATH is a log directory, a partition's directory or a file in one: of a broker that runs or not, Ottla's or Apache
    Kafka's. Files are only read.
    """


@command.command("dump")
@PATHS
@click.option("--records", is_flag=True, help="Also every record.")
@click.option("--indexes", is_flag=True, help="Also every entry of the indexes and producer snapshots.")
@click.option("--offsets", metavar="FROM:TO", help="Only batches with offsets from FROM up to TO, without TO.")
@output_command
def dump(paths: tuple[Path, ...], *, records: bool, indexes: bool, offsets: str | None, output: Output) -> None:
    """Print segments and their batches, epochs, checkpoints.

    \b
    ottla log dump data/orders-0
    ottla log dump data/orders-0/00000000000000000000.log --records --format jsonl
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    from ottla.cli.logfiles import Dump

    with exit_codes(), _files():
        stream = Stream(output, "entries")
        dumping = Dump(stream, records=records, indexes=indexes, offsets=_offsets(offsets))
        for path in paths:
            if path.is_dir():
                for directory in _partitions(path):
                    dumping.partition(directory)
            else:
                dumping.file(_existing(path), indent=0)
        stream.end()


@command.command("verify")
@PATHS
@click.option("--deep", is_flag=True, help="Also unpack every batch and read every record.")
@output_command
def verify(paths: tuple[Path, ...], *, deep: bool, output: Output) -> None:
    """Check files against their checksums and against each other.

    Exits with 1 if anything is wrong, and says what and where.
    """
    from ottla.log.segment import LOG_SUFFIX
    from ottla.log.verify import Problem, Totals, verify_partition, verify_segment

    totals = Totals()

    def problems() -> Iterator[Problem]:
        for path in paths:
            if path.is_dir():
                for directory in _partitions(path):
                    yield from verify_partition(directory, totals, deep=deep)
            elif path.suffix == LOG_SUFFIX:
                yield from verify_segment(_existing(path), totals, deep=deep)
            else:
                raise Failure(f"{_existing(path)}: neither a directory nor a .log; its indexes are checked with it")

    found = 0
    with exit_codes(), _files():
        stream = Stream(output, "problems")
        for problem in problems():
            found += 1
            stream.row("problem", 0, {"path": str(problem.path), "where": problem.where, "what": problem.what})
        stream.end()
    output.note(
        f"{totals.partitions} partitions, {totals.segments} segments, {totals.batches} batches, {totals.records} records, "
        f"{totals.bytes} bytes: {found or 'no'} problem{'' if found == 1 else 's'}"
    )
    if found:
        sys.exit(FAILED)


KEEPER = click.option(
    "--keeper", metavar="HOST:PORT,...[/PATH]", required=True, help="The ensemble that the broker will use."
)


@command.command("adopt")
@click.argument(
    "directories",
    metavar="DIR...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@KEEPER
@click.option("--dry-run", is_flag=True, help="Only show what is there.")
@click.option("--allow-missing", is_flag=True, help="Take over topics of which partitions are missing.")
@output_command
def adopt(directories: tuple[Path, ...], *, keeper: str, dry_run: bool, allow_missing: bool, output: Output) -> None:
    """Take over the log directories of a stopped broker.

    DIR are all log.dirs of one broker of Apache Kafka 3.9, or of Ottla. Its topics, their ids, its cluster's id and which
    producer ids are used up become known to the ensemble, which no cluster has used before. Nothing is written into DIR.
    Then start a broker with the same broker.id and log.dirs. Whatever their age, records are kept until `ottla log release`.

    \b
    ottla log adopt /var/lib/kafka --keeper 127.0.0.1:2181 --dry-run
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    import asyncio

    from ottla.cli import adopt as adoption
    from ottla.cli.client.output import field, show

    with exit_codes(), _files():
        found, topics = asyncio.run(adoption.adopt(directories, keeper, dry_run=dry_run, allow_missing=allow_missing))
    columns = [
        field("TOPIC", "topic"),
        field("ID", "topic_id"),
        field("PARTITIONS", "partitions"),
        field("MISSING", "missing_partitions", wide=True),
        field("SEGMENTS", "segments", wide=True),
        field("BYTES", "bytes"),
        field("COMPACTED", "compacted"),
        field("REGISTERED", "registered", wide=True),
    ]
    show(output, "topics", [each.row() for each in topics], columns)
    for path in found.passed_over:
        output.note(f"{path} is no partition and is left alone")
    for path in found.emptied:
        output.note(f"{path} has no segment, so its records are gone; it is left alone")
    if not found.stopped_cleanly:
        output.note("the broker was not stopped cleanly; the next start checks what it wrote last")
    places = ",".join(str(path.absolute()) for path in directories)
    output.note(
        f"{'would be' if dry_run else 'is'} taken over: {len(topics)} topics of cluster {found.meta.cluster_id}; start a broker "
        f"with broker.id={found.meta.broker_id}, log.dirs={places}, zookeeper.connect={keeper}"
    )


@command.command("release", short_help="Let topics that were taken over be cleaned again.")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@KEEPER
@output_command
def release(topics: tuple[str, ...], *, keeper: str, output: Output) -> None:
    """Let topics that were taken over be cleaned and deleted from again.

    Their own settings and the cluster's defaults decide from then on: what is older than they allow goes soon after.
    """
    import asyncio

    from ottla.cli import adopt as adoption
    from ottla.cli.client.output import field, show

    with exit_codes():
        released = asyncio.run(adoption.release(topics, keeper))
    show(output, "topics", [{"topic": name} for name in released], [field("TOPIC", "topic")])


def _partitions(path: Path) -> Iterator[Path]:
    """``path`` or those in it, but for what a broker is deleting: it may be gone before it is read."""
    from ottla.log.directory import DELETE_SUFFIX
    from ottla.log.inspect import find_partitions

    found = False
    for directory in find_partitions(path):
        if directory != path and directory.name.endswith(DELETE_SUFFIX):
            continue
        found = True
        yield directory
    if not found:
        raise Failure(f"{path}: no partition is there: neither it nor a directory in it has a .log file", NOT_FOUND)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise Failure(f"{path}: there is no such file", NOT_FOUND)
    return path


def _offsets(text: str | None) -> tuple[int, int | None]:
    first, colon, last = (text or "0:").partition(":")
    try:
        return int(first or 0), int(last) if colon and last else None
    except ValueError:
        raise click.UsageError(f"--offsets: {text!r} is not of the form FROM:TO") from None


@contextmanager
def _files() -> Iterator[None]:
    """Files that cannot be read are told by their names; a pipe that is closed has none."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise Failure(f"{error.filename}: {error.strerror}") from None
