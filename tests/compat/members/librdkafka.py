"""librdkafka, by way of confluent-kafka."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

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


def main() -> None:
    bootstrap, topic, group = begin()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "librdkafka",
            "partition.assignment.strategy": assignor(),
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(
        [topic],
        on_assign=lambda _, places: say_assigned(each.partition for each in places),
        on_revoke=lambda _, places: say_assigned((each.partition for each in places), revoked=True),
    )
    while not stopping.is_set():
        read: dict[int, int] = {}
        for message in consumer.consume(50, 0.2):
            partition, offset = message.partition(), message.offset()
            if message.error() is None and partition is not None and offset is not None:
                say_read(partition, offset, message.value())
                read[partition] = offset + 1
        if not read:
            continue
        try:
            places = [TopicPartition(topic, partition, offset) for partition, offset in read.items()]
            consumer.commit(offsets=places, asynchronous=False)
            say_committed(read)
        except KafkaException as error:
            say({"failed": str(error)})
    consumer.close()


if __name__ == "__main__":
    main()
