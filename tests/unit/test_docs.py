from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ottla.cli.app import COMMANDS, app

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_made_from_the_code_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


CLIENTS = (
    "topic",
    "cluster",
    "produce",
    "consume",
    "collect",
    "group",
    "cat",
    "sql",
    "pipeline",
    "export",
    "import",
    "log",
)


def commands(name: str) -> Iterator[click.Command]:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    yield command
    if isinstance(command, click.Group):
        yield from command.commands.values()


def test_every_command_is_on_a_page() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for name in COMMANDS:
        assert f"`{name}`" in page or f"`ottla {name}`" in page or f"## ottla {name}\n" in page, name
    assert re.findall(r"^## ottla (\w+)$", page, re.MULTILINE) == list(CLIENTS)


@pytest.mark.parametrize("name", CLIENTS)
def test_every_option_of_a_client_is_on_the_page(name: str) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for command in commands(name):
        if command.name != name:
            assert f"**{command.name}**" in page
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                for option in parameter.opts:
                    assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", page), (command.name, option)
