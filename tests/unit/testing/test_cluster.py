"""The cluster that Ottla offers to the tests of others, used as they would use it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from ottla.cli.processes import started
from ottla.testing import Cluster, ClusterError
from tests.peers import wait_until


def produce(servers: str, value: bytes) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("t", value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(120) == 0
    assert failed == []


def consume(servers: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    messages = consumer.consume(count, timeout=120)
    consumer.close()
    return [message.value() for message in messages]


def wait_for_isr(servers: str, wanted: list[int]) -> None:
    def is_in_sync() -> bool:
        # A client that knows all brokers may go on asking one that is cut off, and hears what that one knew.
        admin = AdminClient({"bootstrap.servers": servers})
        return sorted(admin.list_topics("t", timeout=120).topics["t"].partitions[0].isrs) == wanted

    wait_until(is_in_sync, timeout_s=120, what=f"{wanted} are in sync", interval_s=0.1)


@pytest.mark.ottla(settings={"num.partitions": "3"}, keepers=3)
def test_the_fixture_gives_a_cluster_that_clients_can_use(ottla_cluster: Cluster) -> None:
    produce(ottla_cluster.bootstrap, b"value")
    admin = AdminClient({"bootstrap.servers": ottla_cluster.bootstrap})
    assert len(admin.list_topics("t", timeout=120).topics["t"].partitions) == 3
    client = KazooClient(ottla_cluster.keepers)
    client.start(timeout=120)
    try:
        client.sync("/")  # a follower may be behind
        assert client.get_children("/brokers/ids") == ["1"]
    finally:
        client.stop()
        client.close()
    assert len({ottla_cluster.pid(number, "keeper") for number in (1, 2, 3)}) == 3


def test_a_broker_is_killed_and_started_again(ottla_cluster: Cluster) -> None:
    produce(ottla_cluster.bootstrap, b"one")
    before = ottla_cluster.pid(1)
    ottla_cluster.kill(1)
    with pytest.raises(ClusterError, match="broker 1 does not run"):
        while True:
            ottla_cluster.pid(1)
            time.sleep(0.01)
    ottla_cluster.restart(1)
    assert ottla_cluster.pid(1) != before
    produce(ottla_cluster.bootstrap, b"two")
    assert consume(ottla_cluster.bootstrap, 2) == [b"one", b"two"]


def test_a_broker_that_is_paused_answers_nobody_until_it_goes_on(ottla_cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": ottla_cluster.bootstrap})
    admin.list_topics(timeout=120)
    ottla_cluster.pause(1)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    ottla_cluster.resume(1)
    assert 1 in admin.list_topics(timeout=120).brokers


@pytest.mark.ottla(brokers=3, settings={"default.replication.factor": "3", "min.insync.replicas": "2"})
def test_three_brokers_carry_on_without_one_of_them(ottla_cluster: Cluster) -> None:
    produce(ottla_cluster.bootstrap, b"one")
    admin = AdminClient({"bootstrap.servers": ottla_cluster.bootstrap})
    leader = admin.list_topics("t", timeout=120).topics["t"].partitions[0].leader
    ottla_cluster.kill(leader)
    produce(ottla_cluster.bootstrap, b"two")
    ottla_cluster.restart(leader)
    assert consume(ottla_cluster.bootstrap, 2) == [b"one", b"two"]


@pytest.mark.ottla(
    brokers=3,
    partitions=True,
    settings={
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "zookeeper.session.timeout.ms": "4000",
    },
)
def test_a_leader_that_is_cut_off_is_replaced_and_follows_when_it_is_back(ottla_cluster: Cluster) -> None:
    produce(ottla_cluster.bootstrap, b"one")
    admin = AdminClient({"bootstrap.servers": ottla_cluster.bootstrap})
    before = admin.list_topics("t", timeout=120).topics["t"].partitions[0]
    assert sorted(before.isrs) == [1, 2, 3]
    ottla_cluster.partition(before.leader)
    others = ",".join(each for at, each in enumerate(ottla_cluster.bootstrap.split(","), 1) if at != before.leader)
    wait_for_isr(others, sorted({1, 2, 3} - {before.leader}))
    produce(others, b"two")
    ottla_cluster.heal()
    wait_for_isr(ottla_cluster.bootstrap, [1, 2, 3])
    assert consume(ottla_cluster.bootstrap, 2) == [b"one", b"two"]


def test_only_a_cluster_that_was_asked_for_it_can_be_cut(ottla_cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="partitions=True"):
        ottla_cluster.partition(1)


def test_nothing_is_left_of_a_cluster_without_a_folder() -> None:
    with Cluster() as cluster:
        folder, pid = cluster.folder, cluster.pid(1)
        cluster.pause(1)
    assert not folder.exists()
    assert started(pid) is None


def test_what_cannot_start_says_why() -> None:
    with pytest.raises(ClusterError, match=r"log\.retention\.hours"):
        Cluster(settings={"log.retention.hours": "soon"}).start()


def test_a_cluster_that_was_never_started_stops_and_leaves_the_current_directory_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").write_text("of somebody else")
    Cluster().stop()
    assert (tmp_path / "work").read_text() == "of somebody else"


def test_a_cluster_that_failed_to_start_is_stopped_once_and_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").write_text("of somebody else")
    cluster = Cluster(settings={"log.retention.hours": "soon"})
    with pytest.raises(ClusterError):
        cluster.start()
    assert not cluster.folder.exists()
    cluster.stop()
    assert (tmp_path / "work").exists()
