"""Records deleted from a topic that three brokers have: the answer comes when the followers have given them up, too."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from ottla.log.checkpoints import read_offsets
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers

COPIES = 3


def test_every_replica_gives_up_what_was_deleted(tmp_path: Path) -> None:
    with OttlaKeepers(1, tmp_path) as keepers, OttlaBrokers(COPIES, keepers.hosts, tmp_path) as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        admin.create_topics([NewTopic("t", 1, COPIES)])["t"].result(timeout=120)
        producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all"})
        for number in range(20):
            producer.produce("t", str(number))
        assert producer.flush(120) == 0
        deleted = admin.delete_records([TopicPartition("t", 0, 7)])[TopicPartition("t", 0)].result(timeout=120)
        assert deleted.low_watermark == 7
        [offset] = admin.list_offsets({TopicPartition("t", 0): OffsetSpec.earliest()}).values()
        assert offset.result(timeout=120).offset == 7
        for broker in brokers.brokers:
            broker.stop(120)
        starts = [read_offsets(brokers.data(index) / "log-start-offset-checkpoint") for index in range(COPIES)]
        assert [list(found.values()) for found in starts] == [[7]] * COPIES
