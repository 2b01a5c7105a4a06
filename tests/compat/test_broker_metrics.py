"""``/metrics`` of a broker that real clients use: what they did is what it says, under Kafka's and kafka_exporter's names."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers
from tests.peers.processes import free_ports, wait_until

SAMPLE = re.compile(r'([a-z_:][a-z0-9_:]*)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')


class Page:
    """The samples of one scrape. Whatever a scraper could not read fails."""

    def __init__(self, port: int) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = answer.read().decode()
        self.types: dict[str, str] = {}
        self._samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in self.types, "a family comes in one piece"
                self.types[name] = kind
            elif not line.startswith("#"):
                found = SAMPLE.fullmatch(line)
                assert found is not None, line
                key = found[1], frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2] or ""))
                assert found[1] in self.types
                assert key not in self._samples, line
                self._samples[key] = float(found[3])

    def get(self, name: str, **labels: object) -> float:
        return self._samples[name, frozenset((key, str(value)) for key, value in labels.items())]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    folder: Path = tmp_path_factory.mktemp("metrics")
    [port] = free_ports(1)
    settings = {
        "ottla.metrics.port": str(port),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
    }
    with OttlaKeepers(1, folder) as keepers, OttlaBrokers(1, keepers.hosts, folder, settings=settings) as brokers:
        yield brokers.bootstrap, port


def test_traffic_logs_and_lag(broker: tuple[str, int]) -> None:
    bootstrap, port = broker
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("watched", 2, 1)])["watched"].result(timeout=120)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce("watched", b"x" * 100, partition=number % 2)
    producer.flush(120)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watchers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["watched"])
    assert len(consumer.consume(30, timeout=120)) == 30
    consumer.commit(offsets=[TopicPartition("watched", 0, 12), TopicPartition("watched", 1, 15)], asynchronous=False)

    page = Page(port)
    assert page.get("kafka_server_brokertopicmetrics_messagesin_total", topic="watched") == 30
    bytes_in = page.get("kafka_server_brokertopicmetrics_bytesin_total", topic="watched")
    assert bytes_in >= 3000
    assert page.get("kafka_server_brokertopicmetrics_bytesin_total") >= bytes_in
    assert page.get("kafka_server_brokertopicmetrics_bytesout_total", topic="watched") >= bytes_in
    assert page.get("kafka_log_log_logendoffset", topic="watched", partition=0) == 15
    assert page.get("kafka_log_log_size", topic="watched", partition=0) >= 1500
    assert page.get("kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert page.get("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert page.get("kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    assert page.get("kafka_topic_partitions", topic="watched") == 2
    assert page.get("kafka_topic_partition_current_offset", topic="watched", partition=1) == 15
    assert page.get("kafka_consumergroup_lag", consumergroup="watchers", topic="watched", partition=0) == 3
    assert page.get("kafka_consumergroup_lag", consumergroup="watchers", topic="watched", partition=1) == 0
    assert page.get("kafka_consumergroup_lag_sum", consumergroup="watchers", topic="watched") == 3
    assert page.get("kafka_consumergroup_current_offset_sum", consumergroup="watchers", topic="watched") == 27
    assert page.get("kafka_consumergroup_members", consumergroup="watchers") == 1
    assert page.get("kafka_coordinator_group_groupmetadatamanager_numgroupsstable") == 1
    assert page.get("kafka_server_brokertopicmetrics_totalproducerequests_total") >= 1
    assert page.get("kafka_server_socket_server_metrics_connection_count", listener="PLAINTEXT") >= 2
    assert page.get("kafka_network_requestmetrics_errors_total", request="JoinGroup", error="NONE") >= 1
    for name in ("total", "local", "remote", "responsequeue"):
        metric = f"kafka_network_requestmetrics_{name}timems"
        assert (
            0
            <= page.get(metric, request="Produce", quantile="0.50")
            <= page.get(metric, request="Produce", quantile="0.999")
        )
    assert page.get("kafka_server_sessionexpirelistener_zookeepersyncconnects_total") >= 1
    assert page.get("kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms", quantile="0.99") > 0
    assert page.get("kafka_controller_controllerstats_uncleanleaderelections_total") == 0
    assert 0 <= page.get("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent") <= 1
    came, went, there = (
        page.get(f"kafka_server_socket_server_metrics_connection_{name}", listener="PLAINTEXT")
        for name in ("creation_total", "close_total", "count")
    )
    assert came == went + there
    for name in ("creation", "close"):
        assert page.get(f"kafka_server_socket_server_metrics_connection_{name}_rate", listener="PLAINTEXT") >= 0
    for name in ("produce", "fetch"):
        assert page.get(f"kafka_server_brokertopicmetrics_{name}messageconversions_total") == 0
    assert page.types["kafka_server_brokertopicmetrics_bytesin_total"] == "counter"
    assert page.types["kafka_log_log_size"] == "gauge"
    consumer.close()


def test_totals_outlive_their_topics(broker: tuple[str, int]) -> None:
    bootstrap, port = broker
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("short", 1, 1)])["short"].result(timeout=120)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("short", b"x")
    producer.flush(120)
    before = Page(port).get("kafka_server_brokertopicmetrics_messagesin_total")
    admin.delete_topics(["short"])["short"].result(timeout=120)
    page = Page(port)
    assert page.get("kafka_server_brokertopicmetrics_messagesin_total") >= before
    with pytest.raises(KeyError):
        page.get("kafka_server_brokertopicmetrics_messagesin_total", topic="short")


def test_what_is_refused_is_counted(broker: tuple[str, int]) -> None:
    bootstrap, port = broker
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"max.message.bytes": "1000", "flush.ms": "10"}
    admin.create_topics([NewTopic("small", 1, 1, config=settings)])["small"].result(timeout=120)
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 10_000_000})
    for size in (1, 5_000):  # one after the other: together they would be one batch that is too large
        producer.produce("small", b"x" * size)
        producer.flush(120)
    page = Page(port)
    assert page.get("kafka_server_brokertopicmetrics_bytesrejected_total", topic="small") >= 5_000
    assert page.get("kafka_server_brokertopicmetrics_bytesrejected_total") >= 5_000
    assert page.get("kafka_network_requestmetrics_errors_total", request="Produce", error="MESSAGE_TOO_LARGE") >= 1
    assert page.get("kafka_server_brokertopicmetrics_failedproducerequests_total") == 0
    flushes = "kafka_log_logflushstats_logflushrateandtimems"
    wait_until(lambda: Page(port).get(f"{flushes}_count") > 0, timeout_s=120, what="the log is synced")
    assert Page(port).get(flushes, quantile="0.50") > 0


@pytest.mark.timeout(240)
def test_replicas_that_fall_out_and_come_back_are_counted(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with OttlaKeepers(1, tmp_path) as keepers:
        brokers = OttlaBrokers(2, keepers.hosts, tmp_path, settings={"replica.lag.time.max.ms": "1500"})
        with (brokers.folders[0] / "server.properties").open("a") as file:
            file.write(f"ottla.metrics.port={port}\n")
        with brokers:
            admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
            admin.create_topics([NewTopic("both", 1, replica_assignment=[[1, 2]])])["both"].result(timeout=60)
            # Whoever asks the one that stands still waits for a minute.
            producer = Producer({"bootstrap.servers": f"127.0.0.1:{brokers.ports[0]}", "acks": 1})
            brokers.brokers[1].pause()
            producer.produce("both", b"x")
            prefix = "kafka_server_replicamanager_"
            wait_until(lambda: Page(port).get(prefix + "isrshrinks_total") >= 1, timeout_s=60, what="one falls out")
            brokers.brokers[1].resume()
            wait_until(lambda: Page(port).get(prefix + "isrexpands_total") >= 1, timeout_s=60, what="it comes back")
            page = Page(port)
            assert page.types[prefix + "isrshrinks_total"] == "counter"
            assert page.get("kafka_server_replicafetchermanager_maxlag", clientId="Replica") == 0
            assert producer.flush(60) == 0
