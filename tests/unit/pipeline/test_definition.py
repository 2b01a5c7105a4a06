"""What a definition may say; nothing of Spark is started."""

from __future__ import annotations

import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import Error
from ottla.cli.pipelinedemo import DEFINITION, sparkline
from ottla.pipeline.definition import load_definition, parse_definition
from ottla.pipeline.tables import TABLES

SOURCE = {"source": {"topics": ["views", "clicks"]}}


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text('[source]\ntopics = ["views"]\n')
    found = load_definition(path)
    assert (found.name, found.directory, found.starting) == ("shop", tmp_path / "shop-data", "earliest")
    assert found.tables == tuple(TABLES.values())
    assert found.rules.late == timedelta(hours=2)


def test_everything_can_be_said(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "name": "x",
        "directory": "/srv/x",
        "source": {
            "topics": ["a"],
            "bootstrap": "h:1",
            "starting": "-10m",
            "options": {"maxOffsetsPerTrigger": 5, "failOnDataLoss": False},
        },
        "clean": {
            "late": "90s",
            "future": "1m",
            "robots": "x",
            "salt": "s",
            "dead_letter_topic": "x.dead",
            "masks": {"ip": "keep"},
        },
        "serve": {"trigger": "500ms", "compact_files": 3, "keep": "1d"},
        "spark": {"spark.executor.memory": "2g"},
        "tables": {
            "sessions": {"gap": "10 minutes", "topic": "x.sessions"},
            "funnel": {"steps": [{"name": "one", "where": "kind = 'view'"}]},
            "mine": {"function": "ottla.pipeline.aggregate:pages", "time": "minute", "key": ["minute", "page"]},
        },
    }
    found = parse_definition(given, base=tmp_path, name="y")
    assert (found.name, found.directory, found.bootstrap, found.starting) == ("x", Path("/srv/x"), "h:1", "-10m")
    assert found.source == {"maxOffsetsPerTrigger": "5", "failOnDataLoss": "false"}
    assert found.dead_letter_topic == "x.dead"
    assert (found.rules.late, found.rules.masks["ip"]) == (timedelta(seconds=90), "keep")
    assert (found.serving.trigger, found.serving.keep) == (timedelta(milliseconds=500), timedelta(days=1))
    sessions, funnel, mine = found.tables
    assert (sessions.topic, sessions.options["gap"]) == ("x.sessions", "10 minutes")
    assert funnel.options["steps"] == (("one", "kind = 'view'"),)
    assert (mine.name, mine.key) == ("mine", ("minute", "page"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "source.topics: give the topics"),
        ({"source": {"topics": ["a"], "topic": "b"}}, "there is no setting source.topic"),
        ({**SOURCE, "clan": {}}, "there is no setting clan"),
        ({**SOURCE, "clean": {"late": "soon"}}, "clean.late: soon is no time"),
        ({**SOURCE, "clean": {"late": 5}}, "clean.late: 5 has to be text"),
        ({**SOURCE, "clean": {"masks": {"ip": "blur"}}}, "clean.masks.ip: blur"),
        ({**SOURCE, "serve": {"compact_files": 1}}, "serve.compact_files: 1 is less than 2"),
        ({**SOURCE, "tables": {"what": {}}}, "tables.what: give a function, or one of pages"),
        ({**SOURCE, "tables": {"pages": {"color": "red"}}}, "there is no setting tables.pages.color"),
        ({**SOURCE, "tables": {"sessions": {"gap": "long"}}}, "tables.sessions.gap: long is no time"),
        ({**SOURCE, "tables": {"searches": {"top": "ten"}}}, "tables.searches.top"),
        ({**SOURCE, "tables": {"mine": {"function": "nowhere:f", "key": ["a"]}}}, "No module named 'nowhere'"),
        ({**SOURCE, "tables": {"events": {"function": "a:b", "key": ["a"]}}}, "is not taken"),
        ({"source": {"topics": ["a"], "options": {"subscribe": "b"}}}, "source.options.subscribe"),
        ({"source": {"topics": ["a"]}, "clean": {"dead_letter_topic": "a"}}, "clean.dead_letter_topic"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(Error, match=message.replace(".", r"\.")):
        parse_definition(given, base=tmp_path, name="shop")


def test_the_definition_in_the_docs_can_be_meant() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "pipeline.md").read_text()
    [given] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    found = parse_definition(tomllib.loads(given), base=Path(), name="shop")
    assert [table.name for table in found.tables] == list(TABLES)


def test_the_definition_of_the_demonstration_can_be_meant() -> None:
    given = DEFINITION.format(topics='"a"', prefix="shop.")
    found = parse_definition(tomllib.loads(given), base=Path(), name="shop")
    assert [table.name for table in found.tables] == list(TABLES)
    assert found.tables[0].topic == "shop.pages"


def test_a_line_of_sparks_is_as_high_as_its_values() -> None:
    assert sparkline([0, 1, 4, 8]) == " ▁▄█"
    assert sparkline([]) == ""
