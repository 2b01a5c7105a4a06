"""The command ``ottla broker``."""

from __future__ import annotations

import sys

import click

from ottla.cli import options
from ottla.cli.launch import ServerRequest, broker


@click.command("broker")
@click.argument("file", metavar="FILE.properties")
@options.settings("--set", help="Set a property, whatever the file says.")
@options.insecure
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def command(file: str, set_settings: dict[str, str], *, insecure: bool, verbose: bool) -> None:
    """Run one broker.

    FILE.properties is Kafka's server.properties; `broker.id`, `listeners`, `log.dirs` and `zookeeper.connect` are what a
    broker needs, and `zookeeper.connect` names keepers or Apache ZooKeeper. The broker runs in the foreground until
    SIGTERM or SIGINT.
    """
    sys.exit(broker(ServerRequest(file, set_settings, insecure, verbose)))
