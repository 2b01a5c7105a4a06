"""kafka-python."""

from __future__ import annotations

from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.compat.members.lines import (
    HEARTBEAT_MS,
    SESSION_MS,
    assignor,
    begin,
    say,
    say_assigned,
    say_committed,
    say_read,
    stopping,
)

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_revoked(self, revoked: Any) -> None:
        say_assigned((each.partition for each in revoked), revoked=True)

    def on_partitions_assigned(self, assigned: Any) -> None:
        say_assigned(each.partition for each in assigned)


def main() -> None:
    bootstrap, topic, group = begin()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id="kafka-python",
        partition_assignment_strategy=[ASSIGNORS[assignor()]],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([topic], listener=Listener())
    while not stopping.is_set():
        try:
            read_and_commit(consumer, topic)
        except KafkaError as error:  # a broker that is down, or another generation
            say({"failed": str(error)})
    consumer.close()


def read_and_commit(consumer: KafkaConsumer, topic: str) -> None:
    read: dict[int, int] = {}
    for place, messages in consumer.poll(200, max_records=50).items():
        for message in messages:
            say_read(message.partition, message.offset, message.value)
            read[place.partition] = message.offset + 1
    if read:
        consumer.commit(
            {TopicPartition(topic, partition): OffsetAndMetadata(at, "", -1) for partition, at in read.items()}
        )
        say_committed(read)


if __name__ == "__main__":
    main()
