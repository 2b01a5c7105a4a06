"""The command ``ottla down``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ottla.base.errors import Error
from ottla.cli import options
from ottla.cli.cluster import down


@click.command("down")
@options.folder
def command(folder: Path) -> None:
    """Stop the cluster of a folder.

    Only processes that `ottla up` started for that folder are touched. Their data stays, unless it was ephemeral.
    """
    try:
        sys.exit(down(folder))
    except (Error, OSError) as error:
        click.echo(f"ottla down: {error}", err=True)
        sys.exit(1)
