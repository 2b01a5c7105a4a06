"""Spark over a topic: Ottla's source beside Spark's own Kafka connector, on the same broker and in the same session.

    python -m bench.spark [--events N] [--rounds R] [--only PART ...] [--folder DIR] [--check]

Spark's connector is tuned as well as it can be (larger polls and fetches). Both are asked the same questions, in turns; the first
round warms up and is not counted, and the best of the others is shown, with the answers compared. Ottla's source reads from the
network, as the connector does, but where files are named. Then a question is asked first in fresh
sessions, and by ``ottla sql`` from the command line, and the memory of Spark's Python workers is looked at while they read all.
With ``--folder`` the topic is kept there and used again, so that parts can be measured one by one. ``--check`` compares every row
instead, for the tests: nothing is measured, and the first difference ends it with exit code 1.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ottla.scan import kernel
from ottla.testing import Cluster
from pyspark_ottla.python import worker_python
from tests.peers import maven

TOPIC = "events"
PARTITIONS = 4
START_MS = 1_767_225_600_000
TUNED = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.fetch.max.bytes": "67108864",
}
JSON = "id LONG, user STRING, page STRING, ms INT, ok BOOLEAN"
PARTS = {
    "count": "count(*)",
    "values": "length of values, latest time",
    "json": "JSON: parse, filter, group",
    "percent": "the last percent by time",
    "files-count": "network, files: count(*)",
    "files": "network, files: values",
    "files-json": "network, files: JSON",
    "memory": "a worker's memory at most",
    "fresh": "first query of a fresh session",
    "sql": "ottla sql: count(*)",
}


def fill(bootstrap: str, events: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 1_000_000})
    seeded = random.Random(1)
    for number in range(events):
        event = {
            "id": number,
            "user": f"user-{seeded.randrange(10_000)}",
            "page": f"/page/{seeded.randrange(100)}",
            "ms": seeded.randrange(500),
            "ok": number % 10 != 0,
        }
        value = json.dumps(event)
        headers = [("source", b"bench")] if number % 100 == 0 else None
        while True:
            try:
                producer.produce(
                    TOPIC,
                    None if number % 1000 == 999 else value,
                    key=event["user"],
                    partition=number % PARTITIONS,
                    timestamp=START_MS + number,
                    headers=headers,
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = worker_python()  # as docs/spark.md says
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    jars = ",".join(str(path) for path in maven.libraries("spark-kafka-4.2.0").glob("*.jar"))
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "2g")
        .config("spark.python.unix.domain.socket.enabled", "true")  # so does this
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


class Sources:
    """The topic, by either way."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self._spark = spark
        self._where = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC}

    def kafka(self, **options: str) -> DataFrame:
        return self._spark.read.format("kafka").options(**self._where, **TUNED, **options).load()

    def ottla(self, schema: str, mode: str = "network", **options: str) -> DataFrame:
        reader = self._spark.read.format("ottla").schema(schema).options(**self._where, readMode=mode, **options)
        return reader.load()


Query = Callable[[], list[object]]


def queries(sources: Sources, events: int) -> dict[str, tuple[Query, Query]]:
    """By part, the same question to Spark's connector and to Ottla."""
    late = START_MS + events * 99 // 100

    def raw(frame: DataFrame) -> list[object]:
        return frame.agg(F.sum(F.length("value")), F.max("timestamp")).collect()

    def grouped(frame: DataFrame) -> list[object]:
        found = frame.where("ms > 250 and ok").groupBy("page").agg(F.count("*").alias("n"), F.sum("ms").alias("s"))
        return sorted(found.collect())

    def parsed() -> DataFrame:
        text = F.col("value").cast("string")
        return sources.kafka().select(F.from_json(text, JSON).alias("event")).select("event.*")

    since = f"timestamp >= timestamp_millis({late})"
    value = "value BINARY, timestamp TIMESTAMP"
    typed = "page STRING, ms INT, ok BOOLEAN"
    return {
        "count": (
            lambda: [sources.kafka().count()],
            lambda: [sources.ottla("partition INT").count()],
        ),
        "values": (
            lambda: raw(sources.kafka()),
            lambda: raw(sources.ottla(value)),
        ),
        "json": (
            lambda: grouped(parsed()),
            lambda: grouped(sources.ottla(typed, valueFormat="json")),
        ),
        "percent": (
            lambda: [sources.kafka().where(since).count()],
            lambda: [sources.ottla("timestamp TIMESTAMP", where=f"timestamp >= {late}").where(since).count()],
        ),
        "files-count": (
            lambda: [sources.ottla("partition INT").count()],
            lambda: [sources.ottla("partition INT", "files").count()],
        ),
        "files": (
            lambda: raw(sources.ottla(value)),
            lambda: raw(sources.ottla(value, "files")),
        ),
        "files-json": (
            lambda: grouped(sources.ottla(typed, valueFormat="json")),
            lambda: grouped(sources.ottla(typed, "files", valueFormat="json")),
        ),
    }


