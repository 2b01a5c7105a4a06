"""``ottla sql`` and ``ottla.query`` on real clusters."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pyarrow.ipc
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

import ottla
from ottla.cli.app import app
from ottla.scan.cluster import Cluster as Scanned
from ottla.scan.settings import parse_settings
from ottla.sql.engine import Engine, QueryError
from ottla.sql.following import follow
from ottla.sql.sources import ClusterSource
from tests.compat.clients.cluster import KINDS, Cluster

OURS, APACHES = KINDS
BOTH = [pytest.param(OURS, id="ottla"), pytest.param(APACHES, marks=pytest.mark.long, id="apache")]
KEPT = {"retention.ms": "-1"}  # the records of these tests are old
START_MS = 1_700_000_000_000


@pytest.fixture
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], Cluster]) -> Cluster:
    return clusters(request.param)


def produce(cluster: Cluster, topic: str, numbers: range, *, partitions: int = 3) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in numbers:
        value = {"number": number, "page": f"/{number % 7}", "seen": "2024-01-01T00:00:00Z", "deep": {"list": [number]}}
        producer.produce(
            topic,
            json.dumps(value),
            key=f"user {number % 5}",
            partition=number % partitions,
            timestamp=START_MS + number * 1000,
        )
    assert producer.flush(120) == 0


def run(cluster: Cluster, *arguments: str) -> Result:
    """The command, in this process: starting one takes longer than most queries."""
    return CliRunner().invoke(app, ["sql", "-b", cluster.bootstrap, *arguments])


def run_apart(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-m", "ottla", "sql", "-b", cluster.bootstrap, *arguments]
    return subprocess.run(command, capture_output=True, check=False, timeout=200)


@pytest.fixture
def clicks(cluster: Cluster, topic: str) -> str:
    cluster.create(topic, partitions=3, config=KEPT)
    produce(cluster, topic, range(1000))
    return topic


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_topics_are_tables_with_typed_columns(cluster: Cluster, clicks: str) -> None:
    def query(text: str) -> list[dict[str, object]]:
        return ottla.query(text.replace("clicks", f'"{clicks}"'), bootstrap=cluster.bootstrap).rows()

    assert query("select count(*) c, sum(number) s, count(distinct _key) k from clicks") == [
        {"c": 1000, "s": sum(range(1000)), "k": 5}
    ]
    assert query("select page, count(*) c from clicks where number % 2 = 0 group by 1 order by 2 desc, 1 limit 2") == [
        {"page": "/0", "c": 72},
        {"page": "/2", "c": 72},
    ]
    assert query("select number from clicks where _partition = 1 and _offset between 10 and 12 order by 1") == [
        {"number": number} for number in (31, 34, 37)
    ]
    recent = f"to_timestamp({START_MS / 1000 + 990})"
    assert query(f"select count(*) c from clicks where _timestamp >= {recent}") == [{"c": 10}]
    assert query("select typeof(seen) t, deep.list[1] d from clicks where number = 7") == [
        {"t": "TIMESTAMP WITH TIME ZONE", "d": 7}
    ]
    joined = "select count(*) c from clicks a join clicks b on a.number = b.number + 1 where a._partition = 0"
    assert query(joined) == [{"c": 333}]
    with pytest.raises(QueryError, match="nowhere"):
        query("select nowhere from clicks")


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_values_that_do_not_fit_are_found_and_nothing_else_is_lost(cluster: Cluster, topic: str) -> None:
    cluster.create(topic, config=KEPT)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(200):
        producer.produce(topic, "broken" if number % 50 == 0 else None if number % 50 == 1 else f'{{"n": {number}}}')
    assert producer.flush(120) == 0
    text = f'select count(*) c, count(n) n, count(_corrupt) bad, count(_value) v from "{topic}"'
    assert ottla.query(text, bootstrap=cluster.bootstrap).rows() == [{"c": 200, "n": 192, "bad": 4, "v": 196}]


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_rows_come_in_every_form(cluster: Cluster, clicks: str, tmp_path: Path) -> None:
    text = f'select number, page from "{clicks}" where number < 3 order by 1'
    expected = [{"number": number, "page": f"/{number}"} for number in range(3)]
    assert run_apart(cluster, text).stdout == b"number  page\n     0  /0\n     1  /1\n     2  /2\n"
    assert json.loads(run(cluster, text, "--json").stdout_bytes) == expected
    assert [json.loads(line) for line in run(cluster, text, "-f", "jsonl").stdout_bytes.splitlines()] == expected
    assert run(cluster, text, "-f", "csv").stdout_bytes == b"number,page\n0,/0\n1,/1\n2,/2\n"
    file = tmp_path / "rows.parquet"
    assert run(cluster, text, "-f", "parquet", "-o", str(file)).exit_code == 0
    assert pyarrow.parquet.read_table(file).to_pylist() == expected
    stream = run(cluster, text, "-f", "arrow").stdout_bytes
    assert pyarrow.ipc.open_stream(stream).read_all().to_pylist() == expected
    # What was written is a table, too, beside the topic.
    both = f"""select count(*) c from "{clicks}" join '{file}' using (number)"""
    assert run(cluster, both, "-f", "csv").stdout_bytes == b"c\n3\n"
    failed = run(cluster, "select * from nowhere")
    assert (failed.exit_code, failed.stdout_bytes) == (3, b"")
    assert "there is no topic nowhere; there are " in failed.stderr


@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_a_query_goes_on_with_what_is_appended(cluster: Cluster, clicks: str) -> None:
    more = iter([range(1000, 1010), range(1010, 1020)])

    def append(_: float) -> None:
        produce(cluster, clicks, next(more))

    def answers(text: str) -> list[list[dict[str, object]]]:
        with Engine(ClusterSource(Scanned(parse_settings({"bootstrap.servers": cluster.bootstrap})))) as engine:
            found = follow(engine, text.replace("clicks", f'"{clicks}"'), interval_s=0, sleep=append)
            return [answer.rows.read_all().to_pylist() for answer in islice(found, 2)]

    first, second = answers("select number from clicks where number % 10 = 5")
    assert (len(first), second) == (100, [{"number": 1005}])
    assert answers("select count(*) c, max(number) m from clicks") == [
        [{"c": 1010, "m": 1009}],
        [{"c": 1020, "m": 1019}],
    ]


@pytest.mark.parametrize("cluster", [pytest.param(OURS, id="ottla")], indirect=True)
def test_a_printed_answer_does_not_wait_for_pandas(cluster: Cluster, clicks: str) -> None:
    text = f'select count(*) n from "{clicks}" where number < 10 and _offset < 1000'
    command = [
        sys.executable,
        "-P",
        "-X",
        "importtime",
        "-m",
        "ottla",
        "sql",
        "-b",
        cluster.bootstrap,
        text,
        "-f",
        "csv",
    ]
    done = subprocess.run(command, capture_output=True, check=False, timeout=200)
    assert done.stdout == b"n\n10\n", done.stderr[-2000:]
    assert importlib.util.find_spec("pandas") is not None
    assert b"| pandas\n" not in done.stderr


@pytest.mark.parametrize("cluster", [pytest.param(OURS, id="ottla")], indirect=True)
def test_a_result_is_shown_in_a_notebook_and_becomes_arrow(cluster: Cluster, clicks: str) -> None:
    result = ottla.query(f'select page, _key from "{clicks}" limit 30', bootstrap=cluster.bootstrap)
    assert (len(result), result.arrow().num_columns) == (30, 2)
    assert "<th>page</th>" in result._repr_html_()
    assert repr(result) == "30 rows of page, _key"


@pytest.mark.parametrize("cluster", [pytest.param(OURS, id="ottla")], indirect=True)
def test_the_format_of_values_can_be_said(cluster: Cluster, topic: str) -> None:
    cluster.create(topic, config=KEPT)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for status in (200, 200, 404):
        producer.produce(topic, f'10.0.0.1 - - [29/Feb/2024:12:00:00 +0000] "GET /a HTTP/1.1" {status} 10')
    producer.produce(topic, "something else")
    assert producer.flush(120) == 0
    text = f'select status, count(*) n, count(_corrupt) bad from "{topic}" group by 1 order by 1'
    done = run(cluster, text, "--values", f"{topic}=access", "-f", "csv")
    assert done.stdout_bytes == b"status,n,bad\n200,2,0\n404,1,0\n,1,1\n", done.stderr
    assert "--values" in run(cluster, text, "--values", topic).stderr


@pytest.mark.long
@pytest.mark.parametrize("cluster", BOTH, indirect=True)
def test_spark_answers_the_same(cluster: Cluster, clicks: str) -> None:
    text = f"select page, count(*) n, max(_offset) m from `{clicks}` where number < 500 and _offset < 50 group by 1 order by 1"
    by_spark = run_apart(cluster, text, "--engine", "spark", "--master", "local[2]", "-f", "csv")
    by_duckdb = run_apart(cluster, text.replace("`", '"'), "-f", "csv")
    assert by_spark.returncode == 0, by_spark.stderr[-2000:]
    assert by_spark.stdout == by_duckdb.stdout


@pytest.mark.long
@pytest.mark.parametrize("cluster", [pytest.param(OURS, id="ottla")], indirect=True)
def test_spark_joins_topics_with_the_tables_of_a_pipeline(cluster: Cluster, clicks: str, tmp_path: Path) -> None:
    named = []
    for hour in ("09", "10"):
        # As batches leave them: each in a folder of its own.
        part = Path("pages", f"batch-{hour}", "date=2026-01-31", f"hour={hour}", "part.parquet")
        (tmp_path / part).parent.mkdir(parents=True)
        pyarrow.parquet.write_table(pyarrow.table({"page": ["/1", "/2"], "views": [int(hour), 1]}), tmp_path / part)
        named.append({"path": str(part), "hour": f"2026-01-31T{hour}"})
    (tmp_path / "manifest.json").write_text(json.dumps({"version": 1, "tables": {"pages": named}}))
    spark = ("--engine", "spark", "--master", "local[2]", "--tables", str(tmp_path), "-f", "csv")
    alone = "select hour, cast(date as string) date, sum(views) n from pages group by 1, 2 order by 1"
    nowhere = [sys.executable, "-P", "-m", "ottla", "sql", "-b", "127.0.0.1:1", alone]
    done = subprocess.run([*nowhere, *spark], capture_output=True, check=False, timeout=200)
    assert done.stdout == b"hour,date,n\n09,2026-01-31,10\n10,2026-01-31,11\n", done.stderr[-2000:]
    by_duckdb = subprocess.run([*nowhere, *spark[4:]], capture_output=True, check=False, timeout=200)
    assert by_duckdb.stdout == done.stdout, by_duckdb.stderr[-2000:]
    both = f"select hour, count(*) n from `{clicks}` c join pages p on c.page = p.page where c.number < 14 group by 1 order by 1"
    done = run_apart(cluster, both, *spark)
    assert done.stdout == b"hour,n\n09,4\n10,4\n", done.stderr[-2000:]
