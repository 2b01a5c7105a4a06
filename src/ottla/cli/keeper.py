"""The command ``ottla keeper``."""

from __future__ import annotations

import sys

import click

from ottla.cli import options
from ottla.cli.launch import ServerRequest, keeper


def _show_settings() -> None:
    from ottla.base.config import plain
    from ottla.keeper.config import KeeperConfig

    click.echo(plain(KeeperConfig), nl=False)


@click.command("keeper")
@click.argument("file", metavar="FILE.cfg")
@options.settings("--set", help="Set a key, whatever the file says.")
@options.insecure
@options.verbose
@options.listing(_show_settings, help="List every key of FILE.cfg and end.")
def command(file: str, set_settings: dict[str, str], *, insecure: bool, verbose: bool) -> None:
    """Run one keeper.

    FILE.cfg is ZooKeeper's zoo.cfg, with `myid` in its data directory. System properties of ZooKeeper are keys of the
    same name. The keeper runs in the foreground until SIGTERM or SIGINT.
    """
    sys.exit(keeper(ServerRequest(file, set_settings, insecure, verbose)))
