from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.base.config import (
    boolean,
    check,
    choice,
    integer,
    keys,
    listing,
    markdown,
    number,
    parse,
    path,
    plain,
    text,
)
from ottla.base.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    # fmt: off
    home: Path = path("home.dir", doc="Where it lives.")
    count: int = integer("count", 3, at_least=1, at_most=9, aliases=("legacy.count",), doc="How many.")
    size: int = integer("size", -1, at_least=0, wide=True, shown_default="as large as needed", doc="How large.")
    plain_int: int = integer("plain.int", 0, doc="Any int.")
    most: int = integer("most", 0, at_most=5, doc="Few.")
    share: float = number("share", 0.5, at_least=0, at_most=1, doc="Which part.", dynamic=True)
    open: bool = boolean("open", default=False, doc="Whether.")
    serves: bool = boolean("serves", default=True, yes_no=True, doc="Whether, in words.")
    name: str = text("name", doc="What it is called.")
    password: str = text("password", secret=True, doc="What nobody may see.")
    colors: tuple[str, ...] = listing("colors", ("red",), choices=("red", "green"), doc="Which colors.")
    words: tuple[str, ...] = listing("words", doc="Any words.")
    mode: str = choice("mode", "fast", "safe", default="safe", doc="How.")
    # fmt: on

    def __post_init__(self) -> None:
        check(self)


def sample(**properties: str) -> Sample:
    return Sample(**parse(Sample, {"home.dir": "/x", **properties}).values)


def test_everything_has_its_default() -> None:
    assert sample() == Sample(home=Path("/x"))


def test_text_becomes_values() -> None:
    properties = {
        "home.dir": " /var/lib ",
        "count": "9",
        "size": str(2**40),
        "share": "0.25",
        "open": "TRUE",
        "serves": "no",
        "name": "a, b",
        "colors": "green, red,",
        "words": "",
        "mode": "Fast",
    }
    assert Sample(**parse(Sample, properties).values) == Sample(
        home=Path("/var/lib"),
        count=9,
        size=2**40,
        share=0.25,
        open=True,
        serves=False,
        name="a, b",
        colors=("green", "red"),
        words=(),
        mode="fast",
    )


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("count", "0", "a whole number from 1 to 9"),
        ("count", "10", "a whole number from 1 to 9"),
        ("count", "many", "a whole number from 1 to 9"),
        ("count", "", "a whole number from 1 to 9"),
        ("count", "1_0", "a whole number from 1 to 9"),
        ("size", "-2", "a whole number of at least 0"),
        ("most", "6", "a whole number of at most 5"),
        ("plain.int", str(2**31), "a whole number"),
        ("share", "nan", "a number from 0 to 1"),
        ("open", "1", "true or false"),
        ("serves", "maybe", "yes or no"),
        ("colors", "blue", "a comma-separated list of red, green"),
        ("mode", "slow", "one of fast, safe"),
        ("home.dir", "", "a path"),
    ],
)
def test_an_error_names_key_value_and_what_is_allowed(key: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sample(**{key: value})
    assert str(caught.value) == f"{key}={value}: must be {allowed}"


def test_the_default_may_lie_outside_the_bounds_and_be_given() -> None:
    assert sample(size="-1").size == -1


def test_a_missing_required_key_says_what_it_is_for() -> None:
    with pytest.raises(ConfigError, match=r"^home.dir is not set: must be a path. Where it lives.$"):
        parse(Sample, {})


def test_values_from_python_are_held_to_the_same_bounds() -> None:
    with pytest.raises(ConfigError, match="count=12: must be a whole number from 1 to 9"):
        Sample(home=Path("/x"), count=12)


def test_a_whole_number_may_be_hexadecimal_as_java_allows() -> None:
    assert sample(size="0xFFFFF").size == 0xFFFFF
    with pytest.raises(ConfigError):
        sample(size="FFFFF")


def test_an_alias_is_the_same_setting() -> None:
    assert sample(**{"legacy.count": "5"}).count == 5
    assert sample(**{"legacy.count": "5", "count": "5"}).count == 5
    with pytest.raises(ConfigError, match=r"count and legacy\.count: one setting under two names"):
        sample(**{"legacy.count": "5", "count": "6"})


def test_unknown_keys_are_handed_back() -> None:
    assert parse(Sample, {"home.dir": "/x", "what": "?"}).unknown == {"what": "?"}


def test_a_secret_is_never_shown() -> None:
    key = dict(keys(Sample))["password"]
    assert "hunter2" not in str(key.error("hunter2"))
    assert "hunter2" not in repr(sample(password="hunter2"))


def test_the_same_declarations_make_the_documentation() -> None:
    rows = markdown(Sample).splitlines()
    assert rows[2] == "| `home.dir` | path | required | a path | Where it lives. |"
    assert rows[3] == "| `count`, `legacy.count` | int | 3 | a whole number from 1 to 9 | How many. |"
    assert "| as large as needed |" in rows[4]
    assert rows[7].endswith("Which part. May be changed while running. |")
    assert "| boolean | yes | yes or no |" in rows[9]
    assert len(rows) == 2 + len(list(keys(Sample)))
    assert "count=3   (a whole number from 1 to 9)\n    How many.\n" in plain(Sample)
