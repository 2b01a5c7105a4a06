"""The command ``ottla sql``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from ottla.cli.client.connection import FAILED, NOT_FOUND, Failure, Target, client_command
from ottla.cli.client.output import Table, field, may_color

if TYPE_CHECKING:
    # Loaded by the command itself, not by --help.
    import pyarrow as pa

    from ottla.sql.engine import Engine, Values

FORMATS = ("table", "json", "jsonl", "csv", "parquet", "arrow")
BINARY = ("parquet", "arrow")
CLEAR = "\x1b[H\x1b[2J"


@click.command("sql", context_settings={"show_default": True})
@click.argument("query")
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", help="How to print rows.")
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option(
    "-o",
    "--output",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write rows to a file.",
)
@click.option("--follow", is_flag=True, help="Go on with what is appended, until Ctrl-C.")
@click.option(
    "--interval", metavar="S", type=click.FloatRange(0.05), default=1.0, help="Seconds between looks, with --follow."
)
@click.option(
    "--log-dir",
    "log_dirs",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="Read a broker's files instead of asking it; it need not run.",
)
@click.option(
    "--tables",
    "pipelines",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="What a pipeline has served there: its tables by their names.",
)
@click.option(
    "--values",
    "formats",
    metavar="TOPIC=FORMAT[,OPTION=...]",
    multiple=True,
    help="What a topic's values are: FORMAT as said above.",
)
@click.option("--engine", type=click.Choice(("duckdb", "spark")), default="duckdb", help="Who answers.")
@click.option("--master", metavar="URL", default="local[*]", help="Of Spark, with --engine spark.")
@click.option("--read-committed", is_flag=True, help="Leave out what transactions did not commit.")
@client_command
def command(
    query: str,
    *,
    form: str,
    as_json: bool,
    path: Path | None,
    follow: bool,
    interval: float,
    log_dirs: tuple[Path, ...],
    pipelines: tuple[Path, ...],
    formats: tuple[str, ...],
    engine: str,
    master: str,
    read_committed: bool,
    target: Target,
) -> None:
    """Ask questions about topics in SQL.

    A topic is a table. Its columns come from its values: the fields of JSON objects, or one column, value. Each record also has
    _key, _partition, _offset, _timestamp, _headers, _topic and _value; _corrupt holds a value that does not fit the others.
    Files that DuckDB reads are tables by their names. QUERY - is read from standard input.

    FORMAT is json, csv, access, syslog, avro, protobuf, thrift, text or binary, where samples do not tell; options are those of
    Spark's source (valueColumns, valueSchemaFile, valueMessage, valueDelimiter, ...).

    \b
    ottla sql 'select page, count(*) from clicks group by 1 order by 2 desc limit 10'
    ottla sql "select * from clicks where _timestamp > now() - interval 10 minute" --format jsonl
    ottla sql "select c.page, u.name from clicks c join 'users.parquet' u on c.user = u.id"
    ottla sql 'select page, count(*) from clicks group by 1' --follow
    ottla sql --tables shop-data 'select page, sum(views) from pages group by 1'
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    if as_json and form not in ("table", "json"):
        raise click.UsageError(f"--json and --format {form} exclude each other")
    form = "json" if as_json else form
    if form in BINARY and path is None and sys.stdout.isatty():
        raise click.UsageError(f"--format {form} is not for a terminal: give --output FILE, or a pipe")
    if follow and form in (*BINARY, "json"):
        raise click.UsageError(
            f"--format {form} has an end, which a query that goes on has not: give jsonl, csv or table"
        )
    text = sys.stdin.read() if query == "-" else query
    if engine == "spark" and follow:
        raise click.UsageError("--engine spark answers once; a query that goes on is for duckdb")
    with ExitStack() as stack:
        out = sys.stdout.buffer if path is None else stack.enter_context(_file(path, is_whole=not follow))
        if engine == "spark":
            rows = _on_spark(text, target, master, log_dirs, pipelines, formats, read_committed=read_committed)
            write(rows, form, out)
        else:
            made = stack.enter_context(_engine(target, log_dirs, pipelines, formats, read_committed=read_committed))
            with _unknown_tables():
                if follow:
                    _follow(made, text, form, out, interval)
                else:
                    write(made.query(text), form, out)
        out.flush()


