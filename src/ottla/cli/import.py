"""The command ``ottla import``."""
# ruff: noqa: N999  # named as the command, and loaded by that name

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.client.connection import FAILED, Failure, Target, client_command, missing_topic


@click.command("import", context_settings={"show_default": True})
@click.argument("topic")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(("parquet", "csv", "jsonl")),
    help="Of the files, if their names do not tell.",
)
@click.option("-k", "--key", metavar="COLUMN", help="The column that is the key, where rows become JSON objects.")
@click.option("--keep-partitions", is_flag=True, help="Into the partitions that the records were in.")
@click.option("--now", is_flag=True, help="With the time of now in place of the records' own.")
@click.option(
    "-z",
    "--compression",
    type=click.Choice(("none", "gzip", "snappy", "lz4", "zstd")),
    default="lz4",
    help="Of batches.",
)
@click.option(
    "--state",
    "state_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where progress is kept; default .TOPIC.import.",
)
@click.option("--allow-auto-topic-creation", is_flag=True, help="Let the brokers create a topic that is missing.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@client_command
def command(
    topic: str,
    files: tuple[Path, ...],
    *,
    form: str | None,
    key: str | None,
    keep_partitions: bool,
    now: bool,
    compression: str,
    state_file: Path | None,
    allow_auto_topic_creation: bool,
    quiet: bool,
    target: Target,
) -> None:
    """Send the rows of FILEs to a topic.

    Records that ottla export wrote become those records again; of other files, each row becomes a JSON object. Broken off and
    called again, it goes on where it was, as the state file says; remove that to start over.

    \b
    ottla import clicks clicks-files/*.parquet
    ottla import users users.csv --key id
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    try:
        from ottla.cli.client import importing
    except ImportError as error:
        raise Failure(f"{error.name} is not installed: pip install 'ottla[sql]'", FAILED) from None
    from ottla.cli.client import producing
    from ottla.cli.produce import tell_of_times

    if topic not in target.connect().cluster.topics and not allow_auto_topic_creation:
        raise missing_topic(topic, is_written=True)
    state = importing.State(state_file or Path(f".{topic}.import"), _topic_id(target, topic))
    state.save()  # where it cannot be noted how far it is, nothing is sent
    reading = importing.Reading(topic, key, keep_partitions, keep_times=not now)
    producer = target.producer(producing.settings(compression=compression, acks="all"))
    count = retimed = 0
    for file in files:
        sent, noted = importing.Sent(), state.of(file)
        found = importing.records(file, form or importing.form_of(file), reading, sent=sent, noted=noted)
        for step in importing.steps(found):
            outcome = producing.produce(producer, step)
            if outcome.failed or outcome.unknown:
                why = f": {outcome.first_failures[0].reason}" if outcome.first_failures else ""
                raise Failure(
                    f"{file}: {outcome.failed + outcome.unknown} of {len(step)} rows behind row {sent.rows} were not taken{why}"
                )
            sent.add(step)
            count += len(step)
            retimed += outcome.retimed
            state.note(file, sent)
            if not quiet:
                click.echo(f"{file.name}  {sent.rows} rows", err=True)
        if not quiet and noted.rows and sent.rows == noted.rows:
            click.echo(f"{file.name}  nothing is new: all of its {noted.rows} rows were sent before", err=True)
    tell_of_times(retimed)
    click.echo(f"{count} records from {len(files)} files")


def _topic_id(target: Target, topic: str) -> str | None:
    """None where brokers know none, or where the topic is made by what is sent."""
    from ottla.scan.cluster import Cluster
    from ottla.scan.settings import parse_settings

    with Cluster(parse_settings(target.settings)) as cluster:
        topic_id = cluster.identity(topic)[1] if cluster.partitions([topic]) else None
    return None if topic_id is None else topic_id.hex()
