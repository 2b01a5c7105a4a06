"""The commands by name. A command's module is imported when that command is called, not before."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import click

import ottla

# The line that ``ottla --help`` shows; it stands here so that showing it imports nothing.
COMMANDS = {
    "up": "Start a cluster on this machine.",
    "down": "Stop the cluster of a folder.",
    "status": "Show the processes of a cluster.",
    "broker": "Run one broker.",
    "keeper": "Run one keeper.",
}


class LazyGroup(click.Group):
    """A group whose command NAME is ``command`` in the module ``ottla.cli.NAME``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"ottla.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: Sequence[tuple[str, str]] = list(COMMANDS.items())
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(ottla.__version__, message="ottla %(version)s")
def app() -> None:
    """Ottla: a highly available distributed log, and the keeper it stands on."""
