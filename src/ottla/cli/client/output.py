"""One list of rows, in the form that was asked for.

A row is a dict that JSON can hold; it is the documented shape (docs/cli.md). A table shows some of its fields. Data goes to
stdout, everything said about it to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

SHAPE_VERSION = 1
"""Of the JSON and YAML documents. It grows when a field goes or changes its meaning, not when one is added."""
FORMATS = ("table", "wide", "json", "yaml", "jsonl")

F = TypeVar("F", bound=Callable[..., Any])
Row = Mapping[str, object]


class Output(NamedTuple):
    """How a command was asked to tell what it found."""

    form: str = "table"
    quiet: bool = False

    def note(self, text: str) -> None:
        """Something about the data, for people."""
        if not self.quiet:
            click.echo(text, err=True)


class Column(NamedTuple):
    title: str
    text: Callable[[Row], object]
    wide: bool = False


def field(title: str, name: str, *, wide: bool = False) -> Column:
    return Column(title, lambda row: row[name], wide)


def options(function: F) -> F:
    """``--format``, ``--json`` and ``--quiet``, which arrive as ``form``, ``as_json`` and ``quiet``."""
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="No header and no remarks."),
        click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
        click.option("--format", "form", type=click.Choice(FORMATS), default="table", help="How to print."),
    ):
        function = option(function)
    return function


def show(output: Output, name: str, rows: Sequence[Row], columns: Sequence[Column]) -> None:
    """Print ``rows``, which JSON calls ``name``."""
    match output.form:
        case "json":
            click.echo(json.dumps({"version": SHAPE_VERSION, name: rows}, indent=1, ensure_ascii=False))
        case "yaml":
            click.echo("\n".join(yaml_lines({"version": SHAPE_VERSION, name: rows})))
        case "jsonl":
            for row in rows:
                click.echo(json.dumps(row, ensure_ascii=False))
        case _:
            shown = [column for column in columns if output.form == "wide" or not column.wide]
            for line in table_lines(rows, shown, header=not output.quiet):
                click.echo(line)


class Stream:
    """Rows of several kinds, printed as they come, so that there may be more of them than memory holds.

    JSON and YAML are the same documents that ``show`` prints. A table has a line for each row: its kind and its fields.
    """

    def __init__(self, output: Output, name: str) -> None:
        self._form = output.form
        self._name = name
        self._count = 0

    def row(self, kind: str, indent: int, row: Row, *, wide: Row | None = None) -> None:
        """One row. ``wide`` has fields that a table only shows if it is to be wide."""
        document = {"type": kind, **row, **(wide or {})}
        match self._form:
            case "json":
                start = (
                    ",\n  " if self._count else f'{{\n "version": {SHAPE_VERSION},\n {json.dumps(self._name)}: [\n  '
                )
                click.echo(start + json.dumps(document, ensure_ascii=False), nl=False)
            case "yaml":
                if not self._count:
                    click.echo(f"version: {SHAPE_VERSION}\n{self._name}:")
                click.echo("\n".join(yaml_lines([document], "  ")))
            case "jsonl":
                click.echo(json.dumps(document, ensure_ascii=False))
            case _:
                shown = document if self._form == "wide" else {"type": kind, **row}
                fields = "  ".join(
                    f"{key}={_cell(value)}" for key, value in shown.items() if key != "type" and value is not None
                )
                click.echo(f"{'  ' * indent}{kind}  {fields}")
        self._count += 1

    def end(self) -> None:
        if self._form == "json":
            click.echo("\n ]\n}" if self._count else json.dumps({"version": SHAPE_VERSION, self._name: []}, indent=1))
        elif self._form == "yaml" and not self._count:
            click.echo(f"version: {SHAPE_VERSION}\n{self._name}: []")


def table_lines(rows: Sequence[Row], columns: Sequence[Column], *, header: bool) -> Iterable[str]:
    """Columns as wide as they have to be; numbers stand to the right."""
    return Table(columns, header=header).lines(rows)


class Table:
    """Rows that come in several parts, in columns that stay where the first part put them, unless they have to be wider."""

    def __init__(self, columns: Sequence[Column], *, header: bool) -> None:
        self._columns = columns
        self._titles = [column.title for column in columns] if header else None
        self._widths = [0] * len(columns)
        self._right: list[bool] | None = None

    def lines(self, rows: Sequence[Row]) -> Iterable[str]:
        cells = [[_cell(column.text(row)) for column in self._columns] for row in rows]
        if self._right is None:
            self._right = [
                all(isinstance(column.text(row), int) for row in rows) and bool(rows) for column in self._columns
            ]
        titles, self._titles = self._titles, None
        lines = cells if titles is None else [titles, *cells]
        self._widths = [
            max([width, *(len(line[number]) for line in lines)]) for number, width in enumerate(self._widths)
        ]
        for line in lines:
            padded = [
                cell.rjust(width) if is_right else cell.ljust(width)
                for cell, width, is_right in zip(line, self._widths, self._right, strict=True)
            ]
            text = "  ".join(padded).rstrip()
            yield click.style(text, bold=True) if line is titles and may_color() else text


def may_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def yaml_lines(value: object, indent: str = "") -> Iterable[str]:
    """Block YAML; a scalar is written as JSON writes it, which is YAML as well."""
    if isinstance(value, Mapping) and value:
        for key, found in value.items():
            yield from _yaml_entry(f"{indent}{_yaml_scalar(key)}:", found, indent)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for found in value:
            first, *rest = yaml_lines(found, indent + "  ")
            yield f"{indent}- {first.lstrip(' ')}"
            yield from rest
    else:
        yield indent + _yaml_scalar(value)


def _yaml_entry(start: str, value: object, indent: str) -> Iterable[str]:
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str) and value:
        yield start
        yield from yaml_lines(value, indent + "  ")
    else:
        yield f"{start} {_yaml_scalar(value)}"


def _yaml_scalar(value: object) -> str:
    if isinstance(value, str) and value.isidentifier() and value.isascii() and value.lower() not in _YAML_WORDS:
        return value
    # YAML has no surrogate pairs: what JSON would escape by two is written as itself.
    return json.dumps(value, ensure_ascii=False)


_YAML_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(_cell, value))
        case dict():
            return json.dumps(value, ensure_ascii=False)
    return str(value)
