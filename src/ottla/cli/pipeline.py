"""The command ``ottla pipeline``."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.client.connection import (
    BOOTSTRAP,
    DEFAULT_BOOTSTRAP,
    FAILED,
    Failure,
    Target,
    client_command,
    exit_codes,
)

if TYPE_CHECKING:
    # Loaded by the commands themselves, not by --help.
    from ottla.pipeline.store import State
    from ottla.testing import Cluster

MASTER = "local[*,4]"
"""All cores, and four attempts at a task as on a cluster."""


@click.group("pipeline")
def command() -> None:
    """Clean, aggregate and serve what is in topics, on Spark."""


@command.command("run", short_help="Run a pipeline over history or live.", context_settings={"show_default": True})
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--batch", "mode", flag_value="batch", help="Everything that is in the topics now, in one go.")
@click.option("--stream", "mode", flag_value="stream", default=True, help="Go on with what arrives, until Ctrl-C.")
@click.option("--available-now", is_flag=True, help="With --stream: end when all that is there now is done.")
@click.option("--master", metavar="URL", default=MASTER, help="Of Spark.")
@click.option("--brokers", metavar="HOST:PORT,...", help="The same as --bootstrap.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@client_command
def run(
    file: Path, *, mode: str, available_now: bool, master: str, brokers: str | None, quiet: bool, target: Target
) -> None:
    """Run the pipeline that FILE defines, over history or live; the result is the same.

    \b
    ottla pipeline run shop.toml --batch
    ottla pipeline run shop.toml --stream --master spark://host:7077
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    if available_now and mode == "batch":
        raise click.UsageError("--available-now is for --stream")
    _need_spark()
    from pyspark.errors import PySparkException

    from ottla.pipeline.definition import load_definition
    from ottla.pipeline.running import Pipeline
    from ottla.pipeline.session import open_session

    definition = load_definition(file)
    settings = dict(target.settings)
    # The command line and the environment say more than the file does, the default says less.
    if brokers is not None:
        settings[BOOTSTRAP] = brokers
    elif definition.bootstrap is not None and settings[BOOTSTRAP] == DEFAULT_BOOTSTRAP:
        settings[BOOTSTRAP] = definition.bootstrap
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    spark = open_session(definition.name, master, definition.spark)
    pipeline = Pipeline(definition, spark, settings)

    def tell(state: State) -> None:
        if not quiet:
            click.echo(progress_line(state), err=True)

    try:
        state = pipeline.run_batch(tell) if mode == "batch" else pipeline.run_stream(tell, available_now=available_now)
    except PySparkException as error:
        raise Failure(str(error)) from None
    finally:
        spark.stop()
    click.echo(f"{state.totals.get('records', 0)} records, {state.totals.get('events', 0)} events")


@command.command("demo", short_help="Send made traffic through one.", context_settings={"show_default": True})
@click.option("--events", metavar="N", type=click.IntRange(100), default=6000, help="How many events, about.")
@click.option("--seed", metavar="N", type=int, default=1, help="Of the traffic: the same seed, the same traffic.")
@click.option("--seconds", metavar="S", type=click.FloatRange(1), default=20.0, help="How long it takes to arrive.")
@click.option("--brokers", metavar="HOST:PORT,...", help="Use this cluster, in place of three brokers of its own.")
@click.option("--master", metavar="URL", default=MASTER, help="Of Spark.")
@click.option("--no-kill", is_flag=True, help="Let all brokers live.")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ottla-demo"),
    help="Where definition, tables and report go.",
)
def demo(
    *, events: int, seed: int, seconds: float, brokers: str | None, master: str, no_kill: bool, folder: Path
) -> None:
    """Send made traffic through a pipeline, live, and compare what it finds with what is true.

    Three brokers are started for it, and half-way one of them is killed with -9. At the end there is a report with plots. The exit
    code says whether every number was right.
    """
    with exit_codes():
        _need_spark()
        if (folder / "data").exists():
            raise Failure(f"{folder} has the tables of another demonstration in it: give another --dir, or remove it")
        from rich.console import Console

        from ottla.cli.pipelinedemo import Demo
        from ottla.testing import Cluster

        made = Demo({}, folder, Console(highlight=False), events=events, seed=seed, send_s=seconds, master=master)
        with ExitStack() as stack:
            if brokers is None:
                cluster = stack.enter_context(Cluster(brokers=3))
                made.settings = {BOOTSTRAP: cluster.bootstrap}
                made.disturb = None if no_kill else lambda: _kill(cluster)
            else:
                made.settings = {BOOTSTRAP: brokers}
                made.replicas = min(len(Target(made.settings, 10.0).connect().cluster.brokers), 3)
            right = made.run()
        click.echo(f"the report is in {made.report}")
    if not right:
        raise Failure("what was found is not what is true")


def _kill(cluster: Cluster) -> str:
    cluster.kill(2)
    return "Half-way, broker 2 of 3 was killed with -9; nobody restarted it."


def progress_line(state: State) -> str:
    totals = state.totals
    dead = sum(number for name, number in totals.items() if name.startswith("dead."))
    what = "history" if state.stream is None else f"batch {state.batch}"
    return (
        f"{what}: {totals.get('records', 0)} records, {totals.get('events', 0)} events, "
        f"{totals.get('copies', 0)} copies, {totals.get('robots', 0)} of robots, {dead} dead letters"
    )


def _need_spark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise Failure("pyspark is not installed: pip install 'ottla[spark]'", FAILED) from None
    from ottla.pipeline.session import find_java

    find_java(os.environ)