@contextmanager
def _file(path: Path, *, is_whole: bool) -> Iterator[IO[bytes]]:
    """A file that is written to at once, or that takes the place of the one before when it is complete."""
    # What is no plain file (/dev/stdout, a pipe) cannot be replaced.
    is_whole = is_whole and (path.is_file() or not path.exists())
    writing = path.with_name(path.name + ".tmp") if is_whole else path
    try:
        with writing.open("wb") as out:
            yield out
        if is_whole:
            writing.replace(path)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", FAILED) from None
    finally:
        if is_whole:
            writing.unlink(missing_ok=True)


def _values(formats: tuple[str, ...]) -> dict[str, Values]:
    """``TOPIC=FORMAT,OPTION=VALUE,...``, taken apart."""
    from ottla.scan.errors import OptionError
    from ottla.sql.opening import parse_values

    made = {}
    for text in formats:
        topic, _, said = text.partition("=")
        try:
            made[topic] = parse_values(said)
        except OptionError:
            raise click.UsageError(
                f"--values {text}: give TOPIC=FORMAT, and options behind it as ,NAME=VALUE"
            ) from None
    return made


def _on_spark(
    text: str,
    target: Target,
    master: str,
    log_dirs: tuple[Path, ...],
    pipelines: tuple[Path, ...],
    formats: tuple[str, ...],
    *,
    read_committed: bool,
) -> pa.RecordBatchReader:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise Failure("pyspark is not installed: pip install 'ottla[spark]'", FAILED) from None
    from ottla.sql.onspark import query_on_spark
    from ottla.sql.opening import served

    return query_on_spark(
        text,
        target.settings,
        master=master,
        read_committed=read_committed,
        formats=_values(formats),
        log_dirs=log_dirs,
        files=served(pipelines),
    )


def _engine(
    target: Target,
    log_dirs: tuple[Path, ...],
    pipelines: tuple[Path, ...],
    formats: tuple[str, ...],
    *,
    read_committed: bool,
) -> Engine:
    try:
        from ottla.sql.opening import open_engine
    except ImportError as error:
        raise Failure(f"{error.name} is not installed: pip install 'ottla[sql]'", FAILED) from None
    limit = {"default.api.timeout.ms": str(int(target.timeout_s * 1000))}
    settings = {**limit, **target.settings}
    return open_engine(settings, _values(formats), log_dirs, pipelines, read_committed=read_committed)


@contextmanager
def _unknown_tables() -> Iterator[None]:
    from ottla.sql.engine import UnknownTableError

    try:
        yield
    except UnknownTableError as error:
        raise Failure(str(error), NOT_FOUND) from None


def _follow(engine: Engine, text: str, form: str, out: IO[bytes], interval_s: float) -> None:
    from ottla.sql.following import follow

    for answer in follow(engine, text, interval_s=interval_s):
        if answer.is_whole and form == "table" and may_color():
            out.write(CLEAR.encode())
        write(answer.rows, form, out)
        out.flush()


def write(rows: pa.RecordBatchReader, form: str, out: IO[bytes]) -> None:
    from ottla.sql.output import WRITERS, plain

    if form != "table":
        WRITERS[form](rows, out)
        return
    table = Table([field(name, name) for name in rows.schema.names], header=True)
    printed = False
    for batch in rows:
        for line in table.lines([plain(row) for row in batch.to_pylist()]):
            out.write(line.encode() + b"\n")
        printed = True
    if not printed:
        out.write(b"".join(line.encode() + b"\n" for line in table.lines([])))
