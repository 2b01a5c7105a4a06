"""One broker for the clients: ours, or Apache Kafka's on ZooKeeper, which shows that a scenario itself is right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.peers import OttlaKeepers, RealZooKeeper
from tests.peers.brokers import OttlaBrokers
from tests.peers.kafka import KafkaBrokers
from tests.peers.processes import wait_until

KINDS = ("Ottla", "Apache Kafka 3.9.1")
KEEP = {"log.retention.ms": "-1"}  # some records are sent with timestamps of years ago


@dataclass(frozen=True, slots=True)
class Cluster:
    bootstrap: str
    broker_id: int
    data: Path

    def create(
        self, topic: str, *, partitions: int = 1, config: dict[str, str] | None = None, anew: bool = False
    ) -> None:
        """A topic for a client that is not asked to make it; all its partitions have leaders.

        ``anew``: there was one of that name, and Kafka does not list it any more while it is still deleting it.
        """
        admin = AdminClient({"bootstrap.servers": self.bootstrap})

        def made() -> bool:
            try:
                admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})])[topic].result(timeout=120)
            except KafkaException as error:
                if anew and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return False
                raise
            return True

        wait_until(made, timeout_s=120, what=f"{topic} is made")

        def led() -> bool:
            known = admin.list_topics(topic, timeout=120).topics[topic].partitions
            return len(known) == partitions and all(one.leader >= 0 for one in known.values())

        wait_until(led, timeout_s=120, what=f"{topic} has leaders")


@contextmanager
def running(kind: str, folder: Path) -> Iterator[Cluster]:
    if kind == KINDS[0]:
        with OttlaKeepers(1, folder) as keepers, OttlaBrokers(1, keepers.hosts, folder, settings=KEEP) as ours:
            yield Cluster(ours.bootstrap, 1, ours.data())
    else:
        with RealZooKeeper(1, folder) as servers, KafkaBrokers(1, servers.hosts, folder, settings=KEEP) as theirs:
            yield Cluster(theirs.bootstrap, 0, folder / "broker-0" / "data")
