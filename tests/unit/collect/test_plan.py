"""What a file of sources may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import ConfigError
from ottla.collect.plan import Address, Plan, load_plans, parse_plans
from ottla.collect.sources import of_topic


def test_every_source_has_its_topic_and_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text("""
        [[source]]
        topic = "logs"
        files = ["*.log", "/var/log/messages"]
        from = "end"
        compressed = true
        format = "json"
        line_bytes = 1000

        [[source]]
        topic = "clicks"
        http = "8080"
        cors_origins = ["https://shop.example"]
        body_bytes = 2000
        key = "visitor.id"
        syslog_udp = "[::1]:514"
    """)
    logs, clicks = load_plans(file)
    assert logs == Plan(
        "logs",
        files=(f"{tmp_path}/*.log", "/var/log/messages"),
        from_end=True,
        compressed=True,
        is_enveloped=True,
        line_bytes=1000,
    )
    assert clicks == Plan(
        "clicks",
        ports={"syslog-udp": Address("::1", 514), "http": Address("127.0.0.1", 8080)},
        origins=("https://shop.example",),
        key=("visitor", "id"),
        body_bytes=2000,
    )


FILES = {"topic": "a", "files": ["x"]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no [[source]]"),
        ({"source": {"topic": "a"}}, "source: {'topic': 'a'} has to be a list"),
        ({"source": [{"files": ["x"]}]}, "source[1].topic"),
        ({"source": [{"topic": "a"}]}, "a has no files"),
        ({"source": [FILES, {**FILES, "http": "web"}]}, "source[2].http: 'web' is not of the form"),
        ({"source": [FILES, FILES]}, "two sources have files for a"),
        ({"source": [{"topic": "a", "stdin": True}, {"topic": "b", "stdin": True}]}, "of which there is one"),
        ({"source": [{**FILES, "format": "xml"}]}, "source[1].format: xml; give raw or json"),
        ({"source": [{**FILES, "line_bytes": 1}]}, "source[1].line_bytes: 1 is less than 64"),
        ({"source": [{**FILES, "line_bytes": 1 << 40}]}, "is more than"),
        ({"source": [{**FILES, "compressed": "yes"}]}, "has to be true or false"),
        ({"source": [{**FILES, "file": "y"}]}, "there is no setting source[1].file"),
        ({"source": [FILES], "spool": "x"}, "there is no setting spool"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as told:
        parse_plans(given, base=tmp_path)
    assert message in str(told.value)


def test_two_topics_may_be_at_different_places_in_the_same_file() -> None:
    positions = {"a 1:2": {"offset": 5}, "b 1:2": {"offset": 9}, "ab 1:3": {"offset": 1}}
    assert of_topic(positions, "a") == {"1:2": {"offset": 5}}
    assert of_topic(positions, "b") == {"1:2": {"offset": 9}}
