"""The command ``ottla restart``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ottla.base.errors import Error
from ottla.cli import options
from ottla.cli.client.connection import NOT_FOUND
from ottla.cli.cluster import NotStartedError, restart


@click.command("restart")
@click.argument("role", type=click.Choice(["broker", "keeper"]))
@click.argument("number", metavar="ID", type=click.IntRange(0))
@options.folder
def command(role: str, number: int, folder: Path) -> None:
    """Start one process of a cluster again.

    It is stopped first if it runs, or brought back if it is dead, and keeps its data and its addresses. What shares a process with it goes along.
    """
    try:
        sys.exit(restart(folder, role, number))
    except (Error, OSError) as error:
        click.echo(f"ottla restart: {error}", err=True)
        sys.exit(NOT_FOUND if isinstance(error, NotStartedError) else 1)
