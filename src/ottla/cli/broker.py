"""The command ``ottla broker``."""

from __future__ import annotations

import sys

import click

from ottla.cli import options
from ottla.cli.launch import ServerRequest, broker


def _show_settings() -> None:
    from ottla.metadata.configs import BROKER_CONFIGS, no_effect

    for name, key in BROKER_CONFIGS.items():
        if no_effect(name) is None:
            default = key.format(key.default)
            shown = "not set" if default is None else default or "empty"
            click.echo(f"{name}={shown}   ({key.type.name.lower()})\n    {key.doc}")


@click.command("broker")
@click.argument("file", metavar="FILE.properties")
@options.settings("--set", help="Set a property, whatever the file says.")
@click.option("--keeper", metavar="FILE.cfg", help="Run this keeper, too, in the same process.")
@options.insecure
@options.verbose
@options.listing(_show_settings, help="List every key of FILE.properties that has an effect, and end.")
def command(file: str, set_settings: dict[str, str], *, keeper: str | None, insecure: bool, verbose: bool) -> None:
    """Run one broker.

    FILE.properties is Kafka's server.properties; `broker.id`, `listeners`, `log.dirs` and `zookeeper.connect` are what a
    broker needs, and `zookeeper.connect` names keepers or Apache ZooKeeper. With --keeper, one keeper comes along, and one
    process is all that a single machine needs. It runs in the foreground until SIGTERM or SIGINT.
    """
    sys.exit(broker(ServerRequest(file, set_settings, insecure, verbose, keeper)))
