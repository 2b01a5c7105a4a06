from __future__ import annotations

from pathlib import Path

import pytest

from ottla.records.record import Record, build_batch
from ottla.scan.files import LogFiles
from ottla.sql.engine import Engine, QueryError, Values
from ottla.sql.filesource import FilesSource
from ottla.sql.following import follow


def engine(folder: Path, formats: dict[str, Values] | None = None, **topics: list[bytes]) -> Engine:
    """Over the files of a broker."""
    checkpoint = [f"{topic} 0 {len(values)}" for topic, values in topics.items()]
    for topic, values in topics.items():
        partition = folder / f"{topic}-0"
        partition.mkdir()
        batch = build_batch([Record(None, value, 0) for value in values]) if values else b""
        (partition / f"{0:020d}.log").write_bytes(batch)
    (folder / "replication-offset-checkpoint").write_text("\n".join(["0", str(len(topics)), *checkpoint, ""]))
    return Engine(FilesSource(LogFiles([folder])), formats)


def rows(made: Engine, text: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = made.query(text).read_all().to_pylist()
    return found


def test_a_field_never_has_the_value_of_one_that_differs_in_case(tmp_path: Path) -> None:
    with engine(tmp_path, clicks=[b'{"i":1,"I":7.5,"_KEY":"x","n":2}']) as made:
        assert rows(made, "select i, n, _value from clicks") == [
            {"i": 1, "n": 2, "_value": '{"i":1,"I":7.5,"_KEY":"x","n":2}'}
        ]
        assert rows(made, "select _KEY k from clicks") == [{"k": None}]
        [names] = rows(made, "select * from clicks")
        assert [name for name in names if not name.startswith("_")] == ["i", "n"]


def test_a_field_without_a_name_costs_no_other(tmp_path: Path) -> None:
    with engine(tmp_path, clicks=[b'{"":1,"a":2,"b\\u0000":3}']) as made:
        assert rows(made, "select a, _corrupt from clicks") == [{"a": 2, "_corrupt": None}]


def test_topics_whose_names_differ_in_case_are_told_apart_by_an_error(tmp_path: Path) -> None:
    with (
        engine(tmp_path, clicks=[b'{"a":1}'], Clicks=[b'{"a":2}']) as made,
        pytest.raises(QueryError, match="cannot be made a table"),
    ):
        made.query("select * from clicks, Clicks")


def test_topics_are_listed_as_tables(tmp_path: Path) -> None:
    with engine(tmp_path, users=[b"{}"], clicks=[b"{}"]) as made:
        assert rows(made, "SHOW TABLES;") == [{"name": "clicks"}, {"name": "users"}]


def test_values_are_said_of_topics_in_the_query_alone(tmp_path: Path) -> None:
    with (
        engine(tmp_path, {"users": Values("json", {})}, clicks=[b'{"a":1}'], users=[b"{}"]) as made,
        pytest.raises(QueryError, match="values of users"),
    ):
        made.query("select a from clicks")


def test_an_empty_topic_asks_for_its_columns(tmp_path: Path) -> None:
    with engine(tmp_path, clicks=[], users=[b'{"id":1}']) as made:
        with pytest.raises(QueryError, match="--values 'clicks=json,valueColumns="):
            made.query("select page from clicks")
        with pytest.raises(QueryError, match="--values 'clicks=json,valueColumns="):
            next(follow(made, "select page from clicks", interval_s=1))


def test_a_column_that_is_missing_where_there_are_records_is_just_that(tmp_path: Path) -> None:
    with (
        engine(tmp_path, users=[b'{"id":1}']) as made,
        pytest.raises(QueryError, match="page") as refused,
    ):
        made.query("select page from users")
    assert "--values" not in str(refused.value)
