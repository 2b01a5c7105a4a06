"""kafka-python."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import BrokerResponseError, for_code

from tests.compat.clients.lines import (
    PATIENCE_S,
    REQUEST_BYTES_MAX,
    Answer,
    Record,
    Request,
    Visit,
    serve,
    visits_of,
)


def code_of(error: Exception) -> int | None:
    return int(error.errno) if isinstance(error, BrokerResponseError) else None


def admin(asked: Request) -> closing[KafkaAdminClient]:
    return closing(KafkaAdminClient(bootstrap_servers=asked.bootstrap))


def consumer(asked: Request) -> closing[KafkaConsumer]:
    return closing(KafkaConsumer(bootstrap_servers=asked.bootstrap, group_id=None, auto_offset_reset="none"))


class KafkaPython:
    version = kafka.__version__

    def create(self, asked: Request) -> Answer:
        topic = {"num_partitions": asked.partitions, "replication_factor": 1, "configs": asked.config}
        with admin(asked) as client:
            client.create_topics({asked.topic: topic})
        return {}

    def grow(self, asked: Request) -> Answer:
        with admin(asked) as client:
            client.create_partitions({asked.topic: asked.partitions})
        return {}

    def delete(self, asked: Request) -> Answer:
        with admin(asked) as client:
            client.delete_topics([asked.topic])
        return {}

    def list(self, asked: Request) -> Answer:
        with admin(asked) as client:
            return {"topics": client.list_topics()}

    def describe(self, asked: Request) -> Answer:
        with admin(asked) as client:
            [topic] = client.describe_topics([asked.topic])
        if topic["error_code"]:
            raise for_code(topic["error_code"])
        rows = topic["partitions"]
        return {
            "partitions": [
                [one["partition_index"], one["leader_id"], one["replica_nodes"], one["isr_nodes"]] for one in rows
            ]
        }

    def configs(self, asked: Request) -> Answer:
        resource = ConfigResource(ConfigResourceType.TOPIC, asked.topic)
        with admin(asked) as client:
            found = client.describe_configs([resource], config_filter="all")
        return {"configs": {name: entry["value"] for name, entry in found["topic"][asked.topic].items()}}

    def offsets(self, asked: Request) -> Answer:
        place = TopicPartition(asked.topic, asked.partition)
        with consumer(asked) as reader:
            at = reader.offsets_for_times({place: asked.time})[place]
            return {
                "earliest": reader.beginning_offsets([place])[place],
                "latest": reader.end_offsets([place])[place],
                "at": -1 if at is None else at.offset,
            }

    def produce(self, asked: Request) -> Answer:
        producer = KafkaProducer(
            bootstrap_servers=asked.bootstrap,
            compression_type=None if asked.codec == "none" else asked.codec,
            acks=asked.acks if asked.acks == "all" else int(asked.acks),
            enable_idempotence=asked.idempotent,
            max_request_size=REQUEST_BYTES_MAX,
            linger_ms=5,
        )
        with closing(producer):
            sent = [
                producer.send(
                    asked.topic,
                    key=one.key,
                    value=one.value,
                    headers=list(one.headers),
                    partition=one.partition,
                    timestamp_ms=one.timestamp,
                )
                for one in asked.records
            ]
            producer.flush(PATIENCE_S)
            return {"offsets": [future.get(PATIENCE_S).offset for future in sent]}

    def read(self, asked: Request) -> Answer:
        places = [TopicPartition(asked.topic, number) for number in asked.assigned]
        with consumer(asked) as reader:
            reader.assign(places)

            def seek(visit: Visit) -> None:
                if visit.time is None:
                    for place in places:
                        reader.seek(place, visit.offset)
                    return
                for place, found in reader.offsets_for_times(dict.fromkeys(places, visit.time)).items():
                    if found is None:
                        reader.seek_to_end(place)
                    else:
                        reader.seek(place, found.offset)

            def poll(seconds: float) -> Iterable[Record]:
                for messages in reader.poll(seconds * 1000).values():
                    for one in messages:
                        headers = tuple((name, value) for name, value in one.headers)
                        yield Record(one.partition, one.key, one.value, headers, one.timestamp, one.offset)

            return visits_of(asked, seek, poll)


if __name__ == "__main__":
    serve(KafkaPython(), code_of=code_of)
