from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ottla
from ottla.records.record import Record, build_batch
from ottla.scan.errors import OptionError
from ottla.scan.formats.opening import open_format
from ottla.sql.opening import parse_values

NOWHERE = "127.0.0.1:1"


def test_what_values_are_is_said_by_a_format_and_its_options() -> None:
    assert parse_values("json") == ("json", {})
    assert parse_values("csv,valueDelimiter=|,valueHeader=a|b") == (
        "csv",
        {"valueDelimiter": "|", "valueHeader": "a|b"},
    )
    for text in ("", ",a=1", "csv,|"):
        with pytest.raises(OptionError, match="NAME=VALUE"):
            parse_values(text)


def test_columns_can_be_given_instead_of_inferred() -> None:
    form = open_format("json", None, {"valueColumns": "page string; ms INT, at timestamp"})
    assert form is not None
    assert form.schema.names == ["page", "ms", "at"]
    values = pa.array([b'{"page": "/", "ms": 3, "at": "2026-01-31T10:00:00Z"}', b'{"ms": "many"}'], pa.binary())
    columns, malformed = form.decode(values, ["page", "ms"])
    assert pa.table(columns).to_pylist() == [{"page": "/", "ms": 3}, {"page": None, "ms": None}]
    assert malformed is not None
    assert malformed.to_pylist() == [False, True]
    for text in ("", "page", "page text", "page string ms int"):
        with pytest.raises(OptionError, match="valueColumns"):
            open_format("csv", None, {"valueColumns": text})


def test_tables_of_a_pipeline_are_asked_from_python_without_a_cluster(tmp_path: Path) -> None:
    part = Path("pages", "000000000", "date=2026-01-31", "hour=09", "part.parquet")
    (tmp_path / part).parent.mkdir(parents=True)
    pq.write_table(pa.table({"page": ["/", "/cart"], "views": [2, 1]}), tmp_path / part)
    named = {"version": 1, "tables": {"pages": [{"path": str(part), "hour": "2026-01-31T09"}]}}
    (tmp_path / "manifest.json").write_text(json.dumps(named))
    found = ottla.query("select hour, sum(views) n from pages group by 1", tables=[tmp_path], bootstrap=NOWHERE)
    assert found.rows() == [{"hour": "09", "n": 3}]


def test_files_of_brokers_are_asked_from_python_without_a_cluster(tmp_path: Path) -> None:
    folder = tmp_path / "clicks-0"
    folder.mkdir()
    records = [Record(None, b'{"page": "/", "ms": %d}' % number, 0) for number in range(3)]
    (folder / f"{0:020d}.log").write_bytes(build_batch(records))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nclicks 0 3\n")
    found = ottla.query("select page, max(ms) ms from clicks group by 1", log_dirs=[tmp_path], bootstrap=NOWHERE)
    assert found.rows() == [{"page": "/", "ms": 2}]
    values = {"clicks": "json,valueColumns=ms double"}
    found = ottla.query(
        "select ms from clicks where _offset = 1", log_dirs=[tmp_path], values=values, bootstrap=NOWHERE
    )
    assert repr(found.rows()) == "[{'ms': 1.0}]"
