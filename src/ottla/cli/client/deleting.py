"""What ``ottla topic delete`` and ``ottla group delete`` share: their options, the question, and what is told in the end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import click

from ottla.cli.client.connection import FAILED, Failure, Target, client_command, explain, output_command, wait
from ottla.cli.client.output import Output, Row, field, show

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Deletion:
    """How far a command may go; its options arrive as one ``deletion``."""

    noun: str
    if_exists: bool
    yes: bool
    dry_run: bool

    def carry_out(
        self,
        names: list[str],
        delete: Callable[[list[str]], Mapping[str, Future[None]]],
        *,
        column: str,
        target: Target,
        output: Output,
    ) -> None:
        rows: list[Row] = []
        failed: list[str] = []
        if self.dry_run:
            rows = [{column: name, "status": "would be deleted"} for name in names]
        elif names:
            if not self.yes:
                self._confirm(names, target)
            rows, failed = _await(delete(names), column, target)
        show_done(output, f"{self.noun}s", column, rows, failed)

    def _confirm(self, names: list[str], target: Target) -> None:
        click.echo("\n".join(names), err=True)
        what = f"this {self.noun}" if len(names) == 1 else f"these {len(names)} {self.noun}s"
        if not click.confirm(f"Delete {what} at {target.bootstrap}?", err=True):
            raise Failure("nothing was deleted", FAILED)


def show_done(output: Output, nouns: str, column: str, rows: list[Row], failed: list[str]) -> None:
    """One row for each name that something was done to, and an error that names all others."""
    if rows or output.form in ("json", "yaml"):
        show(output, nouns, rows, (field(column.upper(), column), field("STATUS", "status")))
    if failed:
        raise Failure("\n  ".join(failed))


def deletion_command(noun: str) -> Callable[[Callable[P, R]], Callable[..., R]]:
    """The names and options of a command that deletes, beside those of every client."""

    def decorate(function: Callable[P, R]) -> Callable[..., R]:
        @functools.wraps(function)
        def command(*args: Any, yes: bool, if_exists: bool, dry_run: bool, **kwargs: Any) -> R:
            deletion = Deletion(noun, if_exists=if_exists, yes=yes, dry_run=dry_run)
            return function(*args, deletion=deletion, **kwargs)  # type: ignore[arg-type]

        made: Callable[..., R] = client_command(command)
        made = output_command(made)
        for option in (
            click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing."),
            click.option("--if-exists", is_flag=True, help=f"A {noun} that is not there is no error."),
            click.option("-y", "--yes", is_flag=True, help="Do not ask."),
            click.argument("patterns", metavar="PATTERN...", nargs=-1, required=True),
        ):
            made = option(made)
        return made

    return decorate


def _await(futures: Mapping[str, Future[None]], column: str, target: Target) -> tuple[list[Row], list[str]]:
    from confluent_kafka import KafkaException

    rows: list[Row] = []
    failed: list[str] = []
    for name, future in futures.items():
        try:
            wait(future, target.timeout_s + 1)
            rows.append({column: name, "status": "deleted"})
        except KafkaException as error:
            failed.append(f"{name}: {explain(error.args[0])}")
    return rows, failed
