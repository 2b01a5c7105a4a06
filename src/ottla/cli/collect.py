"""The command ``ottla collect``."""

from __future__ import annotations

import logging
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from ottla.base.errors import ConfigError
from ottla.cli import options as shared
from ottla.cli.client.connection import Failure, Target, client_command, missing_topic
from ottla.collect.plan import (
    BODY_BYTES,
    BODY_BYTES_MOST,
    FORMS,
    HTTP,
    LINE_BYTES,
    LINE_BYTES_LEAST,
    LINE_BYTES_MOST,
    STARTS,
    SYSLOG_TCP,
    SYSLOG_UDP,
    Address,
    Plan,
    load_plans,
    parse_address,
    parse_key,
)

if TYPE_CHECKING:
    # Loaded by the command itself, not by --help.
    from confluent_kafka import Producer

    from ottla.cli.collectview import View
    from ottla.collect.progress import State

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_OF_ONE_SOURCE = frozenset(
    (
        "files",
        "stdin",
        "syslog_udp",
        "syslog_tcp",
        "http",
        "origins",
        "start",
        "compressed",
        "form",
        "key",
        "line_bytes",
        "body_bytes",
    )
)
"""What a file of sources says of each of them."""


class Keeping(NamedTuple):
    """How what was collected is kept and sent, whichever topic it is for."""

    folder: Path
    spool_bytes: int
    is_synced: bool
    compression: str
    drain_s: float
    creates_topics: bool


def _address(ctx: click.Context, param: click.Parameter, value: str | None) -> Address | None:
    try:
        return None if value is None else parse_address(value)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command("collect", context_settings={"show_default": True})
