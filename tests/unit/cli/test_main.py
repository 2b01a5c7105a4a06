from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ottla import __version__
from ottla.cli.app import COMMANDS, app
from ottla.cli.launch import ServerRequest, plain
from tests.peers.processes import processor_s, slowness

from .conftest import Ottla


def test_help_takes_less_than_150_ms() -> None:
    def help_() -> None:
        subprocess.run([sys.executable, "-m", "ottla", "--help"], check=True, stdout=subprocess.DEVNULL)

    assert min(processor_s(help_) for _ in range(5)) < 0.15 * slowness()


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], {"rich", "asyncio", "uvloop", "ottla.keeper", "dataclasses"}),
        (["keeper", "/no/such/file"], {"rich", "click"}),
    ],
)
def test_only_what_is_needed_is_imported(arguments: list[str], unwanted: set[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "ottla", *arguments]
    trace = subprocess.run(command, check=False, capture_output=True, text=True).stderr
    imported = {line.rpartition("|")[2].strip() for line in trace.splitlines() if line.startswith("import time:")}
    assert "ottla.cli.main" in imported
    assert not imported & unwanted


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_commands_say(name: str) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str(100) == COMMANDS[name]


def groups(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        yield names
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from groups(below, *names, name)


@pytest.mark.parametrize("names", list(groups(app)), ids="-".join)
def test_no_line_of_a_list_of_commands_is_cut_off(names: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*names, "--help"], terminal_width=78).output
    assert "..." not in shown.partition("Commands:")[2]


def test_an_unknown_command_is_named(ottla: Ottla) -> None:
    done = ottla.run("frobnicate")
    assert done.returncode == 2
    assert "No such command 'frobnicate'" in done.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("status",), ("--version",), ("topic", "--help")])
def test_what_cannot_be_written_is_one_line_and_exit_code_1(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *arguments],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "ottla: No space left on device\n")


@pytest.mark.parametrize("arguments", [("--help",), ("status",)])
def test_what_is_said_to_a_closed_output_is_one_line_and_exit_code_1(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "ottla", *arguments]
    done = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "ottla: standard output is closed\n")


def test_what_is_never_used_may_be_closed(tmp_path: Path) -> None:
    command = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, "-m", "ottla", "status"]
    assert subprocess.run(command, cwd=tmp_path, stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_version(ottla: Ottla) -> None:
    assert ottla.run("--version").stdout == f"ottla {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "request_"),
    [
        (["zoo.cfg"], ServerRequest("zoo.cfg")),
        (["zoo.cfg", "-v"], ServerRequest("zoo.cfg", verbose=True)),
        (["--insecure", "--verbose", "zoo.cfg"], ServerRequest("zoo.cfg", insecure=True, verbose=True)),
        (["--set", "a=b=c", "zoo.cfg", "--set", "d="], ServerRequest("zoo.cfg", {"a": "b=c", "d": ""})),
    ],
)
def test_the_short_way_and_the_command_read_the_same(
    arguments: list[str], request_: ServerRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.cli import keeper

    assert plain(arguments) == request_
    asked: list[ServerRequest] = []
    monkeypatch.setattr(keeper, "keeper", asked.append)
    with pytest.raises(SystemExit):
        keeper.command.main(arguments, standalone_mode=False)
    assert asked == [request_]


@pytest.mark.parametrize(
    "arguments",
    [[], ["a", "b"], ["--help"], ["a", "--set"], ["a", "--set", "k"], ["a", "--set", "=v"], ["a", "--set=k=v"]],
)
def test_the_short_way_leaves_everything_else_to_the_command(arguments: list[str]) -> None:
    assert plain(arguments) is None


def test_a_bad_configuration_is_one_line_and_exit_code_2(ottla: Ottla) -> None:
    (ottla.folder / "zoo.cfg").write_text("clientPort=2181\n")
    done = ottla.run("keeper", "zoo.cfg")
    assert done.returncode == 2
    assert done.stderr.startswith("ottla keeper: zoo.cfg: dataDir is not set: must be a path.")
    assert done.stderr.count("\n") == 1


def test_settings_of_the_command_line_go_before_the_file(ottla: Ottla, tmp_path: Path) -> None:
    (tmp_path / "zoo.cfg").write_text("dataDir=data\nclientPort=2181\n")
    done = ottla.run("keeper", "zoo.cfg", "--set", "zookeeper.snapCount=0")
    assert "snapCount=0: must be a whole number of at least 2" in done.stderr


def test_warnings_are_logged(ottla: Ottla) -> None:
    ottla.standins = "1=exit"
    (ottla.folder / "zoo.cfg").write_text("dataDir=data\nclientPort=0\nno.such.key=1\n")
    done = ottla.run("keeper", "zoo.cfg")
    assert done.returncode == 3
    assert "WARNING ottla.keeper: no.such.key is not a known setting: ignored" in done.stderr
    assert "clientPortAddress is not set" in done.stderr


def test_every_setting_is_listed(ottla: Ottla) -> None:
    done = ottla.run("keeper", "--settings")
    assert done.returncode == 0
    assert "initLimit=10   (a whole number of at least 1)" in done.stdout
    done = ottla.run("broker", "--settings")
    assert done.returncode == 0
    assert "num.partitions=1   (int)\n    Partitions of topics" in done.stdout
    assert "ssl.keystore.location" not in done.stdout  # it has no effect
