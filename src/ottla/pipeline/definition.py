"""A pipeline as one file of TOML says it: what is read, what counts, what is made of it and where it goes.

Everything is checked before Spark starts; what is not known is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ottla.base.errors import ConfigError
from ottla.base.toml import Section, load_toml
from ottla.pipeline import masks
from ottla.pipeline.clean import Rules
from ottla.pipeline.tables import TABLES, Table, foreign_table


@dataclass(frozen=True, slots=True)
class Serving:
    trigger: timedelta = timedelta(seconds=5)
    """How long from one batch of a stream to the next, at least."""
    compact_files: int = 8
    """As many small files of one hour become one."""
    keep: timedelta = timedelta(minutes=10)
    """How long replaced files stay, for those who still read them."""


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    directory: Path
    topics: tuple[str, ...]
    bootstrap: str | None = None
    starting: str = "earliest"
    source: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's source, ``kafka.*`` among them."""
    rules: Rules = field(default_factory=Rules)
    dead_letter_topic: str | None = None
    """Where what cannot be used goes, beside its table."""
    tables: tuple[Table, ...] = tuple(TABLES.values())
    serving: Serving = field(default_factory=Serving)
    spark: Mapping[str, str] = field(default_factory=dict)


def load_definition(path: Path) -> Definition:
    """A relative directory is meant from where the file is."""
    return parse_definition(load_toml(path), base=path.parent, name=path.stem)


def parse_definition(given: Mapping[str, Any], *, base: Path, name: str) -> Definition:
    top = Section("", given)
    source = top.section("source")
    clean = top.section("clean")
    serve = top.section("serve")
    options = source.texts("options")
    for taken in ("subscribe", "subscribePattern", "assign", "valueFormat", "startingOffsets", "deadLetterTopic"):
        if taken.lower() in (option.lower() for option in options):
            raise ConfigError(
                f"source.options.{taken}: the pipeline says that itself; give topics, starting and dead_letter_topic"
            )
    made = Definition(
        name=top.text("name", name),
        directory=base / top.text("directory", f"{name}-data"),
        topics=source.names("topics"),
        bootstrap=source.text("bootstrap", "") or None,
        starting=source.text("starting", "earliest"),
        source=options,
        dead_letter_topic=clean.text("dead_letter_topic", "") or None,
        rules=_rules(clean),
        tables=_tables(top.section("tables")),
        serving=Serving(
            trigger=serve.duration("trigger", Serving().trigger),
            compact_files=serve.number("compact_files", Serving().compact_files, least=2),
            keep=serve.duration("keep", Serving().keep),
        ),
        spark=top.texts("spark"),
    )
    for section in (source, serve, top):
        section.done()
    if not made.topics:
        raise ConfigError("source.topics: give the topics to read")
    if made.dead_letter_topic in made.topics:
        raise ConfigError(f"clean.dead_letter_topic: {made.dead_letter_topic} is read, too; give another topic")
    return made


def _rules(given: Section) -> Rules:
    default = Rules()
    chosen = {**default.masks, **given.texts("masks")}
    for name, way in chosen.items():
        if way not in (*masks.WAYS, masks.DROP, "keep"):
            raise ConfigError(f"clean.masks.{name}: {way}; give {', '.join(masks.WAYS)}, drop or keep")
    robots = given.text("robots", default.robots)
    rules = replace(
        default,
        late=given.duration("late", default.late),
        future=given.duration("future", default.future),
        robots=robots,
        masks=chosen,
        salt=given.text("salt", ""),
    )
    given.done()
    return rules


def _tables(given: Section) -> tuple[Table, ...]:
    if not given.left:
        return tuple(TABLES.values())
    made = []
    for name in list(given.left):
        about = given.section(name)
        topic = about.text("topic", "") or None
        function = about.text("function", "")
        if function:
            table = foreign_table(name, function, time=about.text("time", "minute"), key=about.names("key"))
        elif name in TABLES:
            table = TABLES[name].configured(about.left)
            for option in table.options:
                about.left.pop(option, None)
        else:
            raise ConfigError(f"tables.{name}: give a function, or one of {', '.join(TABLES)}")
        about.done()
        made.append(replace(table, topic=topic))
    return tuple(made)
