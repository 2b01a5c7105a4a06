"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

folder = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ottla-data"),
    help="Folder of the cluster.",
)

insecure = click.option(
    "--insecure", is_flag=True, help="Allow addresses that other machines can reach, although nothing controls access."
)

verbose = click.option("-v", "--verbose", is_flag=True, help="Log more.")


def listing(show: Callable[[], None], *, help: str) -> Callable[[F], F]:  # noqa: A002  as click names it
    """A flag ``--settings`` that shows what the command's file may say, and ends."""

    def end(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked:
            show()
            ctx.exit()

    return click.option("--settings", is_flag=True, is_eager=True, expose_value=False, callback=end, help=help)


def settings(name: str, *, help: str) -> Callable[[F], F]:  # noqa: A002  as click names it
    """An option ``name k=v`` that may be given many times, and arrives as a dict."""
    attribute = name.lstrip("-").replace("-", "_").lower()
    return click.option(name, f"{attribute}_settings", metavar="k=v", multiple=True, callback=_pairs, help=help)


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not (key and separator):
            raise click.BadParameter(f"{value!r} is not of the form k=v", ctx, param)
        pairs[key] = text
    return pairs


def not_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The callback of a name that may be left out, but not be nothing."""
    if value is not None and not value:
        raise click.BadParameter("an empty name is none", ctx, param)
    return value
