"""The commands ``ottla cluster health|elect|reassign|drain|verify-replicas``."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.client.connection import NOT_FOUND, Failure, Target, client_command, missing_topic, output_command
from ottla.cli.client.output import Output, Row, field, show
from ottla.cli.client.replanning import (
    Assignment,
    UnknownBrokerError,
    read_plan,
    spread,
    with_factor,
    without_broker,
    write_plan,
)

if TYPE_CHECKING:
    # Loaded by the commands that use it, not by --help.
    from ottla.cli.client.operating import Move, Operations, Partition
    from ottla.wire import ErrorCode

_PROGRESS_S = 0.3
_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")

throttle_option = click.option(
    "--throttle", metavar="BYTES", type=click.IntRange(1), help="Bytes a second that each broker may move."
)
wait_option = click.option("--wait", "wait_", is_flag=True, help="Wait until it is done, with a progress bar.")
plan_argument = click.argument(
    "plan", metavar="PLAN.json", type=click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True)
)


@click.group("cluster", context_settings={"show_default": True})
def command() -> None:
    """Look after a cluster: health, elections, moves."""


@command.command("health", short_help="Show what is wrong with a cluster.")
@output_command
@client_command
def health(*, output: Output, target: Target) -> None:
    """Show what is wrong with a cluster: exit code 0 if nothing is, 1 if something is."""
    from ottla.cli.client.health import problems

    with _operations(target) as operations:
        rows, moves = _controller(operations)
        least = operations.min_insync({topic for topic, _ in operations.partitions})
        found = problems(operations.partitions, operations.brokers, least, moves)
        rows += [{"what": what, "problem": problem} for what, problem in found]
        show(output, "problems", rows, (field("WHAT", "what"), field("PROBLEM", "problem")))
        astray = sum(each.leader != each.replicas[0] for each in operations.partitions.values() if each.replicas)
        output.note(
            f"{len(operations.brokers)} brokers, controller {operations.controller_id}, "
            f"{len(operations.partitions)} partitions, {astray} not led by their preferred replica, "
            f"{len(moves)} on their way"
        )
    if rows:
        raise click.exceptions.Exit(1)


@command.command("elect", short_help="Let preferred replicas, or anybody, lead.")
@click.argument("kind", type=click.Choice(("preferred", "unclean")))
@click.argument("partitions", metavar="[TOPIC[:PARTITION]]...", nargs=-1)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before an unclean election.")
@output_command
@client_command
def elect(kind: str, partitions: tuple[str, ...], *, yes: bool, output: Output, target: Target) -> None:
    """Let preferred replicas lead again, or let anybody lead what nobody leads.

    An unclean election may lose records that were acknowledged. Without partitions, all that need it are meant.
    """
    unclean = kind == "unclean"
    if unclean and not yes and not click.confirm("Records that only others have are lost. Go on?", err=True):
        raise Failure("nothing was done")
    with _operations(target) as operations:
        wanted = None if not partitions else _partitions(operations, partitions)
        outcomes = operations.elect(wanted, unclean=unclean)
    rows = [
        {"name": f"{topic}-{number}", "status": _status(code, message)}
        for (topic, number), (code, message) in sorted(outcomes.items())
    ]
    show(output, "partitions", rows, (field("PARTITION", "name"), field("STATUS", "status")))
    if any(code.name not in ("NONE", "ELECTION_NOT_NEEDED") for code, _ in outcomes.values()):
        raise click.exceptions.Exit(1)


@command.group("reassign", short_help="Move partitions, or change their replicas.")
def reassign() -> None:
    """Move partitions between brokers, or change how many replicas they have."""


@reassign.command("generate", short_help="Print where partitions would be.")
@click.argument("patterns", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--brokers", metavar="ID,...", help="Spread all replicas evenly over these brokers.")
@click.option("-r", "--replication-factor", metavar="N", type=click.IntRange(1), help="Replicas of each partition.")
@client_command
def generate(patterns: tuple[str, ...], *, brokers: str | None, replication_factor: int | None, target: Target) -> None:
    """Print where partitions would be, in the form of Kafka's own tool; nothing is moved.

    \b
    ottla cluster reassign generate orders --brokers 1,2,4 > plan.json
    ottla cluster reassign generate 'pay*' -r 3 > plan.json
    """  # noqa: D301  what click keeps as it stands begins with a backspace
    if (brokers is None) == (replication_factor is None):
        raise click.UsageError("give either --brokers or --replication-factor")
    with _operations(target) as operations:
        layout, topics = operations.layout(), _topics(operations, patterns)
        if replication_factor is not None:
            plan = with_factor(layout, topics, replication_factor)
        else:
            numbers = _numbers(brokers or "")
            start, shift = random.randrange(len(numbers)), random.randrange(len(numbers))
            try:
                plan = spread(layout, topics, numbers, start=start, shift=shift)
            except UnknownBrokerError as error:
                raise Failure(str(error), NOT_FOUND) from None
    click.echo(write_plan(plan))


@reassign.command("execute")
@plan_argument
@throttle_option
@wait_option
@output_command
@client_command
def execute(plan: Path, *, throttle: int | None, wait_: bool, output: Output, target: Target) -> None:
    """Begin the moves of a plan. Where partitions are now is printed first: that is the way back."""
    wanted = _read(plan)
    with _operations(target) as operations:
        _execute(operations, wanted, throttle, wait_=wait_, output=output)


@reassign.command("verify")
@plan_argument
@wait_option
@output_command
@client_command
def verify(plan: Path, *, wait_: bool, output: Output, target: Target) -> None:
    """Show how far a plan is: exit code 0 if it is done. Throttles of what is done are removed."""
    wanted = _read(plan)
    with _operations(target) as operations:
        if wait_:
            _wait(operations, wanted, output)
        operations.refresh()
        moves = operations.moves()
        rows = [_progress(operations, where, replicas, moves.keys()) for where, replicas in sorted(wanted.items())]
        is_done = all(row["status"] == "done" for row in rows)
        if is_done:
            _unthrottle(operations, wanted)
    show(output, "partitions", rows, (field("PARTITION", "name"), field("STATUS", "status")))
    if not is_done:
        raise click.exceptions.Exit(1)


@reassign.command("cancel", short_help="Take back moves that are under way.")
@click.argument("partitions", metavar="[TOPIC[:PARTITION]]...", nargs=-1)
@output_command
@client_command
def cancel(partitions: tuple[str, ...], *, output: Output, target: Target) -> None:
    """Take back moves that are under way, of some partitions or of all."""
    with _operations(target) as operations:
        moves = operations.moves()
        named = moves.keys() if not partitions else set(_partitions(operations, partitions)) & moves.keys()
        refused = operations.reassign(dict.fromkeys(named)) if named else {}
        _unthrottle(operations, {where: moves[where].replicas for where in named})
    rows = [
        {"name": f"{topic}-{number}", "status": "refused" if (topic, number) in refused else "taken back"}
        for topic, number in sorted(named)
    ]
    show(output, "partitions", rows, (field("PARTITION", "name"), field("STATUS", "status")))
    _fail_if(refused)


@reassign.command("ls")
@output_command
@client_command
def ls(*, output: Output, target: Target) -> None:
    """Show the moves that are under way."""
    with _operations(target) as operations:
        rows = [
            {"name": f"{topic}-{number}", "replicas": each.replicas, "adding": each.adding, "removing": each.removing}
            for (topic, number), each in sorted(operations.moves().items())
        ]
    columns = (
        field("PARTITION", "name"),
        field("REPLICAS", "replicas"),
        field("ADDING", "adding"),
        field("REMOVING", "removing"),
    )
    show(output, "moves", rows, columns)


@command.command("drain")
@click.argument("broker", type=int)
@throttle_option
@wait_option
@click.option("--dry-run", is_flag=True, help="Print the plan, and move nothing.")
@output_command
@client_command
def drain(broker: int, *, throttle: int | None, wait_: bool, dry_run: bool, output: Output, target: Target) -> None:
    """Move everything off a broker, so that it can go for good."""
    with _operations(target) as operations:
        layout = operations.layout()
        wanted = without_broker(layout, broker)
        if dry_run:
            click.echo(write_plan(wanted))
            return
        leaving = {where: layout.replicas[where] for where, removing in layout.removing.items() if broker in removing}
        if wanted:
            _execute(operations, wanted, throttle, wait_=wait_, output=output)
        elif leaving:
            output.note(f"{len(leaving)} partitions are on their way from broker {broker} already")
        elif broker in operations.brokers:
            output.note(f"broker {broker} holds nothing")
        else:
            raise Failure(f"there is no broker {broker}", NOT_FOUND)
        if leaving and wait_:
            _wait(operations, leaving, output)


@command.command("verify-replicas", short_help="Compare replicas byte by byte.")
@click.argument("patterns", metavar="[TOPIC]...", nargs=-1)
@output_command
@client_command
def verify_replicas(patterns: tuple[str, ...], *, output: Output, target: Target) -> None:
    """Compare the replicas of partitions byte by byte: exit code 1 if any differ."""
    from ottla.cli.client.comparing import compare

    with _operations(target) as operations:
        topics = set(_topics(operations, patterns or ("*",)))
        found = [compare(operations, where) for where in sorted(operations.partitions) if where[0] in topics]
    rows = [
        {
            "name": f"{each.where[0]}-{each.where[1]}",
            "compared": each.compared,
            "status": "the same" if each.difference is None else each.difference,
        }
        for each in found
    ]
    columns = (field("PARTITION", "name"), field("OFFSETS", "compared"), field("STATUS", "status"))
    show(output, "partitions", rows, columns)
    if any(each.difference is not None for each in found):
        raise click.exceptions.Exit(1)


def _operations(target: Target) -> Operations:
    from ottla.cli.client.operating import Operations

    return Operations(target)


def _controller(operations: Operations) -> tuple[list[Row], Mapping[tuple[str, int], Move]]:
    """What is wrong with it, and the moves that it knows of."""
    from ottla.cli.client.operating import NoControllerError

    controller = operations.controller_id
    if controller not in operations.brokers:
        return [{"what": "cluster", "problem": "there is no controller"}], {}
    try:
        return [], operations.moves()
    except NoControllerError:
        return [{"what": f"broker {controller}", "problem": "is the controller and does not answer"}], {}


def _execute(operations: Operations, wanted: Assignment, throttle: int | None, *, wait_: bool, output: Output) -> None:
    unknown = [f"{topic}-{number}" for topic, number in wanted if (topic, number) not in operations.partitions]
    if unknown:
        raise Failure(f"there is no {', '.join(unknown)}", NOT_FOUND)
    # One that holds a replica already may be away.
    new = {
        broker
        for where, replicas in wanted.items()
        for broker in {*replicas} - {*operations.partitions[where].replicas}
    }
    if strangers := sorted(new - operations.brokers.keys()):
        raise Failure(f"there is no broker {', '.join(map(str, strangers))}", NOT_FOUND)
    moves = operations.moves()
    click.echo(write_plan({where: _settled(operations.partitions[where], moves.get(where)) for where in wanted}))
    _begin(operations, wanted, throttle, output)
    output.note(f"{len(wanted)} partitions are on their way; the line above is the way back")
    if wait_:
        _wait(operations, wanted, output)
        _unthrottle(operations, wanted)


def _begin(operations: Operations, wanted: Assignment, throttle: int | None, output: Output) -> None:
    """Where nothing began, throttles are as they were before."""
    from ottla.cli.client.operating import NoControllerError

    with ExitStack() as undo:
        if throttle is not None:
            _throttle(operations, wanted, throttle, undo, output)
        try:
            refused = operations.reassign(wanted)
        except (NoControllerError, KeyboardInterrupt):
            undo.pop_all()  # it may have begun all the same
            raise
        if refused.keys() != wanted.keys():
            undo.pop_all()
        _fail_if(refused)


def _settled(partition: Partition, move: Move | None) -> list[int]:
    """Where it is without what a move under way adds."""
    return [broker for broker in partition.replicas if move is None or broker not in move.adding]


def _wait(operations: Operations, wanted: Assignment, output: Output) -> None:
    left = wanted.keys() & operations.moves().keys()
    with click.progressbar(length=len(wanted), label="moved", file=sys.stderr, hidden=output.quiet) as bar:
        done = 0
        while left:
            bar.update(len(wanted) - len(left) - done)
            done = len(wanted) - len(left)
            time.sleep(_PROGRESS_S)
            left = wanted.keys() & operations.moves().keys()
        bar.update(len(wanted) - done)


def _throttle(operations: Operations, wanted: Assignment, rate: int, undo: ExitStack, output: Output) -> None:
    from ottla.cli.client.operating import BROKER, TOPIC, OperationError, throttled

    def take_back(kind: int, name: str, before: Mapping[str, str | None]) -> None:
        try:
            operations.configure(kind, name, before)
        except OperationError as error:  # why nothing began is what has to be told in the end
            output.note(f"a throttle of {'broker ' if kind == BROKER else ''}{name} is left: {error}")

    def configure(kind: int, name: str, settings: Mapping[str, str]) -> None:
        undo.callback(take_back, kind, name, operations.configured(kind, name, settings))
        operations.configure(kind, name, settings)

    for setting, topics in zip(_REPLICAS, throttled(wanted, operations.partitions), strict=True):
        for topic, replicas in topics.items():
            configure(TOPIC, topic, {setting: replicas})
    for broker in operations.brokers:
        configure(BROKER, str(broker), dict.fromkeys(_RATES, str(rate)))


def _unthrottle(operations: Operations, wanted: Assignment) -> None:
    from ottla.cli.client.operating import BROKER, TOPIC

    for topic in sorted({topic for topic, _ in wanted}):
        operations.configure(TOPIC, topic, dict.fromkeys(_REPLICAS))
    if not operations.moves():
        for broker in operations.brokers:
            operations.configure(BROKER, str(broker), dict.fromkeys(_RATES))


def _progress(
    operations: Operations, where: tuple[str, int], replicas: list[int], moving: Iterable[tuple[str, int]]
) -> Row:
    partition = operations.partitions.get(where)
    if partition is None:
        status = "there is no such partition"
    elif where in moving:
        status = f"on its way, in sync are {partition.isr}"
    else:
        status = "done" if partition.replicas == replicas else f"is at {partition.replicas}"
    return {"name": f"{where[0]}-{where[1]}", "status": status}


def _fail_if(refused: Mapping[tuple[str, int], tuple[ErrorCode, str | None]]) -> None:
    if refused:
        raise Failure(
            "\n  ".join(
                f"{topic}-{number}: {_status(code, message)}" for (topic, number), (code, message) in refused.items()
            )
        )


def _status(code: ErrorCode, message: str | None) -> str:
    if code.name == "NONE":
        return "elected"
    return code.name if message is None else f"{message} ({code.name})"


def _partitions(operations: Operations, named: tuple[str, ...]) -> list[tuple[str, int]]:
    found: dict[tuple[str, int], None] = {}
    for name in named:
        topic, colon, number = name.partition(":")
        meant = [
            where
            for where in sorted(operations.partitions)
            if where[0] == topic and (not colon or str(where[1]) == number)
        ]
        if not meant:
            raise Failure(f"there is no {name}; 'ottla topic ls' shows what there is", NOT_FOUND)
        found.update(dict.fromkeys(meant))
    return list(found)


def _topics(operations: Operations, patterns: tuple[str, ...]) -> list[str]:
    names = sorted({topic for topic, _ in operations.partitions})
    found: dict[str, None] = {}
    for pattern in patterns:
        meant = [name for name in names if fnmatchcase(name, pattern)]
        if not meant and "*" not in pattern:
            raise missing_topic(pattern)
        found.update(dict.fromkeys(meant))
    return list(found)


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--brokers: {text!r} is not of the form 1,2,3") from None


def _read(plan: Path) -> Assignment:
    text = sys.stdin.read() if str(plan) == "-" else plan.read_text(encoding="utf-8")
    return read_plan(text)
