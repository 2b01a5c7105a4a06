"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

folder = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ottla-data"),
    show_default="./ottla-data",
    help="Folder of the cluster.",
)

insecure = click.option(
    "--insecure", is_flag=True, help="Allow addresses that other machines can reach, although nothing controls access."
)


class Setting(click.ParamType):
    """``k=v``, as a pair."""

    name = "k=v"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, separator, text = value.partition("=")
        if not (key and separator):
            self.fail(f"{value!r} is not of the form k=v", param, ctx)
        return key, text
