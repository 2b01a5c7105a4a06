"""The command ``ottla broker``."""

from __future__ import annotations

import sys

import click

from ottla.cli import options
from ottla.cli.launch import ServerRequest, broker


@click.command("broker")
@click.argument("file", metavar="FILE.properties")
@options.settings("--set", help="Set a property, whatever the file says.")
@click.option("--keeper", metavar="FILE.cfg", help="Run this keeper, too, in the same process.")
@options.insecure
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def command(file: str, set_settings: dict[str, str], *, keeper: str | None, insecure: bool, verbose: bool) -> None:
    """Run one broker.

    FILE.properties is Kafka's server.properties; `broker.id`, `listeners`, `log.dirs` and `zookeeper.connect` are what a
    broker needs, and `zookeeper.connect` names keepers or Apache ZooKeeper. With --keeper, one keeper comes along, and one
    process is all that a single machine needs. It runs in the foreground until SIGTERM or SIGINT.
    """
    sys.exit(broker(ServerRequest(file, set_settings, insecure, verbose, keeper)))
