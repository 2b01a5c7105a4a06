"""The command ``ottla keeper``."""

from __future__ import annotations

import sys

import click

from ottla.cli import options
from ottla.cli.launch import ServerRequest, keeper


def _show_settings(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked:
        return
    from ottla.base.config import plain
    from ottla.keeper.config import KeeperConfig

    click.echo(plain(KeeperConfig), nl=False)
    ctx.exit()


@click.command("keeper")
@click.argument("file", metavar="FILE.cfg")
@options.settings("--set", help="Set a key, whatever the file says.")
@options.insecure
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
@click.option(
    "--settings",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_settings,
    help="List every key of FILE.cfg and end.",
)
def command(file: str, set_settings: dict[str, str], *, insecure: bool, verbose: bool) -> None:
    """Run one keeper.

    FILE.cfg is ZooKeeper's zoo.cfg, with `myid` in its data directory. System properties of ZooKeeper are keys of the
    same name. The keeper runs in the foreground until SIGTERM or SIGINT.
    """
    sys.exit(keeper(ServerRequest(file, set_settings, insecure, verbose)))
