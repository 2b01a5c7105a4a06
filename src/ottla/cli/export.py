"""The command ``ottla export``."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.client.connection import FAILED, Failure, Target, client_command, missing_topic


@click.command("export", context_settings={"show_default": True})
@click.argument("topic")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "-f", "--format", "form", type=click.Choice(("parquet", "csv", "jsonl")), default="parquet", help="Of the files."
)
@click.option("--typed", is_flag=True, help="Columns of the values, as ottla sql has them, in place of key and value.")
@click.option("--file-records", metavar="N", type=click.IntRange(1), default=250_000, help="Offsets in one file.")
@click.option("--read-committed", is_flag=True, help="Leave out what transactions did not commit.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@client_command
def command(
    topic: str,
    directory: Path,
    *,
    form: str,
    typed: bool,
    file_records: int,
    read_committed: bool,
    quiet: bool,
    target: Target,
) -> None:
    """Write what is in a topic into files of DIRECTORY.

    Each file is complete when it is there, and its name says which offsets it holds. Called again, it goes on behind them.

    \b
    ottla export clicks clicks-files
    ottla export clicks clicks-files --format csv --typed
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    try:
        from ottla.cli.client.exporting import Request, export
    except ImportError as error:
        raise Failure(f"{error.name} is not installed: pip install 'ottla[sql]'", FAILED) from None
    from ottla.scan.cluster import Cluster
    from ottla.scan.errors import UnknownTopicError
    from ottla.scan.settings import parse_settings

    limit = {"default.api.timeout.ms": str(int(target.timeout_s * 1000))}
    request = Request(topic, directory, form, typed, read_committed, file_records)
    files = records = 0
    try:
        with Cluster(parse_settings({**limit, **target.settings})) as cluster:
            for done in export(cluster, request):
                files += 1
                records += done.records
                if not quiet:
                    click.echo(
                        f"{done.path.name}  {done.records} records  {done.bytes} bytes  {done.left} left", err=True
                    )
    except UnknownTopicError:
        raise missing_topic(topic) from None
    click.echo(f"{records} records in {files} files")
