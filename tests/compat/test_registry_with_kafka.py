"""Apache Kafka 3.9.1 and our registry on the same znodes: each understands what the other wrote."""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from ottla.metadata import BrokerId, Image, ReplicaAssignment, TopicPartition
from ottla.metadata.configs import BrokerSources, ConfigEntry, describe_broker, describe_topic, static_properties
from ottla.metadata.ids import topic_id_from
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.configs import broker_entity, topic_entity
from ottla.metadata.znodes.orders import encode_partitions, encode_reassignment
from ottla.metadata.znodes.topics import TopicAssignment
from ottla.registry import ChildrenChanged, DataChanged, KazooStore, Registry, ZnodeStore
from tests.compat.kafka_traffic import carried, nothing_lost, settled, told, traffic
from tests.peers import OttlaKeepers, maven
from tests.peers.ensemble import JAVA
from tests.peers.kafka import LIBRARIES, KafkaBrokers
from tests.znodes import again

ZERO = BrokerId(0)
OURS = TopicPartition("ours", 0)


class Mixed(NamedTuple):
    """A real broker on our keeper."""

    connect: str
    brokers: KafkaBrokers
    folder: Path


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    folder = tmp_path_factory.mktemp("mixed")
    with OttlaKeepers(1, folder) as keepers:
        connect = f"{keepers.hosts}/kafka"
        with KafkaBrokers(1, connect, folder) as brokers:
            yield Mixed(connect, brokers, folder)


async def tree(store: ZnodeStore, root: str = "/") -> dict[str, bytes]:
    """Every znode below ``root`` with its data, level by level."""
    level, found = [root], dict[str, bytes]()
    while level:
        data = await store.get_many(level)
        found.update({path: znode.data for path, znode in zip(level, data, strict=True) if znode is not None})
        below = zip(level, await store.children_many(level), strict=True)
        level = [f"{path.rstrip('/')}/{name}" for path, names in below for name in names or ()]
    return found


async def led(store: ZnodeStore, where: TopicPartition) -> None:
    """Waits until the controller has brought a partition up."""
    store.watch_data(paths.partition_state(where))
    async with asyncio.timeout(120):
        async for event in store.events():
            if isinstance(event, DataChanged) and event.znode is not None:
                return


async def gone(store: ZnodeStore, root: str, name: str) -> None:
    """Waits until there is nothing of that name below ``root``."""
    store.watch_children(root)
    async with asyncio.timeout(120):
        async for event in store.events():
            if isinstance(event, ChildrenChanged) and event.path == root and name not in (event.children or ()):
                return


def test_a_topic_of_ours_is_led_by_kafka_and_every_znode_is_read_and_written_alike(mixed: Mixed) -> None:
    async def create() -> Image:
        async with KazooStore(mixed.connect) as store:
            registry = Registry(store)
            topic = TopicAssignment(
                topic_id_from(bytes(range(16))), {0: ReplicaAssignment((ZERO,)), 1: ReplicaAssignment((ZERO,))}
            )
            await registry.topics.create("ours", topic, {"segment.bytes": "200000", "retention.ms": "100000000"})
            await registry.configs.write(topic_entity("ours"), {"segment.bytes": "100000"})
            await led(store, OURS)
            return await registry.read_image()

    async def read_all() -> dict[str, bytes]:
        async with KazooStore(mixed.connect) as store:
            return await tree(store)

    async def delete() -> None:
        async with KazooStore(mixed.connect) as store:
            registry = Registry(store)
            await registry.topics.request_deletion("ours")
            await gone(store, paths.TOPICS, "ours")
            await gone(store, paths.DELETE_TOPICS, "ours")

    image = asyncio.run(create())
    state = image.state(OURS)
    assert state is not None
    assert (state.leader, state.isr) == (ZERO, (ZERO,))
    assert image.controller is not None
    assert image.controller.broker_id == ZERO
    assert image.endpoint(ZERO, "PLAINTEXT") is not None
    with traffic(mixed.brokers, mixed.folder / "traffic.log") as program:
        told(program, "create theirs 13 1")
        for topic in ("ours", "theirs"):
            told(program, f"start {topic}")
            carried(program, topic, more=20)
            nothing_lost(program, topic)
    znodes = {path: data for path, data in asyncio.run(read_all()).items() if data}
    assert {"/brokers/ids/0", "/brokers/topics/theirs", "/cluster/id", "/feature", "/controller"} <= znodes.keys()
    assert {path: again(path, data) for path, data in znodes.items()} == znodes
    asyncio.run(delete())


