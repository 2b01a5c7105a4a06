"""The tables that a pipeline makes of clean events: which function, which time its rows belong to, what tells rows apart.

A table is computed hour by hour, or where its rows reach over hours day by day, and always from all events of that time. What an
event changes is the row of its own hour, or for some tables of hours before (``back``): a click changes what is said of the ad
when it was shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.base.errors import Error
from ottla.pipeline.aggregate import STEPS
from ottla.pipeline.store import days_of, hours_around

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS = "events"
DEAD_LETTERS = "dead_letters"


class TableError(Error):
    """A table that cannot be made as it is asked for."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    function: str
    """As ``package.module:function``, which takes events and ``options``."""
    time: str
    key: tuple[str, ...]
    by_day: bool = False
    back: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    """What the function may be told, with the defaults."""
    topic: str | None = None

    def make(self, events: DataFrame) -> DataFrame:
        made: DataFrame = _function(self.function)(events, **self.options)
        return made

    def changed_by(self, hours: Iterable[str]) -> set[str]:
        """The hours to be computed again when there are new events in ``hours``."""
        return days_of(hours) if self.by_day else hours_around(hours, back=self.back)

    def made_from(self, hours: Iterable[str]) -> set[str]:
        """The hours whose events are needed for that."""
        return set(hours) if self.by_day else hours_around(hours, ahead=self.back)

    def configured(self, given: Mapping[str, Any]) -> Table:
        chosen = dict(self.options)
        for name, default in self.options.items():
            if name not in given:
                continue
            value = given[name]
            if name == "steps":
                chosen[name] = _steps(self.name, value)
            elif isinstance(value, bool) or not isinstance(value, type(default)):
                raise TableError(f"tables.{self.name}.{name}: {value!r} has to be like {default!r}")
            elif name == "gap" and not re.fullmatch(r"\d+ (second|minute|hour)s?", str(value)):
                raise TableError(f"tables.{self.name}.{name}: {value} is no time; give 30 minutes")
            else:
                chosen[name] = value
        return replace(self, options=chosen)


def foreign_table(name: str, function: str, *, time: str, key: tuple[str, ...]) -> Table:
    """A table by somebody else's function of data frames. Its rows are of the hour of the events they come from."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in (EVENTS, DEAD_LETTERS):
        raise TableError(f"tables.{name}: a table's name has small letters, digits and _ in it, and is not taken")
    if not key:
        raise TableError(f"tables.{name}.key: name the columns that tell its rows apart")
    _function(function)
    return Table(name, function, time, key)


def _function(name: str) -> Callable[..., DataFrame]:
    module, colon, function = name.partition(":")
    if not colon:
        raise TableError(f"{name}: give package.module:function")
    try:
        found: Callable[..., DataFrame] = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise TableError(f"{name}: {error}") from None
    return found


def _steps(table: str, given: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, list) or not given:
        raise TableError(f"tables.{table}.steps: give a list of {{name = ..., where = ...}}")
    steps = []
    for one in given:
        if not isinstance(one, dict) or set(one) != {"name", "where"}:
            raise TableError(f"tables.{table}.steps: {one!r} has to be {{name = ..., where = ...}}")
        steps.append((str(one["name"]), str(one["where"])))
    return tuple(steps)


_OURS = "ottla.pipeline.aggregate"
_GAP = "30 minutes"
TABLES = {
    table.name: table
    for table in (
        Table("pages", f"{_OURS}:pages", "minute", ("minute", "page")),
        Table("sessions", f"{_OURS}:sessions", "begin", ("visitor", "begin"), by_day=True, options={"gap": _GAP}),
        Table(
            "funnel",
            f"{_OURS}:funnel",
            "since",
            ("since", "step"),
            by_day=True,
            options={"gap": _GAP, "steps": STEPS},
        ),
        Table("ads", f"{_OURS}:ads", "minute", ("minute", "ad"), back=1),
        Table("searches", f"{_OURS}:searches", "since", ("since", "keyword"), options={"top": 10}),
        Table("services", f"{_OURS}:services", "minute", ("minute", "service")),
    )
}