def check(sources: Sources) -> bool:
    """Every row and column of both, against each other."""
    columns = "key, value, topic, partition, offset, timestamp, timestampType, headers"
    theirs = sources.kafka(includeHeaders="true").selectExpr(*columns.split(", "))
    types = (
        "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT, "
        "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    )
    ours = sources.ottla(types)
    counts = (theirs.count(), ours.count())
    lacking, more = theirs.exceptAll(ours).count(), ours.exceptAll(theirs).count()
    print(f"rows: {counts[0]} by Spark's connector, {counts[1]} by Ottla; {lacking} are lacking, {more} are too many")
    return counts[0] == counts[1] and not lacking and not more


def measure(asked: dict[str, tuple[Query, Query]], rounds: int) -> bool:
    same = True
    for part, both in asked.items():
        best = [float("inf"), float("inf")]
        answers: list[list[object]] = [[], []]
        for number in range(rounds + 1):
            for which, query in enumerate(both):
                started = time.perf_counter()
                answers[which] = query()
                if number:
                    best[which] = min(best[which], time.perf_counter() - started)
        same &= answers[0] == answers[1]
        show(PARTS[part], best[0], best[1], "" if answers[0] == answers[1] else "  THE ANSWERS DIFFER")
    return same


def memory(sources: Sources) -> None:
    """The most that any Python worker of this interpreter has held so far, once every record was read."""
    columns = "key BINARY, value BINARY, offset LONG, timestamp TIMESTAMP"
    sources.ottla(columns).write.format("noop").mode("overwrite").save()
    workers = [path for path in Path("/proc").glob("[0-9]*") if is_worker(path)]
    print(f"{PARTS['memory']:32} {'':10} {max(map(peak_mb, workers)):8.0f} MB", flush=True)


def is_worker(process: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return Path(os.fsdecode(words[0])).parent == Path(sys.executable).parent and b"pyspark.daemon" in words


def peak_mb(process: Path) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def first(bootstrap: str, which: str) -> None:
    """In a session of its own: how long the first question takes, and nothing else."""
    sources = Sources(session(), bootstrap)
    started = time.perf_counter()
    frame = sources.kafka() if which == "kafka" else sources.ottla("value BINARY")
    frame.agg(F.sum(F.length("value"))).collect()
    print(f"seconds={time.perf_counter() - started}")


def fresh(bootstrap: str, rounds: int) -> None:
    best = {"kafka": float("inf"), "ottla": float("inf")}
    for _ in range(rounds):
        for which in ("kafka", "ottla"):
            command = [sys.executable, "-m", "bench.spark", "--first", which, "--bootstrap", bootstrap]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            best[which] = min(best[which], float(done.stdout.rpartition("seconds=")[2]))
    show(PARTS["fresh"], best["kafka"], best["ottla"])


def command_line(bootstrap: str, rounds: int) -> None:
    command = [sys.executable, "-m", "ottla", "sql", "-b", bootstrap, f"select count(*) from {TOPIC}"]  # noqa: S608
    best = float("inf")
    for _ in range(rounds + 1):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        best = min(best, time.perf_counter() - started)
    print(f"{PARTS['sql']:32} {'':10} {best:8.2f} s", flush=True)


def show(name: str, theirs: float, ours: float, told: str = "") -> None:
    print(f"{name:32} {theirs:8.2f} s {ours:8.2f} s {theirs / ours:6.1f}×{told}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--folder", type=Path, help="where the cluster is, or will be, to be used again")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--first", choices=("kafka", "ottla"), help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first:
        first(arguments.bootstrap, arguments.first)
        return 0
    if not arguments.check and not kernel.__file__.endswith(".so"):
        print("the kernel is not compiled: make setup", file=sys.stderr)
        return 2
    is_filled = arguments.folder is not None and arguments.folder.exists()
    with Cluster(folder=arguments.folder) as cluster:
        if not is_filled:
            fill(cluster.bootstrap, arguments.events)
        spark = session()
        sources = Sources(spark, cluster.bootstrap)
        asked = queries(sources, arguments.events)
        if arguments.check:
            return 0 if check(sources) and all(theirs() == ours() for theirs, ours in asked.values()) else 1
        print(f"{arguments.events} events, {PARTITIONS} partitions, local[2]: Spark's connector, tuned; Ottla; ratio")
        same = measure({part: both for part, both in asked.items() if part in arguments.only}, arguments.rounds)
        if "memory" in arguments.only:
            memory(sources)
        spark.stop()
        if "fresh" in arguments.only:
            fresh(cluster.bootstrap, arguments.rounds)
        if "sql" in arguments.only:
            command_line(cluster.bootstrap, arguments.rounds)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
