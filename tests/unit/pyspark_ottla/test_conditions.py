from __future__ import annotations

import sys

import pytest
from pyspark.sql.datasource import DataSourceReader

from ottla.scan.columns import EVERYTHING, Filter
from ottla.scan.errors import OptionError
from pyspark_ottla.batch import PUSHING_WORKER, may_push
from pyspark_ottla.conditions import parse_where
from pyspark_ottla.options import parse_read_options

GIVEN = {"kafka.bootstrap.servers": "here:1", "subscribe": "a"}


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        (None, EVERYTHING),
        ("offset >= 5 AND offset < 9", Filter(first_offset=5, end_offset=9)),
        ("_offset between 5 and 8", Filter(first_offset=5, end_offset=9)),
        ("partition in (0, 2)", Filter(partitions=frozenset((0, 2)))),
        ("topic = 'it''s'", Filter(topics=frozenset(("it's",)))),
        ("key = 'user 7'", Filter(keys=(b"user 7",))),
        ("timestamp > 1700000000000", Filter(timestamp_from=1_700_000_000_001)),
        (
            "timestamp >= '2023-11-14T22:13:20Z' and timestamp <= '2023-11-14T22:13:20.0005'",
            Filter(timestamp_from=1_700_000_000_000, timestamp_until=1_700_000_000_001),
        ),
    ],
)
def test_conditions_become_what_passes(text: str | None, passing: Filter) -> None:
    assert parse_where(text) == passing


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("value = 'x'", "there is no value"),
        ("offset = 'x'", "another kind"),
        ("topic > 'x'", "another kind"),
        ("offset like 5", "like is no relation"),
        ("offset = 5 or offset = 6", "or where and should be"),
        ("offset =", "ends too soon"),
        ("partition in (1", "ends too soon"),
        ("partition in (1 2)", r"2 where , or \) should be"),
        ("timestamp > 'noon'", "noon"),
        ("offset = five", "five"),
        ("offset ; 5", "what is ';"),
    ],
)
def test_what_is_no_condition_is_told(text: str, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        parse_where(text)


def test_conditions_of_queries_are_pushed_unasked_only_where_spark_keeps_them_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unasked = parse_read_options(GIVEN, streaming=False)
    monkeypatch.setitem(sys.modules, PUSHING_WORKER, sys)
    monkeypatch.delattr(DataSourceReader, "pushLimit", raising=False)
    assert not may_push(unasked)
    assert may_push(parse_read_options({**GIVEN, "pushFilters": "true"}, streaming=False))
    monkeypatch.setattr(DataSourceReader, "pushLimit", None, raising=False)
    assert may_push(unasked)
    assert not may_push(parse_read_options({**GIVEN, "pushFilters": "false"}, streaming=False))
    monkeypatch.delitem(sys.modules, PUSHING_WORKER)
    assert not may_push(unasked)


def test_files_alone_are_enough_for_a_read_that_ends() -> None:
    given = {"subscribe": "a", "readMode": "files", "logDirs": "/one,/two"}
    found = parse_read_options(given, streaming=False)
    assert found.is_offline
    assert found.log_dirs == ("/one", "/two")
    with pytest.raises(OptionError, match="servers is missing"):
        parse_read_options(given, streaming=True)
    with pytest.raises(OptionError, match="servers is missing"):
        parse_read_options({**given, "readMode": "auto"}, streaming=False)
