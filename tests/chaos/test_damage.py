"""A disk that changes what it holds: whoever leads notices when that is read, and the cluster mends it by itself."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, ElectionType, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Cluster
from tests.peers import wait_until

TOPIC = "t"
VALUES = [b"value-%03d" % number for number in range(100)]
BROKERS = [1, 2, 3]


def test_a_leader_with_a_damaged_log_leaves_it_to_the_others_and_fetches_it_again(tmp_path: Path) -> None:
    with Cluster(brokers=3, folder=tmp_path / "cluster") as cluster:
        data = cluster.folder / "broker-1" / "data"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, num_partitions=1, replica_assignment=[BROKERS])])[TOPIC].result(60)
        all_in_sync(admin, leader=1)
        produce(cluster.bootstrap)
        cluster.terminate(1)
        wait_until((data / ".kafka_cleanshutdown").exists, timeout_s=60, what="broker 1 has stopped")
        flip_a_bit(next((data / f"{TOPIC}-0").glob("*.log")))
        cluster.restart(1)
        all_in_sync(admin)
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)]).result(60)
        all_in_sync(admin, leader=1)
        assert consume(cluster.bootstrap) == VALUES
        all_in_sync(admin, leader=2)
        assert list(data.glob(f"{TOPIC}-0.*-stray"))


def all_in_sync(admin: AdminClient, *, leader: int | None = None) -> None:
    def are() -> bool:
        state = admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions[0]
        return sorted(state.isrs) == BROKERS and leader in (None, state.leader)

    wait_until(are, timeout_s=120, what=f"all are in sync, and {leader or 'anybody'} leads", interval_s=0.1)


def produce(bootstrap: str) -> None:
    """In many batches."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "batch.num.messages": 5})
    for number, value in enumerate(VALUES):
        producer.produce(TOPIC, value)
        if number % 5 == 4:
            assert producer.flush(60) == 0


def flip_a_bit(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[data.index(VALUES[50]) + 6] ^= 1
    segment.write_bytes(data)


def consume(bootstrap: str) -> list[bytes]:
    """Everything, by a consumer that is told of the damage and asks again."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[bytes] = []
    told: list[int] = []

    def read_all() -> bool:
        message = consumer.poll(0.5)
        if message is not None:
            error = message.error()
            if error is None:
                found.append(message.value() or b"")
            else:
                told.append(error.code())
        return len(found) >= len(VALUES)

    wait_until(read_all, timeout_s=120, what="all is read", interval_s=0)
    consumer.close()
    assert set(told) <= {KafkaError.INVALID_MSG}
    return found
