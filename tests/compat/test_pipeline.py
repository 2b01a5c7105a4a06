"""The pipeline in a Spark session: what becomes of one record, and of all traffic, in one go and as a stream."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import Row, SparkSession

from ottla.cli.app import app
from ottla.pipeline import clean, urls
from ottla.pipeline.clean import Rules
from ottla.pipeline.definition import parse_definition
from ottla.pipeline.report import write_report
from ottla.pipeline.running import Pipeline
from ottla.pipeline.tables import TABLES
from ottla.pipeline.traffic import KINDS_BY_TOPIC, Traffic, Truth, make_traffic
from ottla.pipeline.traffic.sending import Sender, make_topics
from ottla.pipeline.verdict import Finding, compare, read_rows
from tests.compat.clients.cluster import KINDS, Cluster
from tests.compat.sparksession import QUIET, spark_session

pytestmark = [pytest.mark.timeout(600), *QUIET]
OURS, APACHES = KINDS
BOTH = [pytest.param(OURS, id="ottla"), pytest.param(APACHES, marks=pytest.mark.long, id="apache")]
MIDNIGHT_MS = 1_700_006_400_000
ARRIVED = datetime(2023, 11, 14, 22, 0, tzinfo=UTC)
VIEW: dict[str, Any] = {
    "id": "e1",
    "kind": "view",
    "time": "2023-11-14T21:59:58.250Z",
    "visitor": "ann",
    "url": "https://shop.example.com/cart",
}
RAW = "value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("warehouse")) as session:
        yield session


def judged(spark: SparkSession, *values: dict[str, Any] | bytes) -> list[Row]:
    rows = [
        (bytearray(one if isinstance(one, bytes) else json.dumps(one).encode()), "views", 0, number, ARRIVED)
        for number, one in enumerate(values)
    ]
    frame = clean.judge(clean.normalize(clean.parse(spark.createDataFrame(rows, RAW))), Rules())
    return sorted(frame.collect(), key=lambda row: row["_offset"])


def test_the_reason_why_a_record_cannot_be_used_is_the_first_that_holds(spark: SparkSession) -> None:
    cases: dict[str | None, list[dict[str, Any] | bytes]] = {
        None: [VIEW, VIEW | {"time": 1_699_999_000_000}, VIEW | {"time": "1699999000"}, VIEW | {"more": [1]}],
        "malformed": [b"", b"{", b"[1]", b"null", b'"text"', b"\xff{}", b'{"id": {"a": 1}, "value": "x"}'],
        "id": [VIEW | {"id": ""}, VIEW | {"id": " "}, VIEW | {"id": None}, VIEW | {"id": "x" * 129}],
        "kind": [VIEW | {"kind": "teleport"}, VIEW | {"kind": None}],
        "time": [VIEW | {"time": "yesterday"}, VIEW | {"time": None}, VIEW | {"time": "2023-13-41T00:00:00Z"}],
        "field": [VIEW | {"visitor": None}, VIEW | {"url": ""}, {"id": "m", "kind": "metric", "time": VIEW["time"]}],
        "url": [VIEW | {"url": "mailto:ann"}, VIEW | {"url": "no address at all"}],
        "future": [VIEW | {"time": "2023-11-14T22:05:01Z"}],
        "late": [VIEW | {"time": "2023-11-14T19:59:59Z"}],
    }
    values = [(reason, value) for reason, values in cases.items() for value in values]
    found = judged(spark, *(value for _, value in values))
    assert [(row["reason"], row["_value"]) for row in found] == [
        (reason, value if isinstance(value, bytes) else json.dumps(value).encode()) for reason, value in values
    ]


def test_times_are_one_however_they_are_spelled(spark: SparkSession) -> None:
    spellings = (
        "2023-11-14T21:59:58.250Z",
        "2023-11-14 21:59:58.250",
        "2023-11-14T23:59:58.250+02:00",
        "1699999198250",
        1699999198250,
        "1699999198.25",
    )
    at = {row["at"].replace(tzinfo=UTC) for row in judged(spark, *(VIEW | {"time": one} for one in spellings))}
    assert at == {ARRIVED - timedelta(seconds=1.75)}


def test_addresses_are_one_however_they_are_spelled(spark: SparkSession) -> None:
    cases = {
        "https://Shop.Example.com:443//a//b/?utm_source=x&b=2&a=1&gclid=9#top": "https://shop.example.com/a/b?a=1&b=2",
        "HTTP://ann:secret@shop.example.com:80": "http://shop.example.com/",
        "http://shop.example.com:8080/a/": "http://shop.example.com:8080/a",
        "/cart?x=1": "/cart?x=1",
        "//shop.example.com/cart": "//shop.example.com/cart",
    }
    rows = spark.createDataFrame([(one,) for one in cases], "u STRING").select(
        "u", urls.normalized("u"), urls.page("u")
    )
    found = {row[0]: (row[1], row[2]) for row in rows.collect()}
    assert {given: url for given, (url, _) in found.items()} == cases
    assert [page for _, page in found.values()] == ["/a/b", "/", "/a", "/cart", "/cart"]


def test_who_somebody_is_does_not_get_through(spark: SparkSession) -> None:
    rows = [
        ("ann", "192.168.7.9", "Mozilla", "ann@example.org lamp", "card 4111 1111 1111 1111 of bob+x@a.b.org"),
        ("ann", "2001:db8:1:2::9", "Mozilla", "lamp", "7 lamps"),
        ("bob", "nonsense", "Mozilla", None, None),
    ]
    frame = spark.createDataFrame(rows, "visitor STRING, ip STRING, agent STRING, query STRING, message STRING")
    masked = clean.mask(frame, Rules(salt="pepper")).collect()
    assert masked[0]["visitor"] == masked[1]["visitor"] != masked[2]["visitor"]
    assert masked[0]["visitor"] not in {row["visitor"] for row in clean.mask(frame, Rules(salt="other")).collect()}
    assert [row["ip"] for row in masked] == ["192.168.7.0", "2001:db8:1::", None]
    assert [row["query"] for row in masked] == ["*** lamp", "lamp", None]
    assert [row["message"] for row in masked] == ["card *** of ***", "7 lamps", None]
    assert "agent" not in masked[0]


def test_robots_are_known_by_their_agents_and_people_are_not_taken_for_them(spark: SparkSession) -> None:
    robots = ("Googlebot/2.1", "AhrefsBot/7.0 (x)", "curl/8.5.0", "Mozilla HeadlessChrome/1", "python-requests/2")
    people = ("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", "Mozilla/5.0 (CUBOT X30) Chrome/120", "", None)
    found = judged(spark, *(VIEW | {"agent": agent} for agent in (*robots, *people)))
    assert [row["robot"] for row in found] == [True] * len(robots) + [False] * len(people)


@dataclass(frozen=True)
class Shop:
    """Traffic that was made, half of it sent, and a pipeline for it."""

    settings: dict[str, str]
    traffic: Traffic
    folder: Path
    prefix: str

    def send(self, part: slice) -> None:
        sender = Sender(self.settings)
        sender.send(self.traffic.arrivals[part])
        sender.flush()

    def pipeline(self, spark: SparkSession, name: str, more: dict[str, Any] | None = None) -> Pipeline:
        given = {
            "source": {"topics": [self.prefix + topic for topic in KINDS_BY_TOPIC]},
            "clean": {"salt": "pepper"},
            "serve": {"compact_files": 2},
            **(more or {}),
        }
        return Pipeline(parse_definition(given, base=self.folder, name=name), spark, self.settings)


def wrong(directory: Path, truth: Truth) -> list[Finding]:
    return [finding for finding in compare(directory, truth) if not finding.is_right]


def contents(directory: Path) -> dict[str, list[str]]:
    """All rows of all tables that count."""
    tables = ("events", "dead_letters", *TABLES)
    return {table: sorted(str(row) for row in read_rows(directory, table)) for table in tables}


def latest(spark: SparkSession, shop: Shop) -> set[tuple[datetime, str, int, int]]:
    """The rows that the topic of the table of pages tells of: the last record of each key."""
    options = {"kafka.bootstrap.servers": shop.settings["bootstrap.servers"], "subscribe": f"{shop.prefix}pages"}
    told = {}
    for row in sorted(spark.read.format("ottla").options(**options).load().collect(), key=lambda row: row["offset"]):
        told[row["key"]] = row["value"]
    rows = [json.loads(value) for value in told.values() if value is not None]
    return {(datetime.fromisoformat(row["minute"]), row["page"], row["views"], row["visitors"]) for row in rows}


def letters(spark: SparkSession, shop: Shop) -> set[tuple[bytes | None, bytes, tuple[str, ...]]]:
    """Key, value and what the headers say, of every record of the topic of dead letters."""
    options = {"kafka.bootstrap.servers": shop.settings["bootstrap.servers"], "subscribe": f"{shop.prefix}dead"}
    rows = spark.read.format("ottla").options(**options, includeHeaders="true").load().collect()
    told = [{header["key"]: header["value"].decode() for header in row["headers"]} for row in rows]
    names = ("topic", "partition", "offset", "timestamp", "reason")
    return {(row["key"], row["value"], tuple(one[name] for name in names)) for row, one in zip(rows, told, strict=True)}


def kept_letters(shop: Shop, table: str) -> set[tuple[bytes | None, bytes, tuple[str, ...]]]:
    """The same, of what the table says and what was sent."""
    keys = {one.value: one.key for one in shop.traffic.arrivals}
    return {
        (
            keys[row["value"]],
            row["value"],
            (
                row["topic"],
                str(row["partition"]),
                str(row["offset"]),
                str(int(row["at"].replace(tzinfo=UTC).timestamp() * 1000)),
                row["reason"],
            ),
        )
        for row in read_rows(shop.folder / table, "dead_letters")
    }


@pytest.fixture
def shop(request: pytest.FixtureRequest, clusters: Callable[[str], Cluster], topic: str, tmp_path: Path) -> Shop:
    settings = {"bootstrap.servers": clusters(request.param).bootstrap}
    prefix = f"{topic[:40]}."
    # Over an hour and a midnight.
    traffic = make_traffic(5, start_ms=MIDNIGHT_MS - 40 * 60_000, minutes=60, events=900, prefix=prefix)
    make_topics(settings, prefix=prefix, partitions=1)
    for name in ("pages", "dead"):
        clusters(request.param).create(prefix + name, config={"retention.ms": "-1"})
    return Shop(settings, traffic, tmp_path, prefix)


@pytest.mark.parametrize("shop", BOTH, indirect=True)
def test_history_and_a_stream_that_was_stopped_give_the_same_which_is_the_truth(
    spark: SparkSession, shop: Shop
) -> None:
    half = len(shop.traffic.arrivals) // 2
    shop.send(slice(half))
    topics: dict[str, Any] = {
        "tables": {name: {} for name in TABLES} | {"pages": {"topic": f"{shop.prefix}pages"}},
        "clean": {"salt": "pepper", "dead_letter_topic": f"{shop.prefix}dead"},
    }
    shop.pipeline(spark, "live", topics).run_stream(available_now=True)
    shop.send(slice(half, None))
    told: list[int] = []
    again = shop.pipeline(spark, "live", topics).run_stream(lambda state: told.append(state.batch), available_now=True)
    assert (told, again.batch) == ([1], 1)
    shop.pipeline(spark, "history").run_batch()
    assert wrong(shop.folder / "live-data", shop.traffic.truth) == []
    assert wrong(shop.folder / "history-data", shop.traffic.truth) == []
    assert contents(shop.folder / "live-data") == contents(shop.folder / "history-data")
    # What came in two batches lies in one file an hour, since two are many here.
    hours = Counter(one.hour for one in again.files("events"))
    assert set(hours.values()) == {1}
    assert latest(spark, shop) == {
        (row["minute"].replace(tzinfo=UTC), row["page"], row["views"], row["visitors"])
        for row in read_rows(shop.folder / "live-data", "pages")
    }
    assert letters(spark, shop) == kept_letters(shop, "live-data") != set()
    write_report(
        shop.folder / "live-data",
        shop.folder / "report.html",
        name="<shop>",
        findings=compare(shop.folder / "live-data", shop.traffic.truth),
    )
    report = (shop.folder / "report.html").read_text()
    assert (report.count("<svg"), report.count('right-answer">'), "&lt;shop&gt;" in report) == (7, 13, True)
    query = "select cast(sum(views) as bigint) as views from pages where date < '2024-01-01'"
    shown = CliRunner().invoke(app, ["sql", "--tables", str(shop.folder / "live-data"), "--json", query])
    assert json.loads(shown.output) == [{"views": shop.traffic.truth.kinds["view"]}]
