"""``ottla export`` and ``ottla import``: what goes out comes in again, and nothing is lost when they are broken off."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

import ottla
from ottla.cli.app import app
from tests.compat.clients.cluster import KINDS, Cluster

OURS, APACHES = KINDS
BOTH = [pytest.param(OURS, id="ottla"), pytest.param(APACHES, marks=pytest.mark.long, id="apache")]
KEPT = {"retention.ms": "-1"}  # the records of these tests are old


@pytest.fixture
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], Cluster]) -> Cluster:
    return clusters(request.param)


def run(cluster: Cluster, folder: Path, *arguments: str) -> Result:
    """A command, in this process."""
    with chdir(folder):
        return CliRunner().invoke(app, list(arguments), env={"OTTLA_BOOTSTRAP": cluster.bootstrap})


def produce(cluster: Cluster, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in numbers:
        producer.produce(
            topic,
            None if number % 7 == 0 else json.dumps({"number": number}),
            key=b"\xff%d" % number if number % 2 else None,
            partition=number % 2,
            timestamp=1_700_000_000_000 + number,
            headers=[("h", b"\xfe"), ("n", None)] if number % 3 == 0 else None,
        )
    assert producer.flush(120) == 0


def content(cluster: Cluster, topic: str) -> list[dict[str, object]]:
    columns = "_key, _value, _timestamp, _headers, _partition"
    text = f'select {columns} from "{topic}" order by _partition, _offset'
    return ottla.query(text, bootstrap=cluster.bootstrap).rows()


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_what_cannot_be_sent_or_noted_is_not_begun(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("id,name\n1,ann\n")
    refused = run(cluster, tmp_path, "import", topic, "users.csv")
    assert (refused.exit_code, f"no topic is called {topic}; " in refused.output) == (3, True)
    cluster.create(topic)
    refused = run(cluster, tmp_path, "import", topic, "users.csv", "--state", "/proc/state")
    assert (refused.exit_code, "/proc/state" in refused.output) == (1, True)
    refused = run(cluster, tmp_path, "import", topic, "users.csv", "--key", "nocol")
    assert (refused.exit_code, "there is no column nocol for the key, but id, name" in refused.output) == (1, True)
    assert content(cluster, topic) == []
    refused = run(cluster, tmp_path, "export", "nowhere", "files")
    assert (refused.exit_code, "no topic is called nowhere; " in refused.output) == (3, True)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_what_goes_out_comes_in_again(cluster: Cluster, topic: str, tmp_path: Path, form: str) -> None:
    copy = f"{topic}.copy"
    for name in (topic, copy):
        cluster.create(name, partitions=2, config=KEPT)
    produce(cluster, topic, range(100))
    export = ("export", topic, "out", "-f", form, "--file-records", "20")
    assert run(cluster, tmp_path, *export).stdout == "100 records in 6 files\n"
    # Called again it goes on behind what is there, with a file that was broken off out of the way.
    produce(cluster, topic, range(100, 110))
    (tmp_path / "out" / f"{topic}-0-broken.{form}.tmp").touch()
    assert run(cluster, tmp_path, *export).stdout == "10 records in 2 files\n"
    files = sorted(str(path) for path in (tmp_path / "out").glob(f"*.{form}"))
    done = run(cluster, tmp_path, "import", copy, *files, "--keep-partitions")
    assert (done.exit_code, done.stdout) == (0, "110 records from 8 files\n"), done.stderr
    assert content(cluster, copy) == content(cluster, topic)
    assert run(cluster, tmp_path, "import", copy, *files).stdout == "0 records from 8 files\n"


@pytest.mark.parametrize("cluster", [pytest.param(OURS, id="ottla")], indirect=True)
def test_an_import_goes_on_where_it_was_broken_off(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.create(topic, config=KEPT)
    first, second = (tmp_path / f"{name}.jsonl" for name in ("first", "second"))
    first.write_text('{"a": 1}\n{"a": 2}\n')
    second.write_text("broken\n")
    done = run(cluster, tmp_path, "import", topic, "first.jsonl", "second.jsonl")
    assert done.exit_code == 1
    assert "second.jsonl: line 1" in done.stderr
    second.write_text('{"a": 3}\n')
    first.write_text('{"a": 1}\n{"a": 2}\n{"a": 4}\n')
    assert run(cluster, tmp_path, "import", topic, "first.jsonl", "second.jsonl").stdout == "2 records from 2 files\n"
    assert [row["_value"] for row in content(cluster, topic)] == [f'{{"a":{number}}}' for number in (1, 2, 4, 3)]


@pytest.mark.parametrize("cluster", [pytest.param(OURS, id="ottla")], indirect=True)
def test_rows_become_objects_and_objects_become_columns(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.create(topic, config=KEPT)
    table = pa.table({"id": [1, 2], "name": ["a", None], "tags": [["x"], []]})
    pa.parquet.write_table(table, tmp_path / "users.parquet")
    (tmp_path / "users.csv").write_text("id,name\n3,c\n")
    assert run(cluster, tmp_path, "import", topic, "users.parquet", "users.csv", "--key", "id").exit_code == 0
    text = f'select id, name, _key from "{topic}" order by 1'
    assert ottla.query(text, bootstrap=cluster.bootstrap).rows() == [
        {"id": 1, "name": "a", "_key": "1"},
        {"id": 2, "name": None, "_key": "2"},
        {"id": 3, "name": "c", "_key": "3"},
    ]
    assert run(cluster, tmp_path, "export", topic, "typed", "--typed").exit_code == 0
    [file] = (tmp_path / "typed").glob("*.parquet")
    assert pa.parquet.read_table(file).column("name").to_pylist() == ["a", None, "c"]
    assert run(cluster, tmp_path, "export", topic, "csv", "--format", "csv", "--typed").exit_code == 0
    [lines] = (tmp_path / "csv").glob("*.csv")
    assert lines.read_text().startswith("id,name,tags,_key,")