def tool(brokers: KafkaBrokers, name: str, *arguments: str) -> str:
    """Runs one of Kafka's own tools."""
    command = [*JAVA, "-cp", maven.class_path(LIBRARIES), f"kafka.admin.{name}"]
    command += ["--bootstrap-server", brokers.bootstrap, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


def described(mixed: Mixed, *entity: str) -> dict[str, str]:
    """What DescribeConfigs of the real broker says, in the words of its own tool."""
    said = tool(mixed.brokers, "ConfigCommand", "--describe", "--all", *entity)
    lines = re.findall(r"^  ([\w.]+)=(.*)$", said, re.MULTILINE)
    return dict(lines)


def shown(entry: ConfigEntry) -> str:
    """An entry in the words of Kafka's tool."""
    synonyms = ", ".join(f"{value.source.name}:{value.name}={_or_null(value.text)}" for value in entry.synonyms)
    return f"{_or_null(entry.text)} sensitive={str(entry.sensitive).lower()} synonyms={{{synonyms}}}"


def _or_null(text: str | None) -> str:
    return "null" if text is None else text


def wait_described(mixed: Mixed, ours: dict[str, str], *entity: str) -> None:
    """Kafka hears of a change in its own time."""
    theirs = described(mixed, *entity)
    deadline = time.monotonic() + 120
    while theirs != ours and time.monotonic() < deadline:
        theirs = described(mixed, *entity)
    assert ours == theirs


def test_settings_are_described_as_kafka_describes_them(mixed: Mixed) -> None:
    async def change() -> None:
        async with KazooStore(mixed.connect) as store:
            registry = Registry(store)
            topic = TopicAssignment(topic_id_from(bytes(range(1, 17))), {0: ReplicaAssignment((ZERO,))})
            await registry.topics.create("described", topic, {"cleanup.policy": "compact,delete"})
            await registry.configs.write(broker_entity(None), dynamic_default)
            await registry.configs.write(broker_entity(ZERO), dynamic)
            await led(store, TopicPartition("described", 0))

    dynamic_default = {"log.segment.bytes": "7000000", "log.retention.ms": "7000000"}
    dynamic = {"log.segment.bytes": "8000000"}
    asyncio.run(change())
    static = dict(
        line.split("=", 1) for line in (mixed.folder / "broker-0" / "server.properties").read_text().splitlines()
    )
    sources = BrokerSources(static_properties(static), dynamic_default, dynamic)
    ours = {entry.name: shown(entry) for entry in describe_topic({"cleanup.policy": "compact,delete"}, sources)}
    wait_described(mixed, ours, "--entity-type", "topics", "--entity-name", "described")
    ours = {entry.name: shown(entry) for entry in describe_broker(sources)}
    wait_described(mixed, ours, "--entity-type", "brokers", "--entity-name", "0")


class Recorder:
    """Everything that was ever seen in a tree, taken again and again in a thread of its own."""

    def __init__(self, connect: str) -> None:
        self.seen: set[tuple[str, bytes]] = set()
        self._connect = connect
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._record()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    async def _record(self) -> None:
        async with KazooStore(self._connect) as store:
            while not self._stopping.is_set():
                self.seen.update((path, data) for path, data in (await tree(store)).items() if data)


async def order(connect: str, path: str, data: bytes) -> None:
    """Leaves an order for the controller and waits until it has taken it."""
    async with KazooStore(connect) as store:
        await store.create(path, data)
        root, _, name = path.rpartition("/")
        await gone(store, root, name)


@pytest.mark.long
def test_every_znode_of_three_busy_brokers_is_read_and_written_alike(tmp_path: Path) -> None:
    authorizer = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
    moved = [TopicPartition("moved", number) for number in range(4)]
    with (
        OttlaKeepers(1, tmp_path) as keepers,
        KafkaBrokers(3, keepers.hosts, tmp_path, settings=authorizer) as brokers,
        Recorder(keepers.hosts) as recorder,
        traffic(brokers, tmp_path / "traffic.log") as program,
    ):
        told(program, "create moved 4 2")
        told(program, "start moved")
        carried(program, "moved", more=50)
        turned = {where: (BrokerId(2), BrokerId(where.partition % 2)) for where in moved}
        asyncio.run(order(keepers.hosts, paths.REASSIGN_PARTITIONS, encode_reassignment(turned)))
        asyncio.run(order(keepers.hosts, paths.PREFERRED_REPLICA_ELECTION, encode_partitions(moved)))
        rule = ("--add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "moved")
        tool(brokers, "AclCommand", *rule)
        tool(brokers, "AclCommand", *rule, "--resource-pattern-type", "prefixed")
        quota = (
            "--alter",
            "--add-config",
            "producer_byte_rate=9000000",
            "--entity-type",
            "users",
            "--entity-name",
            "a b/c",
        )
        tool(brokers, "ConfigCommand", *quota, "--entity-type", "clients", "--entity-default")
        settled(program, "moved", without=None)
        brokers.kill(2)
        settled(program, "moved", without=2)
        carried(program, "moved", more=50)
        nothing_lost(program, "moved")
    wrong = {(path, data) for path, data in recorder.seen if again(path, data) != data}
    assert not wrong
    kinds = {path.split("/")[1] for path, _ in recorder.seen}
    assert {"kafka-acl", "kafka-acl-extended", "kafka-acl-changes", "kafka-acl-extended-changes", "config"} <= kinds
    assert any(b'"adding_replicas":{"' in data for _, data in recorder.seen)
    assert any(path.startswith("/config/users/a%20b%2Fc/clients/") for path, _ in recorder.seen)