@click.argument("topic", required=False)
@click.option(
    "--sources",
    "plan_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Many topics, in place of TOPIC: what goes where, in TOML.",
)
@click.option(
    "-f", "--file", "files", metavar="GLOB", multiple=True, help="Follow these files; may be given many times."
)
@click.option("--stdin", is_flag=True, help="Read standard input; so it is if nothing else is named.")
@click.option("--syslog-udp", metavar="[HOST:]PORT", callback=_address, help="Listen for syslog datagrams.")
@click.option("--syslog-tcp", metavar="[HOST:]PORT", callback=_address, help="Listen for syslog streams.")
@click.option("--http", metavar="[HOST:]PORT", callback=_address, help="Listen for web beacons.")
@click.option(
    "--cors-origin", "origins", metavar="URL", multiple=True, default=("*",), help="Pages that may send beacons."
)
@click.option("--from", "start", type=click.Choice(STARTS), default=STARTS[0], help="Where new files begin, at first.")
@click.option("--once", is_flag=True, help="Read files to their present end, and stop.")
@click.option("--compressed", is_flag=True, help="Read files that are compressed too (.gz, .bz2, .xz).")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default=FORMS[0],
    help="Values as they come, or in an envelope.",
)
@click.option(
    "-k", "--key", metavar="FIELD", help="The field of JSON values that is the key; a.b for a field of a field."
)
@click.option("-z", "--compression", type=click.Choice(_CODECS), default="lz4", help="How batches are packed.")
@click.option(
    "--spool",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where it is kept what is not yet with the brokers; default ottla-spool/TOPIC, or of FILE's name.",
)
@click.option("--spool-bytes", metavar="N", type=click.IntRange(1), default=1 << 30, help="How much that may be.")
@click.option(
    "--fsync",
    type=click.Choice(("second", "always")),
    default="second",
    help="When the spool is synced: every second, or before anything counts as taken.",
)
@click.option(
    "--line-bytes",
    metavar="N",
    type=click.IntRange(LINE_BYTES_LEAST, LINE_BYTES_MOST),
    default=LINE_BYTES,
    help="Longer lines are cut in pieces.",
)
@click.option(
    "--body-bytes",
    metavar="N",
    type=click.IntRange(1, BODY_BYTES_MOST),
    default=BODY_BYTES,
    help="Longer beacons are refused.",
)
@click.option(
    "--poll", "poll_s", metavar="S", type=click.FloatRange(0.01), default=0.25, help="Seconds between looks at files."
)
@click.option(
    "--drain",
    "drain_s",
    metavar="S",
    type=click.FloatRange(0),
    default=10.0,
    help="Seconds to send what is left, when told to stop; else as long as brokers take some of it within these.",
)
@click.option(
    "--interval",
    "interval_s",
    metavar="S",
    type=click.FloatRange(0.1),
    default=10.0,
    help="Seconds between lines of progress.",
)
@click.option("--allow-auto-topic-creation", is_flag=True, help="Let the brokers create a topic that is missing.")
@shared.insecure
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
@client_command
def command(
    topic: str | None,
    *,
    plan_file: Path | None,
    files: tuple[str, ...],
    stdin: bool,
    syslog_udp: Address | None,
    syslog_tcp: Address | None,
    http: Address | None,
    origins: tuple[str, ...],
    start: str,
    once: bool,
    compressed: bool,
    form: str,
    key: str | None,
    compression: str,
    folder: Path | None,
    spool_bytes: int,
    fsync: str,
    line_bytes: int,
    body_bytes: int,
    poll_s: float,
    drain_s: float,
    interval_s: float,
    allow_auto_topic_creation: bool,
    insecure: bool,
    quiet: bool,
    target: Target,
) -> None:
    """Collect lines, syslog and web beacons into a topic, or with --sources into many.

    What is collected is kept on disk until the brokers have acknowledged it, so they may be away, and this may be killed: it is
    sent at least once, in its order. Files are followed through rotation, by renaming and by copying and truncating, and read on where they
    were when this is started again. When the spool is full, files and streams wait, and beacons get a 503.

    Ctrl-C takes no more, sends what is left, and says what was done; what could not be sent stays in the spool.

    \b
    ottla collect logs -f '/var/log/*.log' --syslog-udp 5514 --syslog-tcp 5514
    ottla collect clicks --http 8080 --key visitor
    journalctl -f -o json | ottla collect journal --key _HOSTNAME
    ottla collect --sources shop.toml
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    if (topic is None) == (plan_file is None):
        raise click.UsageError("give a TOPIC, or --sources FILE for many")
    if plan_file is not None:
        _check_alone(click.get_current_context())
        plans = load_plans(plan_file)
    else:
        assert topic is not None
        given = {SYSLOG_UDP: syslog_udp, SYSLOG_TCP: syslog_tcp, HTTP: http}
        ports = {name: at for name, at in given.items() if at is not None}
        plan = Plan(
            topic,
            files=tuple(str(Path(pattern).absolute()) for pattern in files),
            stdin=stdin or not (files or ports),
            ports=ports,
            origins=origins,
            from_end=start == STARTS[1],
            compressed=compressed,
            is_enveloped=form == FORMS[1],
            key=parse_key(key or ""),
            line_bytes=line_bytes,
            body_bytes=body_bytes,
        )
        plans = (plan,)
    _check(plans, once=once, insecure=insecure)
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    _look_at_topics(target, {plan.topic for plan in plans}, is_created=allow_auto_topic_creation)
    folder = folder or Path("ottla-spool") / (plan_file.stem if plan_file is not None else plans[0].topic)
    keeping = Keeping(folder, spool_bytes, fsync == "always", compression, drain_s, allow_auto_topic_creation)
    from ottla.cli.collectview import View

    _collect(plans, keeping, target, View(interval_s=interval_s, quiet=quiet), poll_s=poll_s, once=once)


def _collect(plans: Sequence[Plan], keeping: Keeping, target: Target, view: View, *, poll_s: float, once: bool) -> None:
    import uvloop

    from ottla.base.clock import SystemClock
    from ottla.cli.client import producing
    from ottla.collect.collector import Collector
    from ottla.collect.intake import Intake
    from ottla.collect.opening import open_plans
    from ottla.collect.progress import Counters
    from ottla.collect.sender import SETTINGS, Sender
    from ottla.collect.shaping import Shape
    from ottla.collect.sources import Desk
    from ottla.collect.spool import Spool

    def producer() -> Producer:
        creates = {"allow.auto.create.topics": keeping.creates_topics}
        return target.producer(
            {**producing.settings(compression=keeping.compression, acks="all"), **SETTINGS, **creates}
        )

    _allow_many_files()
    opened = open_plans(plans)
    spool = Spool(keeping.folder, limit_bytes=keeping.spool_bytes)

    async def run() -> State:
        import asyncio

        loop = asyncio.get_running_loop()
        counters = Counters()
        intake = Intake(spool, counters, is_synced=keeping.is_synced)

        def on_room() -> None:
            loop.call_soon_threadsafe(intake.on_room)

        sender = Sender(spool, producer, counters, on_room)
        positions = spool.positions()
        tailers = [each.tailer(positions) for each in opened]
        followed = [tailer for tailer in tailers if tailer is not None]
        collector = Collector(spool, intake, sender, counters, followed, drain_s=keeping.drain_s)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, view.stopping, number, collector)
        sources = []
        for each, tailer in zip(opened, tailers, strict=True):
            shape = Shape(each.plan.topic, each.plan.key, is_enveloped=each.plan.is_enveloped)
            desk = Desk(intake, shape, SystemClock(), socket.gethostname(), each.plan.line_bytes)
            sources += each.sources(desk, tailer, poll_s=poll_s, is_once=once)
        view.ready(opened)
        return await collector.run(sources, view.show, interval_s=view.interval_s)

    try:
        view.end(uvloop.run(run()))
    except OSError as error:
        raise Failure(str(error)) from None


def _allow_many_files() -> None:
    """As many as the system permits at all: every file that grows is kept open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _check_alone(context: click.Context) -> None:
    for name in sorted(_OF_ONE_SOURCE):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = next(each for each in context.command.params if each.name == name)
            raise click.UsageError(
                f"{option.opts[-1]} is for one topic: with --sources, its file says that of each source"
            )


def _check(plans: Sequence[Plan], *, once: bool, insecure: bool) -> None:
    for plan in plans:
        if once and plan.ports:
            raise click.UsageError("--once is for files, which have an end")
        for name, address in plan.ports.items():
            if not insecure and not address.is_loopback:
                raise click.UsageError(
                    f"--{name}: {address.host} can be reached from other machines, and there is no access control; "
                    "use a loopback address, or allow it with --insecure"
                )


def _look_at_topics(target: Target, topics: set[str], *, is_created: bool) -> None:
    """A topic that is missing is a mistake; brokers that are away are what the spool is for."""
    try:
        known = target.connect().cluster.topics
    except Failure as failure:
        click.echo(f"spooling: {failure.message}", err=True)
        return
    for topic in sorted(topics):
        if topic not in known and not is_created:
            raise missing_topic(topic, is_written=True)
