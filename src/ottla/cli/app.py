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
    "restart": "Start one process of a cluster again.",
    "broker": "Run one broker.",
    "keeper": "Run one keeper.",
    "topic": "Create, list, describe and delete topics.",
    "cluster": "Look after a cluster: health, elections, moves.",
    "produce": "Send records to a topic.",
    "consume": "Read records of topics.",
    "collect": "Collect lines, syslog and web beacons into a topic, or with --sources into many.",
    "group": "List, describe, reset and delete consumer groups.",
    "cat": "Produce, consume and list as kcat does.",
    "sql": "Ask questions about topics in SQL.",
    "pipeline": "Clean, aggregate and serve what is in topics, on Spark.",
    "export": "Write what is in a topic into files of DIRECTORY.",
    "import": "Send the rows of FILEs to a topic.",
    "log": "Show and check what a partition's files hold; take over those of another broker.",
}
ALIASES = {"topics": "topic", "groups": "group"}
MODULES = {"cluster": "clusteradmin"}
"""Where the module of a command has another name than the command."""


class LazyGroup(click.Group):
    """A group whose command NAME is ``command`` in the module ``ottla.cli.NAME``, or what ``MODULES`` says."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"ottla.cli.{MODULES.get(cmd_name, cmd_name)}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: Sequence[tuple[str, str]] = list(COMMANDS.items())
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(ottla.__version__, message="ottla %(version)s")
def app() -> None:
    """Ottla: a highly available distributed log, and the keeper it stands on."""
