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
