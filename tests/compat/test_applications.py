"""Kafka's own applications run on Ottla as they are: Connect, Streams and MirrorMaker 2, each of them killed with -9.

They use what plain clients do not: they make their own topics, compacted where they must be, keep their state in them, form
groups of other protocols than consumers', and delete records that they are done with. All of them promise that a record
arrives at least once. The same tests pass on Apache Kafka 3.9.1, which shows that they ask for nothing that Kafka does not do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from tests.compat import applications
from tests.compat.applications import PATIENCE_S, Watch, Worker, mirror_maker, streams_program, waits
from tests.compat.clients.cluster import KINDS, Cluster
from tests.compat.clients.cluster import running as running_cluster

OURS, APACHES = KINDS
WORD_COUNT = Path(__file__).parent / "java" / "WordCount.java"
FILE = "org.apache.kafka.connect.file.FileStream{}Connector"


@pytest.fixture(params=[OURS, pytest.param(APACHES, marks=pytest.mark.long)], ids=["ottla", "apache"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def cluster(kind: str, tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(kind, tmp_path / "cluster") as found:
        yield found


def produce(bootstrap: str, topic: str, records: list[tuple[int, bytes | None, bytes | None]]) -> None:
    """Records with partitions, keys and values; with headers and times of their own too."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    lost: list[object] = []
    for number, (partition, key, value) in enumerate(records):
        producer.produce(
            topic,
            value,
            key,
            partition,
            timestamp=1_700_000_000_000 + number,
            headers=[("n", b"%d" % number), ("none", None)],
            on_delivery=lambda error, _: lost.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert lost == []


# ---------------------------------------------------------------- Connect


def lines(begin: int, end: int) -> str:
    return "".join(f"line {number}\n" for number in range(begin, end))


def arrived(sink: Path) -> Counter[str]:
    """The whole lines of a file that a connector writes to."""
    text = sink.read_text() if sink.exists() else ""
    return Counter(text[: text.rfind("\n") + 1].splitlines())


def append(file: Path, text: str) -> None:
    with file.open("a") as output:
        output.write(text)


def carry(worker: Worker, source: Path, sink: Path) -> None:
    """A connector that reads a file into a topic, and another that writes the topic to a file."""
    more = {
        "topic": "carried",
        "file": str(source),
    }  # what a batch leaves over waits for more lines, so batches are large
    worker.configure("source", {"connector.class": FILE.format("Source"), "tasks.max": "1", **more})
    more = {"topics": "carried", "file": str(sink)}
    worker.configure("sink", {"connector.class": FILE.format("Sink"), "tasks.max": "1", **more})


def all_arrived(sink: Path, count: int) -> None:
    wanted = set(lines(0, count).splitlines())
    waits(lambda: arrived(sink).keys() >= wanted, f"{count} lines arrive")


def test_connect_carries_a_file_and_its_worker_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    append(source, lines(0, 700))
    watch = Watch(cluster.bootstrap)
    worker = Worker(cluster.bootstrap, tmp_path / "worker")
    with applications.running(worker):
        carry(worker, source, sink)
        all_arrived(sink, 700)
        assert set(arrived(sink).values()) == {1}, "nothing was killed, so nothing comes twice"
        kept = waits(lambda: worker.ask("/connectors/sink/offsets")["offsets"], "the sink has committed")
        assert kept[0]["partition"] == {"kafka_topic": "carried", "kafka_partition": 0}
        worker.kill()
        append(source, lines(700, 1400))
        worker.start()
        all_arrived(sink, 1400)
        assert arrived(sink).keys() == set(lines(0, 1400).splitlines())
        waits(lambda: worker.runs("source", "sink"), "connectors run")
        assert worker.errors() == []
    for name, partitions in (("config", 1), ("offset", 25), ("status", 5)):
        assert watch.partitions(f"connect-{name}") == partitions
        assert watch.config(f"connect-{name}")["cleanup.policy"] == "compact"
    assert len(watch.read("carried")) >= 1400


@pytest.mark.long
@pytest.mark.timeout(900)
def test_connect_goes_over_to_another_worker(cluster: Cluster, tmp_path: Path) -> None:
    """Each of two workers is killed while lines come in, and the other one takes its tasks."""
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    append(source, lines(0, 500))
    workers = [Worker(cluster.bootstrap, tmp_path / f"worker-{number}") for number in range(2)]
    with applications.running(*workers):
        carry(workers[0], source, sink)
        all_arrived(sink, 500)
        for number, worker in enumerate(workers):
            append(source, lines(500 + 1000 * number, 1000 + 1000 * number))
            worker.kill()
            append(source, lines(1000 + 1000 * number, 1500 + 1000 * number))
            all_arrived(sink, 1500 + 1000 * number)
            waits(partial(workers[1 - number].runs, "source", "sink"), "the other one runs both")
            worker.start()
            waits(partial(worker.runs, "source", "sink"), "it is back")
        assert arrived(sink).keys() == set(lines(0, 2500).splitlines())
        # A connector that is deleted is gone from the topic of settings, for both.
        workers[0].ask("/connectors/source", method="DELETE")
        waits(lambda: workers[1].ask("/connectors") == ["sink"], "both know that one is deleted")


# ---------------------------------------------------------------- Streams


def told_last(watch: Watch) -> dict[str, int]:
    """The count that was told last of every word."""
    return {text(each.key()): int(text(each.value())) for each in watch.read("counts")}


def text(data: bytes | str | None) -> str:
    assert isinstance(data, bytes)
    return data.decode()


def speak(bootstrap: str, words: list[str], times: int) -> None:
    """Lines of words in all partitions, each word as often as it is told."""
    line = " ".join(words).encode()
    produce(bootstrap, "lines", [(number % 4, None, line) for number in range(times)])


@pytest.mark.long
@pytest.mark.timeout(900)
def test_streams_counts_words_and_an_instance_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """What was committed before the kill is not counted again; what came after it is counted at least once."""
    cluster.create("lines", partitions=4)
    cluster.create("counts", partitions=2)
    watch = Watch(cluster.bootstrap)
    settings = {
        "application.id": "words",
        "processing.guarantee": "at_least_once",
        "commit.interval.ms": "500",
        "repartition.purge.interval.ms": "1000",
        "auto.offset.reset": "earliest",
    }
    instances = [streams_program(WORD_COUNT, cluster.bootstrap, tmp_path / f"{n}", settings) for n in range(2)]
    before, always, after = ([f"{name}{n}" for n in range(40)] for name in ("before", "always", "after"))
    with applications.running(*instances):
        waits(lambda: len(watch.members("words")) == 2 and all(watch.members("words")), "both have partitions")
        speak(cluster.bootstrap, before + always, 100)
        waits(lambda: told_last(watch) == dict.fromkeys(before + always, 100), "words are counted, exactly")
        waits(lambda: all_committed(watch), "all of it is committed")
        instances[0].kill()
        speak(cluster.bootstrap, always + after, 100)
        waits(
            lambda: at_least(watch, dict.fromkeys(before + after, 100) | dict.fromkeys(always, 200)), "the other counts"
        )
        instances[0].start()
        waits(lambda: len(watch.members("words")) == 2 and all(watch.members("words")), "it is back")
        speak(cluster.bootstrap, always, 100)
        waits(lambda: at_least(watch, dict.fromkeys(always, 300)), "both count")
        counts = told_last(watch)
        waits(lambda: purged(watch), "what was repartitioned is deleted")
        instances[1].stop()
        assert instances[1].returncode == 143, "it left by itself"
        waits(lambda: len(watch.members("words")) == 1, "it left the group")
        assert [line for each in instances for line in each.errors()] == []
    assert {word: counts[word] for word in before} == dict.fromkeys(before, 100), "committed, so not counted again"
    assert watch.config("words-store-changelog")["cleanup.policy"] == "compact"
    assert watch.config("words-words-repartition")["cleanup.policy"] == "delete"
    assert watch.partitions("words-store-changelog") == watch.partitions("words-words-repartition") == 4


def all_committed(watch: Watch) -> bool:
    committed = watch.committed("words")
    topics = ("lines", "words-words-repartition")
    ends = {(topic, n): end for topic in topics for n, (_, end) in watch.ends(topic).items() if end}
    return bool(ends) and ends.items() <= committed.items()


def at_least(watch: Watch, wanted: dict[str, int]) -> bool:
    counts = told_last(watch)
    return all(counts.get(word, 0) >= count for word, count in wanted.items())


def purged(watch: Watch) -> bool:
    return all(first == end for first, end in watch.ends("words-words-repartition").values())


# ---------------------------------------------------------------- MirrorMaker 2


def fields(message: Message) -> tuple[object, ...]:
    return message.partition(), message.key(), message.value(), message.timestamp(), tuple(message.headers() or ())


def alter(watch: Watch, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    watch.admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, n, at) for n, at in offsets.items()], asynchronous=False)
    consumer.close()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_mirror_maker_copies_a_topic_and_is_killed(kind: str, tmp_path: Path) -> None:
    """Topic, partitions, settings, records and the offsets of groups go over, and go on going over after a kill."""
    with ExitStack() as stack:
        source = stack.enter_context(running_cluster(kind, tmp_path / "source"))
        target = stack.enter_context(running_cluster(kind, tmp_path / "target"))
        there, here = Watch(source.bootstrap), Watch(target.bootstrap)
        config = {"retention.ms": "-1", "segment.bytes": "1000000", "max.message.bytes": "123456"}
        source.create("views", partitions=3, config=config)
        records: list[tuple[int, bytes | None, bytes | None]] = [
            (n % 3, None if n % 5 == 0 else b"key %d" % n, None if n % 7 == 0 else b"value %d" % n) for n in range(1500)
        ]
        produce(source.bootstrap, "views", records)
        commit(source.bootstrap, "readers", "views", {0: 500, 1: 500})  # of older ones the translation is a guess
        mirror = mirror_maker(source.bootstrap, target.bootstrap, tmp_path / "mirror")
        stack.enter_context(applications.running(mirror))

        waits(lambda: sum(end for _, end in here.ends("source.views").values()) >= 1500, "records are copied")
        assert [*map(fields, here.read("source.views"))] == [*map(fields, there.read("views"))]
        waits(lambda: config.items() <= here.config("source.views").items(), "settings are copied")
        waits(lambda: translated(here) == {0: 500, 1: 500}, "offsets of the group are translated")

        alter(there, "views", "segment.bytes", "2000000")
        there.admin.create_partitions([NewPartitions("views", 5)])["views"].result(PATIENCE_S)
        waits(lambda: here.config("source.views")["segment.bytes"] == "2000000", "a changed setting is copied")
        waits(lambda: here.partitions("source.views") == 5, "the copy grows")
        waits(lambda: here.read("heartbeats") and here.read("source.checkpoints.internal"), "checkpoints are made")
        assert there.ends("mm2-offset-syncs.target.internal")[0][1] > 0
        assert mirror.errors() == []

        mirror.kill()
        produce(source.bootstrap, "views", [(n % 5, b"late %d" % n, b"") for n in range(500)])
        mirror.start()
        wanted = {*map(fields, there.read("views"))}
        waits(lambda: {*map(fields, here.read("source.views"))} == wanted, "it goes on")
        assert mirror.errors() == []
        compacted = [f"mm2-{name}.source.internal" for name in ("offsets", "configs", "status")]
        for topic in (*compacted, "heartbeats", "source.checkpoints.internal"):
            assert here.config(topic)["cleanup.policy"] == "compact", topic
        assert there.config("mm2-offset-syncs.target.internal")["cleanup.policy"] == "compact"


def translated(watch: Watch) -> dict[int, int]:
    return {n: at for (topic, n), at in watch.committed("readers").items() if topic == "source.views" and at >= 0}
