"""librdkafka, by way of confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.compat.clients.lines import (
    PATIENCE_S,
    REQUEST_BYTES_MAX,
    Answer,
    Record,
    RefusedError,
    Request,
    Visit,
    serve,
    visits_of,
)


def code_of(error: Exception) -> int | None:
    return int(error.args[0].code()) if isinstance(error, KafkaException) else None


def admin(asked: Request) -> AdminClient:
    return AdminClient({"bootstrap.servers": asked.bootstrap})


def consumer(asked: Request) -> Consumer:
    return Consumer({"bootstrap.servers": asked.bootstrap, "group.id": "assigned", "enable.auto.commit": False})


def record(message: Message) -> Record:
    failed = message.error()
    if failed is not None:
        raise RefusedError(int(failed.code()), failed.str())
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers: Any = tuple(message.headers() or ())
    return Record(partition, message.key(), message.value(), headers, message.timestamp()[1], offset)


class Librdkafka:
    version = confluent_kafka.libversion()[0]

    def create(self, asked: Request) -> Answer:
        topic = NewTopic(asked.topic, asked.partitions, 1, config=asked.config)
        client = admin(asked)
        client.create_topics([topic])[asked.topic].result(timeout=PATIENCE_S)
        return {}

    def grow(self, asked: Request) -> Answer:
        more = NewPartitions(asked.topic, asked.partitions)
        client = admin(asked)
        client.create_partitions([more])[asked.topic].result(timeout=PATIENCE_S)
        return {}

    def delete(self, asked: Request) -> Answer:
        client = admin(asked)
        client.delete_topics([asked.topic])[asked.topic].result(timeout=PATIENCE_S)
        return {}

    def list(self, asked: Request) -> Answer:
        return {"topics": list(admin(asked).list_topics(timeout=PATIENCE_S).topics)}

    def describe(self, asked: Request) -> Answer:
        topic = admin(asked).list_topics(asked.topic, timeout=PATIENCE_S).topics[asked.topic]
        if topic.error is not None:
            raise RefusedError(int(topic.error.code()), str(topic.error))
        return {"partitions": [[one.id, one.leader, one.replicas, one.isrs] for one in topic.partitions.values()]}

    def configs(self, asked: Request) -> Answer:
        resource = ConfigResource(ResourceType.TOPIC, asked.topic)
        client = admin(asked)
        found = client.describe_configs([resource])[resource].result(timeout=PATIENCE_S)
        return {"configs": {name: entry.value for name, entry in found.items()}}

    def offsets(self, asked: Request) -> Answer:
        reader = consumer(asked)
        try:
            earliest, latest = reader.get_watermark_offsets(
                TopicPartition(asked.topic, asked.partition), timeout=PATIENCE_S
            )
            [at] = reader.offsets_for_times(
                [TopicPartition(asked.topic, asked.partition, asked.time)], timeout=PATIENCE_S
            )
            return {"earliest": earliest, "latest": latest, "at": at.offset}
        finally:
            reader.close()

    def produce(self, asked: Request) -> Answer:
        config: dict[str, Any] = {
            "bootstrap.servers": asked.bootstrap,
            "compression.type": asked.codec,
            "acks": asked.acks,
            "enable.idempotence": asked.idempotent,
            "message.max.bytes": REQUEST_BYTES_MAX,
        }
        producer = Producer(config)
        offsets = [-1] * len(asked.records)
        failed: list[RefusedError] = []

        def delivered(number: int, error: Any, message: Message) -> None:
            if error is not None:
                failed.append(RefusedError(int(error.code()), error.str()))
            offset = message.offset()
            offsets[number] = -1 if offset is None else offset

        for number, one in enumerate(asked.records):
            producer.produce(
                asked.topic,
                key=one.key,
                value=one.value,
                partition=one.partition,
                headers=list(one.headers),
                on_delivery=partial(delivered, number),
                timestamp=one.timestamp or 0,  # which means now
            )
        left = producer.flush(PATIENCE_S)
        if failed or left:
            raise failed[0] if failed else RefusedError(-1, f"{left} records were not delivered")
        return {"offsets": offsets}

    def read(self, asked: Request) -> Answer:
        reader = consumer(asked)

        def seek(visit: Visit) -> None:
            places = [TopicPartition(asked.topic, number, visit.offset or 0) for number in asked.assigned]
            if visit.time is not None:
                wanted = [TopicPartition(asked.topic, number, visit.time) for number in asked.assigned]
                places = reader.offsets_for_times(wanted, timeout=PATIENCE_S)
            if reader.assignment():
                for place in places:
                    reader.seek(place)
            else:
                reader.assign(places)

        def poll(seconds: float) -> Iterable[Record]:
            first = reader.poll(seconds)
            return [] if first is None else [record(one) for one in (first, *reader.consume(500, 0))]

        try:
            return visits_of(asked, seek, poll)
        finally:
            reader.close()


if __name__ == "__main__":
    serve(Librdkafka(), code_of=code_of)
