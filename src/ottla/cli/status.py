"""The command ``ottla status``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ottla.base.errors import Error
from ottla.cli import options
from ottla.cli.plan import Role, parse_address
from ottla.cli.serving import condition
from ottla.cli.state import Process, State


@click.command("status")
@options.folder
@click.option("--json", "as_json", is_flag=True, help="Print the processes that run, for programs.")
def command(folder: Path, *, as_json: bool) -> None:
    """Show the processes of a cluster."""
    try:
        state = State.load(folder)
    except Error as error:
        click.echo(f"ottla status: {error}", err=True)
        sys.exit(1)
    if as_json:
        alive = state.alive() if state else []
        click.echo(json.dumps({"processes": [process.public() for process in alive]}, indent=1))
    elif state is None:
        click.echo(f"nothing runs in {folder}")
    else:
        for process in state.processes:
            click.echo(f"{process.role} {process.id}  {process.address:<21}  {_condition(process)}")


def _condition(process: Process) -> str:
    if not process.identity.is_alive():
        return f"dead (was pid {process.identity.pid})"
    role = Role(process.role, process.id, parse_address(process.address))
    serving = condition(role) or "does not serve"
    return f"{serving:<14}  pid {process.identity.pid}" + (f"  {process.metrics}" if process.metrics else "")
