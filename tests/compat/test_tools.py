"""The commands as users run them, against a broker of ours and against Apache Kafka 3.9.1; their dumps beside Kafka's own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from ottla.cli.app import app
from ottla.cli.client.jsonrecord import dump_line
from ottla.cli.client.record import ClientRecord
from tests.compat.page import run_page
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import JAVA, KafkaBrokers
from tests.peers.processes import processor_s, slowness

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-3.9.1-log-dir"
FIRST_MS = 1_700_000_000_000
KEEP = {"log.retention.ms": "-1"}
"""Records of long ago are to stay."""


class Cluster(NamedTuple):
    name: str
    bootstrap: str
    data: Path

    def run(self, *arguments: str, data: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            self._command(arguments), input=data, capture_output=True, timeout=60, check=False, env=self._environment()
        )
        assert done.returncode == code, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
        return done

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        # Tests that run in the background have Ctrl-C ignored, and so would their children.
        return subprocess.Popen(
            ["env", "--default-signal=INT", *self._command(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment(),
        )

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)

    def create(self, topic: str, *arguments: str) -> str:
        self.run("topic", "create", topic, *arguments)
        return topic

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-P", "-m", "ottla", *arguments]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "OTTLA_BOOTSTRAP": self.bootstrap}


@pytest.fixture(scope="module")
def keepers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaKeepers]:
    with OttlaKeepers(1, tmp_path_factory.mktemp("keeper")) as running:
        yield running


@pytest.fixture(scope="module")
def ours(keepers: OttlaKeepers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with OttlaBrokers(1, f"{keepers.hosts}/ours", tmp_path_factory.mktemp("ours"), settings=KEEP) as brokers:
        yield Cluster("ours", brokers.bootstrap, brokers.data())


@pytest.fixture(scope="module")
def kafka(keepers: OttlaKeepers, kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    assert kafka_libs.is_dir()
    folder = tmp_path_factory.mktemp("kafka")
    settings = {
        **KEEP,
        "auto.create.topics.enable": "false",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.min.isr": "1",
    }
    with KafkaBrokers(1, f"{keepers.hosts}/kafka", folder, settings=settings) as brokers:
        yield Cluster("kafka", brokers.bootstrap, folder / "broker-0" / "data")


@pytest.fixture(params=["ours", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


# ---------------------------------------------------------------- topics


def test_the_life_of_a_topic(cluster: Cluster) -> None:
    made = cluster.json("topic", "create", "life", "-p", "3", "-r", "1", "--config", "retention.ms=123456789")
    assert made == {"version": 1, "topics": [{"name": "life", "status": "created"}]}
    listed = {topic["name"]: topic for topic in cluster.json("topic", "ls", "lif*")["topics"]}
    assert listed == {
        "life": {
            "name": "life",
            "partitions": 3,
            "replication_factor": 1,
            "under_replicated": 0,
            "leaderless": 0,
            "internal": False,
        }
    }
    cluster.run("produce", "life", "-p", "1", "a", "b")
    [topic] = cluster.json("topics", "describe", "life")["topics"]
    assert [partition["high_watermark"] for partition in topic["partitions"]] == [0, 2, 0]
    assert [partition["log_start_offset"] for partition in topic["partitions"]] == [0, 0, 0]
    assert all(partition["replicas"] == partition["isr"] == [partition["leader"]] for partition in topic["partitions"])
    assert len(topic["topic_id"]) == 22
    configs = {config["name"]: config for config in topic["configs"]}
    assert configs["retention.ms"]["value"] == "123456789"
    assert configs["retention.ms"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert configs["segment.bytes"]["source"] == "DEFAULT_CONFIG"
    table = cluster.run("topic", "describe", "life").stdout.decode()
    assert re.search(r"retention\.ms +123456789", table)
    assert "segment.bytes" not in table
    assert "segment.bytes" in cluster.run("topic", "describe", "life", "--format", "wide").stdout.decode()

    assert cluster.json("topic", "delete", "life", "--dry-run")["topics"] == [
        {"name": "life", "status": "would be deleted"}
    ]
    refused = cluster.run("topic", "delete", "life", data=b"n\n", code=1)
    assert b"life" in refused.stderr
    assert refused.stdout == b""
    cluster.run("topic", "delete", "life", code=1)  # nobody answers
    assert cluster.json("topic", "ls", "life")["topics"] != []
    cluster.run("topic", "delete", "life", data=b"y\n")
    assert cluster.json("topic", "ls", "life")["topics"] == []


def test_what_cannot_be_created_and_what_is_not_there(cluster: Cluster) -> None:
    cluster.create("taken")
    assert b"TOPIC_ALREADY_EXISTS" in cluster.run("topic", "create", "taken", code=1).stderr
    rows = cluster.json("topic", "create", "taken", "free", "--if-not-exists")["topics"]
    assert rows == [{"name": "taken", "status": "exists"}, {"name": "free", "status": "created"}]
    assert b"INVALID_REPLICATION_FACTOR" in cluster.run("topic", "create", "wide", "-r", "2", code=1).stderr
    cluster.run("topic", "create", "bad name", code=1)
    cluster.run("topic", "create", "dry", "--dry-run")
    assert b"no topic is called dry" in cluster.run("topic", "describe", "dry", code=3).stderr
    cluster.run("topic", "delete", "dry", "-y", code=3)
    cluster.run("topic", "delete", "dry", "-y", "--if-exists")
    assert b"'ottla topic create dry'" in cluster.run("produce", "dry", "x", code=3).stderr
    cluster.run("consume", "dry", code=3)
    cluster.run("consume", "taken", "-p", "7", code=3)
    assert b"No such configuration property" in cluster.run("topic", "ls", "-X", "no.such=1", code=2).stderr


def test_replicas_can_be_placed_by_hand(cluster: Cluster) -> None:
    broker = 1 if cluster.name == "ours" else 0
    cluster.create("placed", "--replica-assignment", f"{broker},{broker}")
    [topic] = cluster.json("topic", "describe", "placed")["topics"]
    assert [partition["replicas"] for partition in topic["partitions"]] == [[broker], [broker]]
    cluster.run("topic", "create", "nowhere", "--replica-assignment", "77", code=1)
    cluster.run("topic", "create", "both", "--replica-assignment", "1", "-p", "2", code=2)


def test_listing_takes_less_than_300_ms(ours: Cluster) -> None:
    assert min(processor_s(lambda: ours.run("topic", "ls")) for _ in range(5)) < 0.3 * slowness()


def test_nobody_at_the_address_is_said_at_once(ours: Cluster) -> None:
    done = ours.run("topic", "ls", "-b", "127.0.0.1:1", "--timeout", "50", code=1)
    assert b"no broker answers at 127.0.0.1:1" in done.stderr
    assert b"Connection refused" in done.stderr


# ---------------------------------------------------------------- records in and out


def originals() -> list[ClientRecord]:
    return [
        ClientRecord(b"k", b"v", timestamp=FIRST_MS),
        ClientRecord(None, None, timestamp=FIRST_MS + 1),
        ClientRecord(b"", b"", timestamp=FIRST_MS + 2),
        ClientRecord(b"\xff\x00", bytes(range(256)), timestamp=FIRST_MS + 3),
        ClientRecord("ключ".encode(), "zwei\nlines ☃\x00".encode(), timestamp=FIRST_MS + 4),
        ClientRecord(b"h", b"v", (("a", b"1"), ("a", b"\xfe"), ("n", None), ("", b"")), timestamp=FIRST_MS + 5),
        ClientRecord(b"large", b"x" * 300_000, timestamp=FIRST_MS + 6),
    ]


def test_json_lines_come_back_exactly_and_go_in_again(cluster: Cluster) -> None:
    first, second = cluster.create("first", "-p", "2"), cluster.create("second", "-p", "2")
    lines = b"".join(dump_line(record._replace(partition=number % 2)) for number, record in enumerate(originals()))
    cluster.run("produce", first, "-f", "jsonl", "-z", "zstd", data=lines)
    read = cluster.run("consume", first, "--json", "-o", ":end").stdout
    cluster.run("produce", second, "-f", "jsonl", "-z", "gzip", data=read)
    again = cluster.run("consume", second, "--json", "-o", ":end").stdout

    def by_partition(text: bytes) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in text.splitlines()]
        return sorted(found, key=lambda record: (record["partition"], record["timestamp"]))

    sent = [{**line, "topic": first, "timestamp_type": "CreateTime"} for line in by_partition(lines)]
    offsets = {0: 0, 1: 0}
    for line in sent:
        line["offset"] = offsets[line["partition"]]
        offsets[line["partition"]] += 1
    assert by_partition(read) == sent
    assert by_partition(again) == [{**line, "topic": second} for line in sent]


def test_lines_keys_headers_and_tombstones(cluster: Cluster) -> None:
    topic = cluster.create("lines")
    done = cluster.run(
        "produce", topic, "-K", ":", "-Z", "-H", "a=1", "-H", "n", "-t", "2024-02-29", data=b"k:v:w\nd:\n"
    )
    assert done.stderr == b"2 delivered\n"
    written = cluster.run("consume", topic, "-o", ":end", "-f", r"%o %k=%v %H %h{%k:%v,}%d{strftime[%F]} %V\n").stdout
    assert written == b"0 k=v:w 2 a:1,n:,2024-02-29 3\n1 d= 2 a:1,n:,2024-02-29 0\n"
    assert [
        json.loads(line)["value"] for line in cluster.run("consume", topic, "--json", "-n", "2").stdout.splitlines()
    ] == [
        "v:w",
        None,
    ]
    failed = cluster.run("produce", topic, "-K", ":", data=b"a:1\nnothing\nb:2\n", code=1)
    assert b"record 2: no ':' in the line" in failed.stderr
    assert b"1 delivered" in failed.stderr
    assert cluster.run("consume", topic, "-o", "2:end").stdout == b"1\n"


def test_arguments_files_and_formats(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create("formats")
    cluster.run("produce", topic, "-k", "key", "two\nlines", "", "-q", "-a", "1")
    (tmp_path / "framed").write_bytes(b"\0\0\0\3a\nb\0\0\0\0")
    (tmp_path / "tabs").write_bytes(b"k1\tv1\nk2\tv2")
    cluster.run("produce", topic, "-f", "%V{big32}%v", "-i", str(tmp_path / "framed"))
    done = cluster.run("produce", topic, "-f", r"%k\t%v\n", "-i", str(tmp_path / "tabs"), "-o", r"%p/%o\n")
    assert done.stdout == b"0/4\n0/5\n"
    written = cluster.run("consume", topic, "-o", ":end", "-f", r"<%k|%v>").stdout
    assert written == b"<key|two\nlines><key|><|a\nb><|><k1|v1><k2|v2>"
    missing = cluster.run("produce", topic, "-i", str(tmp_path / "none"), code=2)
    assert b"does not exist" in missing.stderr
    assert cluster.run("consume", topic, "-f", "%q", code=2).stdout == b""
    cluster.run("consume", topic, "-o", "1:2:3", code=2)


def test_ranges(cluster: Cluster) -> None:
    topic = cluster.create("ranges")
    lines = b"".join(
        dump_line(ClientRecord(value=b"%d" % number, timestamp=FIRST_MS + number * 1000)) for number in range(100)
    )
    cluster.run("produce", topic, "-f", "jsonl", data=lines)

    def read(range_: str, *arguments: str) -> list[int]:
        # In this process: what takes time is to start one.
        done = CliRunner().invoke(app, ["consume", "-b", cluster.bootstrap, topic, "-o", range_, *arguments])
        assert done.exit_code == 0, done.output
        return [int(line) for line in done.stdout.split()]

    assert read(":end") == list(range(100))
    assert read("start", "-n", "3") == [0, 1, 2]
    assert read("+5:end", "-n", "2") == [5, 6]
    assert read("-3:end") == [97, 98, 99]
    assert read("10:13") == [10, 11, 12]
    assert read(":2") == [0, 1]
    assert read("98", "-n", "2") == [98, 99]
    assert read(f"@{FIRST_MS + 5000}:{FIRST_MS + 8000}") == [5, 6, 7]
    assert read("@2023-11-14T22:14:50Z:end") == list(range(90, 100))
    assert read("@2023-11-14T22:13:20Z:2s") == [0, 1]
    assert read("@-1h:end") == []
    assert read("end:end") == []
    assert read("50:50") == []
    assert read("200:end") == []
    assert read(":end", "-n", "0") == []


def test_which_record_was_refused_is_said(cluster: Cluster) -> None:
    topic = cluster.create("small", "--config", "max.message.bytes=1000")
    lines = b"a\n" + b"x" * 5000 + b"\nb\n"
    failed = cluster.run("produce", topic, "-X", "batch.num.messages=1", data=lines, code=1)
    assert re.search(rb"record 2: .*MSG_SIZE_TOO_LARGE", failed.stderr)
    assert b"2 delivered, 1 failed" in failed.stderr
    assert cluster.run("consume", topic, "-o", ":end").stdout == b"a\nb\n"


def test_an_interrupted_producer_delivers_what_it_took(cluster: Cluster) -> None:
    topic = cluster.create("interrupted")
    with cluster.start("produce", topic) as producing:
        assert producing.stdin
        producing.stdin.write(b"a\nb\nc\n")
        producing.stdin.flush()
        assert cluster.run("consume", topic, "-n", "3").stdout == b"a\nb\nc\n"
        producing.send_signal(signal.SIGINT)
        _, told = producing.communicate(timeout=120)
    assert producing.returncode == 130
    assert told == b"interrupted: 3 delivered\n"


def test_a_consumer_follows_until_it_is_interrupted(cluster: Cluster) -> None:
    topic = cluster.create("followed")
    with cluster.start("consume", topic, "-o", "start") as consuming:
        assert consuming.stdout
        cluster.run("produce", topic, "first")
        assert consuming.stdout.readline() == b"first\n"
        cluster.run("produce", topic, "second")
        assert consuming.stdout.readline() == b"second\n"
        consuming.send_signal(signal.SIGINT)
        _, told = consuming.communicate(timeout=120)
    assert (consuming.returncode, told) == (130, b"")


def test_the_life_of_a_group(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create("grouped", "-p", "2")
    lines = b"".join(b"0\t%d\n1\t%d\n" % (number, number) for number in range(10))
    cluster.run("produce", topic, "-f", "%p\\t%v\\n", "-t", "2024-02-29", data=lines)
    read = cluster.run("consume", topic, "-g", "readers", "-o", ":end", "-f", "%p/%o\n").stdout.split()
    assert sorted(read) == sorted(b"%d/%d" % (p, o) for p in range(2) for o in range(10))
    assert cluster.run("consume", topic, "-g", "readers", "-o", ":end").stdout == b"", "it was committed"
    assert {"group": "readers", "state": "EMPTY", "simple": False} in cluster.json("group", "ls")["groups"]

    def committed() -> list[tuple[int, int]]:
        (group,) = cluster.json("group", "describe", "readers")["groups"]
        return [(each["committed_offset"], each["lag"]) for each in group["partitions"]]

    assert committed() == [(10, 0), (10, 0)]
    shown = cluster.json("group", "reset", "readers", "--to", "start")["offsets"]
    assert [each["new_offset"] for each in shown] == [0, 0]
    assert committed() == [(10, 0), (10, 0)], "it was only shown"
    for arguments, expected in (
        (("-t", f"{topic}:1", "--to", "4"), [(10, 0), (4, 6)]),
        (("--shift", "-3"), [(7, 3), (1, 9)]),
        (("--to", "@2024-02-29"), [(0, 10), (0, 10)]),
        (("--to", "@-1h"), [(10, 0), (10, 0)]),
    ):
        cluster.run("group", "reset", "readers", *arguments, "--execute")
        assert committed() == expected, arguments
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,3\nreaders,{topic},1,5\nothers,{topic},1,9\n")
    cluster.run("group", "reset", "readers", "--from-file", str(plan), "--execute")
    assert committed() == [(3, 7), (5, 5)]
    for content, code, said in (
        (b"nope,0,1\n", 3, b"no topic is called nope"),
        (f"{topic},7,1\n".encode(), 3, b"not 7"),
        (f"others,{topic},1,9\n".encode(), 3, b"readers is not told of"),
        (b"\xff\xfe\n", 2, b"no text in UTF-8"),
    ):
        plan.write_bytes(content)
        refused = cluster.run("group", "reset", "readers", "--from-file", str(plan), "--execute", code=code)
        assert said in refused.stderr, content
    assert (
        b"nothing committed to shift from"
        in cluster.run("group", "reset", "new", "-t", topic, "--shift", "2", code=3).stderr
    )
    assert committed() == [(3, 7), (5, 5)]
    plan.write_bytes(b"\xef\xbb\xbf" + f"{topic},0,4\n".encode())
    cluster.run("group", "reset", "readers", "--from-file", str(plan), "--execute")
    assert committed() == [(4, 6), (5, 5)]
    for empty in (("group", "reset", "", "--to", "start"), ("consume", topic, "-g", "")):
        assert b"an empty name is none" in cluster.run(*empty, code=2).stderr
    with cluster.start("consume", topic, "-g", "readers", "-f", "%v\n") as member:
        assert member.stdout is not None
        assert member.stdout.readline()
        refused = cluster.run("group", "reset", "readers", "--to", "end", "--execute", code=1)
        assert b"has 1 members" in refused.stderr
        cluster.run("group", "delete", "readers", "-y", code=1)
        (group,) = cluster.json("group", "describe", "readers")["groups"]
        assert group["state"] == "STABLE"
        assert {each["client_id"] for each in group["partitions"]} == {"ottla"}
        member.send_signal(signal.SIGINT)
        member.communicate(timeout=120)
    cluster.run("group", "delete", "readers", "-y")
    cluster.run("group", "describe", "readers", code=3)


def test_only_what_was_committed(kafka: Cluster) -> None:
    """A range whose last offsets are markers, which no reader ever sees, ends all the same."""
    topic = kafka.create("transactions")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "tools"})
    producer.init_transactions(30)
    for value, commit in ((b"kept", True), (b"dropped", False)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(120)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    assert kafka.run("consume", topic, "-o", ":end").stdout == b"kept\ndropped\n"
    assert kafka.run("consume", topic, "-o", ":end", "--read-committed").stdout == b"kept\n"


# ---------------------------------------------------------------- files


def dump_with_kafka(kafka_libs: Path, file: Path) -> str:
    command = [*JAVA, "-cp", f"{kafka_libs}/*", "kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log"]
    done = subprocess.run([*command, "--files", str(file)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+): (\S+)", line))


def check_dumps_agree(cluster: Cluster, kafka_libs: Path, file: Path) -> int:
    """Our dump of a segment beside that of Kafka; how many batches there were."""
    theirs = dump_with_kafka(kafka_libs, file).splitlines()
    ours = [
        json.loads(line)
        for line in cluster.run("log", "dump", str(file), "--records", "--format", "jsonl").stdout.splitlines()
    ]
    batches = [row for row in ours if row["type"] == "batch"]
    their_batches = [fields(line) for line in theirs if line.startswith("baseOffset")]
    assert len(batches) == len(their_batches)
    for batch, expected in zip(batches, their_batches, strict=True):
        assert {
            "baseOffset": str(batch["base_offset"]),
            "lastOffset": str(batch["last_offset"]),
            "count": str(batch["record_count"]),
            "partitionLeaderEpoch": str(batch["leader_epoch"]),
            "position": str(batch["position"]),
            "CreateTime": str(batch["max_timestamp"]),
            "size": str(batch["bytes"]),
            "magic": str(batch["magic"]),
            "compresscodec": batch["codec"],
            "crc": str(batch["crc"]),
            "isvalid": str(batch["crc_valid"]).lower(),
            "producerId": str(batch.get("producer_id", -1)),
            "producerEpoch": str(batch.get("producer_epoch", -1)),
            "baseSequence": str(batch.get("base_sequence", -1)),
            "lastSequence": str(batch.get("last_sequence", -1)),
            "isTransactional": str(batch.get("transactional", False)).lower(),
            "isControl": str(batch.get("control", False)).lower(),
        }.items() <= expected.items()
    records = [str(row["offset"]) for row in ours if row["type"] == "record"]
    assert records == [fields(line)["offset"] for line in theirs if line.startswith("| offset")]
    markers = [row["marker"].upper() for row in batches if row.get("control")]
    assert markers == re.findall(r"endTxnMarker: (\w+)", "\n".join(theirs))
    return len(batches)


@pytest.mark.parametrize("partition", ["g-txn-0", "g-zstd-0"])
def test_our_dump_says_what_kafkas_says(ours: Cluster, kafka_libs: Path, partition: str) -> None:
    assert check_dumps_agree(ours, kafka_libs, min((GOLDEN / partition).glob("*.log"))) > 0


def test_files_of_a_running_broker(cluster: Cluster, kafka_libs: Path) -> None:
    topic = cluster.create("files", "--config", "segment.bytes=100000", "--config", "index.interval.bytes=500")
    cluster.run(
        "produce", topic, "-X", "batch.num.messages=10", data=b"".join(b"%d\n" % number * 30 for number in range(300))
    )
    checked = cluster.run("log", "verify", str(cluster.data), "--deep")
    assert b"no problems" in checked.stderr
    assert check_dumps_agree(cluster, kafka_libs, cluster.data / f"{topic}-0" / f"{0:020d}.log") > 5
    rows = [
        json.loads(line)
        for line in cluster.run(
            "log", "dump", str(cluster.data / f"{topic}-0"), "--indexes", "--format", "jsonl"
        ).stdout.splitlines()
    ]
    assert len([row for row in rows if row["type"] == "segment"]) > 1
    assert [row["start_offset"] for row in rows if row["type"] == "epoch"] == [0]
    assert len([row for row in rows if row["type"] == "index_entry"]) > 5
    assert sum(row["record_count"] for row in rows if row["type"] == "batch") == 9000


def test_damage_is_told_by_exit_code_and_place(ours: Cluster, tmp_path: Path) -> None:
    file = tmp_path / f"{0:020d}.log"
    content = bytearray((GOLDEN / "g-txn-0" / file.name).read_bytes())
    content[200] ^= 1
    file.write_bytes(content)
    done = ours.run("log", "verify", str(file), "--format", "jsonl", code=1)
    places = [json.loads(line)["where"] for line in done.stdout.splitlines() if file.name.encode() in line]
    assert "byte 189, offset 6" in places
    ours.run("log", "verify", str(tmp_path / "none"), code=3)
    ours.run("log", "dump", str(tmp_path / "none.log"), code=3)


# ---------------------------------------------------------------- kcat's flags


def test_cat_takes_and_gives_what_kcat_does(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create("cat")
    cluster.run("cat", "-P", "-t", topic, "-K", ":", "-Z", "-H", "h=1", data=b"a:1\nb:\nno key\n:d\n")
    (tmp_path / "file").write_bytes(b"two\nlines\0last")
    cluster.run("cat", "-P", "-t", topic, "-D", r"\x00", "-k", "k", "-l", str(tmp_path / "file"))
    read = cluster.run("cat", "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-Z", "-f", r"%o %k=%s %S %h\n")
    assert (
        read.stdout
        == b"0 a=1 1 h=1\n1 b=NULL -1 h=1\n2 NULL=no key 6 h=1\n3 NULL=d 1 h=1\n4 k=two\nlines 9 \n5 k=last 4 \n"
    )
    assert cluster.run("cat", "-C", "-t", topic, "-o", "-1", "-e", "-q", "-K", "|").stdout == b"k|last\n"
    first = json.loads(cluster.run("cat", "-C", "-t", topic, "-J", "-c", "1").stdout)
    assert (first["topic"], first["partition"], first["offset"], first["tstype"]) == (topic, 0, 0, "create")
    assert (first["key"], first["payload"], first["headers"]) == ("a", "1", ["h", "1"])
    assert cluster.run("cat", "-Q", "-t", f"{topic}:0:-1").stdout == b"cat [0] offset 6\n"
    assert cluster.run("cat", "-Q", "-t", f"{topic}:0:1").stdout == b"cat [0] offset 0\n"
    listed = cluster.run("cat", "-L", "-t", topic).stdout.decode()
    assert re.search(r'topic "cat" with 1 partitions:\n    partition 0, leader (\d), replicas: \1, isrs: \1\n', listed)
    [found] = json.loads(cluster.run("cat", "-L", "-J", "-t", topic).stdout)["topics"]
    assert found["partitions"][0]["isrs"] == found["partitions"][0]["replicas"]


# ---------------------------------------------------------------- the page


def test_the_page_shows_what_the_commands_print(keepers: OttlaKeepers, tmp_path: Path) -> None:
    with OttlaBrokers(1, f"{keepers.hosts}/page", tmp_path, settings=KEEP) as brokers:
        environment = {"OTTLA_BOOTSTRAP": brokers.bootstrap, "DATA": str(brokers.data())}
        assert run_page("cli.md", environment, tmp_path) == 6
