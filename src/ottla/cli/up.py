"""The command ``ottla up``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ottla.base.errors import Error
from ottla.cli import options
from ottla.cli.cluster import UpRequest, up
from ottla.cli.plan import Wish

PORT = click.IntRange(0, 65535)


@click.command("up")
@click.option("--brokers", metavar="N", type=click.IntRange(0), help="Brokers; one, or as many as DIR holds.")
@click.option(
    "--keepers",
    metavar="M",
    type=click.IntRange(1, 255),
    help="Keepers; one, inside the only broker, or three, or as many as DIR holds.",
)
@options.folder
@click.option("--host", metavar="H", default="127.0.0.1", help="Address that every process listens on.")
@click.option("--port", metavar="P", type=PORT, default=9092, help="Port of the first broker; 0 takes free ones.")
@click.option(
    "--keeper-port", metavar="K", type=PORT, default=2181, help="Port of the first keeper; 0 takes free ones."
)
@click.option("--console-port", metavar="C", type=PORT, help="Port of the console.")
@click.option("--no-console", is_flag=True, help="Start no console.")
@click.option("--rest-port", metavar="R", type=PORT, help="Port of the REST interface.")
@click.option("--ephemeral", is_flag=True, help="Keep data in a temporary folder that goes with the processes.")
@click.option("--detach", is_flag=True, help="Leave the processes running and return.")
@options.settings("--set", help="Give any broker property.")
@options.settings("--keeper-set", help="Give any keeper setting.")
@options.insecure
def command(
    *,
    brokers: int | None,
    keepers: int | None,
    folder: Path,
    host: str,
    port: int,
    keeper_port: int,
    console_port: int | None,
    no_console: bool,
    rest_port: int | None,
    ephemeral: bool,
    detach: bool,
    set_settings: dict[str, str],
    keeper_set_settings: dict[str, str],
    insecure: bool,
) -> None:
    """Start a cluster on this machine.

    Prints one line that starts with `ready:` once every process serves, and stays in the foreground until Ctrl-C unless
    --detach is given. Data stays in --dir: the same command later goes on with it.
    """
    if console_port is not None and no_console:
        raise click.UsageError("--console-port and --no-console exclude each other")
    for name, port_given in {"--console-port": console_port, "--rest-port": rest_port}.items():
        if port_given is not None:
            click.echo(f"ottla up: {name} has no effect: nothing that it applies to runs yet", err=True)
    wish = Wish(
        folder=folder,
        host=host,
        brokers=brokers,
        broker_port=port,
        broker_settings=set_settings,
        keepers=keepers,
        keeper_port=keeper_port,
        keeper_settings=keeper_set_settings,
        insecure=insecure,
    )
    request = UpRequest(wish=wish, ephemeral=ephemeral, detach=detach)
    try:
        sys.exit(up(request))
    except (Error, OSError) as error:
        click.echo(f"ottla up: {error}", err=True)
        sys.exit(1)
