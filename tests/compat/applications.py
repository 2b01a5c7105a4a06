"""Kafka's own applications as processes, unmodified: Connect, MirrorMaker 2, and programs on Kafka Streams."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.peers import Process, free_ports, maven, wait_until
from tests.peers.builds import java_classes
from tests.peers.kafka import JAVA

T = TypeVar("T")

LIBRARIES = "kafka-applications-3.9.1"
CONNECT = "org.apache.kafka.connect.cli.ConnectDistributed"
MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"
PATIENCE_S = 120.0
"""How long anything may take; a JVM on a busy machine needs many seconds to begin with."""

QUICK_MEMBERS = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
"""The shortest session that brokers allow: a member that was killed is missed soon."""


def waits(probe: Callable[[], T | None], what: str) -> T:
    return wait_until(probe, timeout_s=PATIENCE_S, what=what, interval_s=0.2)


def write_properties(file: Path, settings: Mapping[str, str]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file


class Application(Process):
    """A program on the JVM, in a folder of its own."""

    def __init__(self, folder: Path, class_path: str, *words: str | Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        told = "-Dorg.slf4j.simpleLogger.showDateTime=true"
        super().__init__([*JAVA, told, "-cp", class_path, *words], log=folder / "log", cwd=folder)

    def errors(self) -> list[str]:
        """What it told as an error, over all its lives."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if re.search(r"\] ERROR ", line)]


@contextmanager
def running(*applications: Application) -> Iterator[None]:
    """Starts them; what one said last is shown if the test fails."""
    try:
        for application in applications:
            application.start()
        yield
    except BaseException as error:
        for application in applications:
            error.add_note(f"{application.log}:\n{application.tail(25)}")
        raise
    finally:
        for application in applications:
            application.kill()


class Worker(Application):
    """A worker of Connect, and what its REST interface is asked."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        config = write_properties(
            folder / "worker.properties",
            {
                "bootstrap.servers": bootstrap,
                "listeners": self._url,
                "group.id": "connect",
                **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")},
                **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                "offset.flush.interval.ms": "1000",
                "scheduled.rebalance.max.delay.ms": "0",
                "plugin.discovery": "service_load",
                **QUICK_MEMBERS,
                **{f"consumer.{name}": value for name, value in QUICK_MEMBERS.items()},
            },
        )
        super().__init__(folder, maven.class_path(LIBRARIES), CONNECT, config)

    def ask(self, path: str, *, method: str = "GET", body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, data=data, method=method, headers={"Content-Type": "application/json"})
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read() or b"null")

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Makes a connector once the worker takes one: it refuses while its group is being formed."""

        def done() -> bool:
            if not self.running:
                raise RuntimeError(f"the worker ended with {self.returncode}")
            try:
                self.ask(f"/connectors/{name}/config", method="PUT", body=config)
            except HTTPError as error:
                with error:
                    if error.code not in (404, 409, 500, 503):
                        raise RuntimeError(f"{error.code}: {error.read().decode()}") from None
                return False
            except (URLError, ConnectionError):
                return False
            return True

        waits(done, f"{name} is configured")

    def runs(self, *names: str) -> bool:
        """Whether these connectors run, each with its one task."""
        try:
            told = [self.ask(f"/connectors/{name}/status") for name in names]
        except HTTPError as error:
            error.close()
            return False
        except (URLError, ConnectionError):
            return False
        return all([each["state"] for each in (one["connector"], *one["tasks"])] == ["RUNNING"] * 2 for one in told)


def streams_program(source: Path, bootstrap: str, folder: Path, settings: Mapping[str, str]) -> Application:
    """An instance of a program on Kafka Streams, which keeps its state in its folder."""
    config = write_properties(
        folder / "streams.properties",
        {"bootstrap.servers": bootstrap, "state.dir": str(folder / "state"), **QUICK_MEMBERS, **settings},
    )
    return Application(folder, java_classes(source, LIBRARIES), source.stem, config)


def mirror_maker(source: str, target: str, folder: Path) -> Application:
    """MirrorMaker 2 from a cluster ``source`` to a cluster ``target``, which looks for changes every second."""
    kept = ("replication", "config.storage.replication", "offset.storage.replication", "status.storage.replication")
    made = ("checkpoints", "heartbeats", "offset-syncs")
    looks = ("refresh.topics", "refresh.groups", "sync.topic.configs", "emit.checkpoints", "sync.group.offsets")
    config = write_properties(
        folder / "mm2.properties",
        {
            "clusters": "source, target",
            "source.bootstrap.servers": source,
            "target.bootstrap.servers": target,
            "source->target.enabled": "true",
            "target->source.enabled": "false",
            "target->source.emit.heartbeats.enabled": "false",
            "sync.group.offsets.enabled": "true",
            **{f"{name}.interval.seconds": "1" for name in looks},
            **{f"{name}.factor": "1" for name in (*kept, *(f"{topic}.topic.replication" for topic in made))},
            "offset.lag.max": "0",
            # What is meant for its workers has to be told as that of the cluster they write to.
            "target.offset.flush.interval.ms": "1000",
            "target.scheduled.rebalance.max.delay.ms": "0",
            **{f"target.{name}": value for name, value in QUICK_MEMBERS.items()},
        },
    )
    return Application(folder, maven.class_path(LIBRARIES), MIRROR_MAKER, config)


class Watch:
    """What a cluster holds and says of itself, seen by librdkafka; it leaves no group behind that MirrorMaker would find."""

    def __init__(self, bootstrap: str) -> None:
        self._at: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.admin = AdminClient(self._at)

    def _consumer(self) -> Consumer:
        return Consumer({**self._at, "group.id": "none", "enable.auto.commit": False})

    def partitions(self, topic: str) -> int:
        """How many a topic has; none if there is no such topic, and nobody makes it by asking."""
        found = self.admin.list_topics(timeout=PATIENCE_S).topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=PATIENCE_S).topics)

    def config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self.admin.describe_configs([resource], request_timeout=PATIENCE_S)[resource].result(PATIENCE_S)
        return {name: entry.value for name, entry in found.items()}

    def ends(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first and the next offset of every partition."""
        consumer = self._consumer()
        try:
            parts = range(self.partitions(topic))
            return {n: consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=PATIENCE_S) for n in parts}
        finally:
            consumer.close()

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        asked = ConsumerGroupTopicPartitions(group)
        try:
            found = self.admin.list_consumer_group_offsets([asked], request_timeout=PATIENCE_S)[group].result(
                PATIENCE_S
            )
        except KafkaException:
            return {}  # while its coordinator is being found
        return {(each.topic, each.partition): each.offset for each in found.topic_partitions}

    def members(self, group: str) -> list[int]:
        """How many partitions each member has, if the group is stable."""
        found = self.admin.describe_consumer_groups([group], request_timeout=PATIENCE_S)[group].result(PATIENCE_S)
        if found.state.name != "STABLE":
            return []
        return [len(member.assignment.topic_partitions) for member in found.members]

    def read(self, topic: str) -> list[Message]:
        """Everything that is there now, partition by partition."""
        consumer = self._consumer()
        ends = {number: end for number, (first, end) in self.ends(topic).items() if end > first}
        found: list[Message] = []
        try:
            for number, end in sorted(ends.items()):
                consumer.assign([TopicPartition(topic, number, 0)])
                position = 0
                while position < end:
                    for message in consumer.consume(1000, timeout=0.2):
                        assert message.error() is None, message.error()
                        found.append(message)
                    (at,) = consumer.position([TopicPartition(topic, number)])
                    position = max(position, at.offset)
        finally:
            consumer.close()
        return found
