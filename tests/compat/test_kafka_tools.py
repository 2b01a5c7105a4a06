"""Apache Kafka's own tools for the command line, 3.9.1, pointed at one broker of ours and at its files."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.compat.clients.cluster import Cluster
from tests.peers.kafka import JAVA
from tests.peers.processes import wait_until

TOOLS = "Kafka's tools"
TOPICS = "org.apache.kafka.tools.TopicCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
API_VERSIONS = "kafka.admin.BrokerApiVersionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DUMP_LOG = "kafka.tools.DumpLogSegments"

FAR_AHEAD_MS = 3_400_000_000_000


@pytest.fixture
def tool(request: pytest.FixtureRequest, kafka_libs: Path) -> Tool:
    request.node.user_properties.append(("version", "3.9.1"))
    return Tool(f"{kafka_libs}/*")


class Tool:
    def __init__(self, class_path: str) -> None:
        self.class_path = class_path

    def __call__(self, name: str, *words: object, given: str = "") -> str:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        command = [*JAVA, quiet, "-cp", self.class_path, name, *map(str, words)]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


def described(tool: Tool, cluster: Cluster, topic: str, *, led: int) -> str:
    """The line about a topic, once so many of its partitions are led and held in sync by the broker."""
    broker = cluster.broker_id

    def line() -> str | None:
        said = tool(TOPICS, "--bootstrap-server", cluster.bootstrap, "--describe", "--topic", topic)
        found = re.findall(rf"Leader: {broker}\s+Replicas: {broker}\s+Isr: {broker}\s", said)
        return said.splitlines()[0] if len(found) == led else None

    return wait_until(line, timeout_s=60, what=f"{topic} has {led} leaders")


@pytest.mark.card("topics", client=TOOLS)
def test_topics_are_made_and_described(tool: Tool, cluster: Cluster, topic: str) -> None:
    on = ("--bootstrap-server", cluster.bootstrap)
    tool(TOPICS, *on, "--create", "--topic", topic, "--partitions", 3, "--config", "retention.ms=1234567")
    first = described(tool, cluster, topic, led=3)
    assert re.match(rf"Topic: {topic}\s+TopicId: \S+\s+PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: ", first)
    assert "retention.ms=1234567" in first


@pytest.mark.long
@pytest.mark.card("topics", client=TOOLS)
def test_topics_are_listed_grown_and_deleted(tool: Tool, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, partitions=3)
    on = ("--bootstrap-server", cluster.bootstrap)
    tool(TOPICS, *on, "--alter", "--topic", topic, "--partitions", 5)
    assert "PartitionCount: 5" in described(tool, cluster, topic, led=5)
    assert topic in tool(TOPICS, *on, "--list").split()
    tool(TOPICS, *on, "--delete", "--topic", topic)
    wait_until(lambda: topic not in tool(TOPICS, *on, "--list").split(), timeout_s=60, what="the topic is gone")


@pytest.mark.long
@pytest.mark.card("console", client=TOOLS)
def test_the_console_producer_and_consumer(tool: Tool, cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    on = ("--bootstrap-server", cluster.bootstrap, "--topic", topic)
    reading = ("--property", "parse.key=true", "--property", "parse.headers=true", "--property", "null.marker=NIL")
    tool(CONSOLE_PRODUCER, *on, *reading, given="a:1,b:2\tkey\tvalue\nc:3\tNIL\tNIL\n")
    showing = [f"print.{what}=true" for what in ("key", "headers", "offset", "partition")]
    options = [word for one in (*showing, "null.literal=NIL") for word in ("--property", one)]
    said = tool(CONSOLE_CONSUMER, *on, "--partition", 0, "--offset", 0, "--max-messages", 2, *options)
    assert said.splitlines() == [
        "Partition:0\tOffset:0\ta:1,b:2\tkey\tvalue",
        "Partition:0\tOffset:1\tc:3\tNIL\tNIL",
    ]


@pytest.mark.long
@pytest.mark.card("producer performance", client=TOOLS)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_producer_performance_and_the_offsets_it_leaves(tool: Tool, cluster: Cluster, topic: str, codec: str) -> None:
    cluster.create(topic, partitions=4)
    props = (f"bootstrap.servers={cluster.bootstrap}", f"compression.type={codec}", "linger.ms=5")
    options = ("--topic", topic, "--num-records", 20_000, "--record-size", 500, "--throughput", -1)
    said = tool(PRODUCER_PERFORMANCE, *options, "--producer-props", *props)
    assert said.splitlines()[-1].startswith("20000 records sent")
    on = ("--bootstrap-server", cluster.bootstrap, "--topic", topic)
    latest = dict(line.rsplit(":", 1) for line in tool(OFFSETS, *on, "--time", "latest").splitlines())
    assert sorted(latest) == [f"{topic}:{number}" for number in range(4)]
    assert sum(map(int, latest.values())) == 20_000
    earliest = tool(OFFSETS, *on, "--time", "earliest").splitlines()
    assert sorted(earliest) == [f"{topic}:{number}:0" for number in range(4)]


@pytest.mark.long
@pytest.mark.card("get-offsets", client=TOOLS)
def test_offsets_by_time_and_of_the_newest(tool: Tool, cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    tool(CONSOLE_PRODUCER, "--bootstrap-server", cluster.bootstrap, "--topic", topic, given="one\ntwo\nthree\n")
    on = ("--bootstrap-server", cluster.bootstrap, "--topic", topic)
    assert tool(OFFSETS, *on, "--time", 1).split() == [f"{topic}:0:0"]
    newest = tool(OFFSETS, *on, "--time", "max-timestamp").split()
    assert newest[0].rsplit(":", 1)[0] == f"{topic}:0"
    assert int(newest[0].rsplit(":", 1)[1]) in range(3)
    assert tool(OFFSETS, *on, "--time", FAR_AHEAD_MS).split() == []


@pytest.mark.long
@pytest.mark.card("broker-api-versions", client=TOOLS)
def test_broker_api_versions(tool: Tool, cluster: Cluster) -> None:
    said = tool(API_VERSIONS, "--bootstrap-server", cluster.bootstrap)
    assert re.search(rf"^127.0.0.1:\d+ \(id: {cluster.broker_id} rack: null", said)
    usable = dict(re.findall(r"^\t(\w+)\(\d+\): .*\[usable: (\d+)\]", said, re.MULTILINE))
    assert {"Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "CreateTopics"} <= set(usable)


@pytest.mark.long
@pytest.mark.card("configs", client=TOOLS)
def test_configs_are_described(tool: Tool, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, config={"max.message.bytes": "5555"})
    on = ("--bootstrap-server", cluster.bootstrap, "--describe", "--all")
    said = tool(CONFIGS, *on, "--entity-type", "topics", "--entity-name", topic)
    assert re.search(
        r"max.message.bytes=5555 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:max.message.bytes=5555, ", said
    )
    said = tool(CONFIGS, *on, "--entity-type", "brokers", "--entity-name", cluster.broker_id)
    assert re.search(rf"broker.id={cluster.broker_id} sensitive=false synonyms=\{{STATIC_BROKER_CONFIG", said)


@pytest.mark.card("configs", client=TOOLS)
def test_configs_are_changed(tool: Tool, cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    server = ("--bootstrap-server", cluster.bootstrap)
    on = (*server, "--entity-type", "topics", "--entity-name", topic)
    said = tool(CONFIGS, *on, "--alter", "--add-config", "retention.ms=77777,cleanup.policy=[compact,delete]")
    assert said.splitlines() == [f"Completed updating config for topic {topic}."]
    said = tool(CONFIGS, *on, "--describe")
    assert "retention.ms=77777 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=77777" in said
    assert "cleanup.policy=compact,delete " in said


@pytest.mark.long
@pytest.mark.card("configs", client=TOOLS)
def test_configs_of_brokers_and_loggers_are_changed(tool: Tool, cluster: Cluster) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    every = (*server, "--entity-type", "brokers", "--entity-default")
    tool(CONFIGS, *every, "--alter", "--add-config", "log.cleaner.backoff.ms=12345")
    assert "log.cleaner.backoff.ms=12345 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER" in tool(
        CONFIGS, *every, "--describe"
    )
    tool(CONFIGS, *every, "--alter", "--delete-config", "log.cleaner.backoff.ms")
    assert "log.cleaner.backoff.ms" not in tool(CONFIGS, *every, "--describe")
    loggers = (*server, "--entity-type", "broker-loggers", "--entity-name", cluster.broker_id)
    tool(CONFIGS, *loggers, "--alter", "--add-config", "root=WARN")
    assert "root=WARN sensitive=false" in tool(CONFIGS, *loggers, "--describe")
    tool(CONFIGS, *loggers, "--alter", "--add-config", "root=INFO")


@pytest.mark.long
@pytest.mark.card("configs", client=TOOLS)
def test_quotas_are_changed(tool: Tool, cluster: Cluster) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    whose = (
        *server,
        "--entity-type",
        "users",
        "--entity-name",
        "a user",
        "--entity-type",
        "clients",
        "--entity-default",
    )
    tool(CONFIGS, *whose, "--alter", "--add-config", "producer_byte_rate=1048576,request_percentage=12.5")
    said = tool(CONFIGS, *whose, "--describe")
    assert "user-principal 'a user'" in said
    assert {"producer_byte_rate=1048576.0", "request_percentage=12.5"} <= set(re.split(r"[ ,\n]+", said))
    tool(CONFIGS, *whose, "--alter", "--delete-config", "producer_byte_rate,request_percentage")
    assert "1048576" not in tool(CONFIGS, *whose, "--describe")


@pytest.mark.card("configs", client=TOOLS)
def test_users_are_described(tool: Tool, cluster: Cluster) -> None:
    """Their tool asks for quotas and for passwords, and gives up where it is not told of both."""
    users = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "users")
    tool(CONFIGS, *users, "--entity-name", "carol", "--alter", "--add-config", "consumer_byte_rate=1048577")
    quota = "Quota configs for user-principal 'carol' are consumer_byte_rate=1048577.0"
    assert quota in tool(CONFIGS, *users, "--describe").splitlines()
    assert tool(CONFIGS, *users, "--entity-name", "carol", "--describe").splitlines() == [quota]
    assert tool(CONFIGS, *users, "--entity-name", "nobody", "--describe") == ""


@pytest.mark.long
@pytest.mark.card("dump-log", client=TOOLS)
@pytest.mark.parametrize(("codec", "level"), [("gzip", 9), ("lz4", 12), ("zstd", 15)])
def test_what_is_packed_anew_is_read(tool: Tool, cluster: Cluster, topic: str, codec: str, level: int) -> None:
    cluster.create(topic, config={"compression.type": codec, f"compression.{codec}.level": str(level)})
    server = ("--bootstrap-server", cluster.bootstrap, "--topic", topic)
    lines = [f"line {number}" for number in range(2000)]
    tool(CONSOLE_PRODUCER, *server, given="\n".join(lines) + "\n")
    read = tool(CONSOLE_CONSUMER, *server, "--partition", 0, "--offset", 0, "--max-messages", 2000)
    assert read.splitlines() == lines


@pytest.mark.long
@pytest.mark.card("delete-records", client=TOOLS)
def test_records_are_deleted(tool: Tool, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.create(topic)
    server = ("--bootstrap-server", cluster.bootstrap)
    tool(CONSOLE_PRODUCER, *server, "--topic", topic, given="one\ntwo\nthree\n")
    file = tmp_path / "offsets.json"
    offsets = {"partitions": [{"topic": topic, "partition": 0, "offset": 2}], "version": 1}
    file.write_text(json.dumps(offsets))
    said = tool(DELETE_RECORDS, *server, "--offset-json-file", file)
    assert f"partition: {topic}-0\tlow_watermark: 2" in said
    assert tool(OFFSETS, *server, "--topic", topic, "--time", "earliest").split() == [f"{topic}:0:2"]


@pytest.mark.long
@pytest.mark.card("describe-producers", client=TOOLS)
def test_producers_are_described(tool: Tool, cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    server = ("--bootstrap-server", cluster.bootstrap)
    tool(CONSOLE_PRODUCER, *server, "--topic", topic, given="one\ntwo\nthree\n")
    said = tool(TRANSACTIONS, *server, "describe-producers", "--topic", topic, "--partition", 0)
    assert re.search(r"^\d+\s+0\s+-1\s+2\s+\d+\s+None", said, re.MULTILINE), said


@pytest.mark.card("dump-log", client=TOOLS)
def test_dump_log_reads_what_producer_performance_wrote(tool: Tool, cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    props = (f"bootstrap.servers={cluster.bootstrap}", "compression.type=lz4", "linger.ms=5")
    options = ("--topic", topic, "--num-records", 1000, "--record-size", 100, "--throughput", -1)
    tool(PRODUCER_PERFORMANCE, *options, "--producer-props", *props)
    [segment] = (cluster.data / f"{topic}-0").glob("*.log")
    said = tool(DUMP_LOG, "--deep-iteration", "--files", segment)
    assert [int(one) for one in re.findall(r"^\| offset: (\d+)", said, re.MULTILINE)] == list(range(1000))
    assert "isvalid: false" not in said
    assert "compresscodec: lz4" in said


def rows(said: str, group: str) -> list[list[str]]:
    """The lines about a group, without topics of others."""
    return sorted(line.split() for line in said.splitlines() if line.startswith(group))


@pytest.mark.card("groups", client=TOOLS)
def test_a_console_consumer_in_a_group_and_its_lag(tool: Tool, cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    on = ("--bootstrap-server", cluster.bootstrap)
    tool(CONSOLE_PRODUCER, *on, "--topic", topic, given="1\n2\n3\n4\n5\n")
    group = f"{topic}.group"
    begin = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", 3)
    assert tool(CONSOLE_CONSUMER, *on, *begin).split() == ["1", "2", "3"]
    [found] = rows(tool(GROUPS, *on, "--describe", "--group", group), group)
    assert found[1:6] == [topic, "0", "3", "5", "2"]


@pytest.mark.long
@pytest.mark.card("groups", client=TOOLS)
def test_groups_are_listed_reset_and_deleted(tool: Tool, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, partitions=2)
    on, group = ("--bootstrap-server", cluster.bootstrap), f"{topic}.group"
    tool(CONSOLE_PRODUCER, *on, "--topic", topic, given="".join(f"{number}\n" for number in range(20)))
    to = ("--reset-offsets", "--group", group, "--topic", topic)
    tool(GROUPS, *on, *to, "--to-latest", "--execute")
    said = rows(tool(GROUPS, *on, "--describe", "--group", group), group)
    assert sum(int(row[3]) for row in said) == 20
    tool(GROUPS, *on, *to, "--to-earliest", "--execute")
    assert {row[3] for row in rows(tool(GROUPS, *on, "--describe", "--group", group), group)} == {"0"}
    assert group in tool(GROUPS, *on, "--list").split()
    assert "Empty" in tool(GROUPS, *on, "--describe", "--group", group, "--state")
    tool(GROUPS, *on, "--delete-offsets", "--group", group, "--topic", topic)
    tool(GROUPS, *on, *to, "--to-latest", "--execute")
    tool(GROUPS, *on, "--delete", "--group", group)
    assert group not in tool(GROUPS, *on, "--list").split()


@pytest.mark.long
@pytest.mark.card("groups", client=TOOLS)
def test_consumer_performance(tool: Tool, cluster: Cluster, topic: str) -> None:
    cluster.create(topic, partitions=2)
    to = ("--producer-props", f"bootstrap.servers={cluster.bootstrap}")
    tool(PRODUCER_PERFORMANCE, "--topic", topic, "--num-records", 5000, "--record-size", 100, "--throughput", -1, *to)
    said = tool(CONSUMER_PERFORMANCE, "--bootstrap-server", cluster.bootstrap, "--topic", topic, "--messages", 5000)
    assert int(said.splitlines()[-1].split(", ")[4]) >= 5000
