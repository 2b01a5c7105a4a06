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
    yield from below(command)


def below(command: click.Command) -> Iterator[click.Command]:
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield each
            yield from below(each)


def test_every_command_is_on_a_page() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for name in COMMANDS:
        assert f"`{name}`" in page or f"`ottla {name}`" in page or f"## ottla {name}\n" in page, name
    assert re.findall(r"^## ottla (\w+)$", page, re.MULTILINE) == list(CLIENTS)


OFFSET_BEFORE_THE_END = "-n"


def sections() -> dict[str, str]:
    """The page cut at its headings."""
    page = (ROOT / "docs" / "cli.md").read_text()
    heading, *found = re.split(r"^## (.*)\n", page, flags=re.MULTILINE)
    assert heading.startswith("# The command line")
    return dict(zip(found[::2], found[1::2], strict=True))


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])(?:--[a-z][\w-]*|-[A-Za-z])(?![\w-])", text))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_section_has_the_options_of_its_command_and_no_others(name: str) -> None:
    page = sections()
    shared = options_in(page["What all clients share"])
    mine = page[f"ottla {name}"]
    known: set[str] = set()
    for command in commands(name):
        if command.name != name:
            assert f"**{command.name}**" in mine or f"`{command.name}`" in mine
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        known.update(name for option in options for name in (*option.opts, *option.secondary_opts))
    # Another command's options stand behind its name, or in an example.
    prose = re.sub(r"^```.*?^```$", "", mine, flags=re.MULTILINE | re.DOTALL)
    own = " ".join(span for span in re.findall(r"`([^`]*)`", prose) if span.startswith("-"))
    assert options_in(own) - {OFFSET_BEFORE_THE_END} <= known
    assert known <= options_in(mine) | shared


NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
WITHOUT_A_MISTAKE = ("C4",)


def test_every_promise_names_tests_and_mistakes_that_there_are() -> None:
    section = (ROOT / "docs" / "guarantees.md").read_text().partition("## Which test, which broken build\n")[2]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if re.match(r"\| [LC]\d", line)]
    assert [row[0] for row in rows] == [f"L{n}" for n in range(1, 21)] + [f"C{n}" for n in range(1, 8)]
    for number, _, tests, mistakes in rows:
        named = NAMED.findall(tests)
        assert named, number
        broken = NAMED.findall(mistakes)
        assert broken or number in WITHOUT_A_MISTAKE, number
        for path, name in named + broken:
            assert re.search(rf"^(def|class) {name}\b", (ROOT / path).read_text(), re.MULTILINE), (
                f"{number}: {path}::{name}"
            )
