"""aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError, for_code

from tests.compat.clients.lines import PATIENCE_S, REQUEST_BYTES_MAX, Answer, Record, Request, Visit, serve


def code_of(error: Exception) -> int | None:
    return int(error.errno) if isinstance(error, BrokerResponseError) else None


@asynccontextmanager
async def admin(asked: Request) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=asked.bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def consumer(asked: Request) -> AsyncIterator[AIOKafkaConsumer]:
    client = AIOKafkaConsumer(bootstrap_servers=asked.bootstrap, auto_offset_reset="none")
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


def judge(code: int) -> None:
    """The admin client leaves looking at error codes to its user."""
    if code:
        raise for_code(code)(f"error {code}")


async def create(asked: Request) -> Answer:
    async with admin(asked) as client:
        topic = NewTopic(asked.topic, asked.partitions, 1, topic_configs=asked.config)
        judge((await client.create_topics([topic])).topic_errors[0][1])
    return {}


async def grow(asked: Request) -> Answer:
    async with admin(asked) as client:
        done = await client.create_partitions({asked.topic: NewPartitions(asked.partitions)})
        judge(done.topic_errors[0][1])
    return {}


async def delete(asked: Request) -> Answer:
    async with admin(asked) as client:
        judge((await client.delete_topics([asked.topic])).topic_error_codes[0][1])
    return {}


async def names(asked: Request) -> Answer:
    async with admin(asked) as client:
        return {"topics": await client.list_topics()}


async def describe(asked: Request) -> Answer:
    async with admin(asked) as client:
        [topic] = await client.describe_topics([asked.topic])
    judge(topic["error_code"])
    rows = topic["partitions"]
    return {"partitions": [[one["partition"], one["leader"], one["replicas"], one["isr"]] for one in rows]}


async def configs(asked: Request) -> Answer:
    async with admin(asked) as client:
        [found] = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, asked.topic)])
    [(code, _message, _type, _name, entries)] = found.resources
    judge(code)
    return {"configs": {entry[0]: entry[1] for entry in entries}}


async def offsets(asked: Request) -> Answer:
    place = TopicPartition(asked.topic, asked.partition)
    async with consumer(asked) as reader:
        at = (await reader.offsets_for_times({place: asked.time}))[place]
        return {
            "earliest": (await reader.beginning_offsets([place]))[place],
            "latest": (await reader.end_offsets([place]))[place],
            "at": -1 if at is None else at.offset,
        }


async def produce(asked: Request) -> Answer:
    producer = AIOKafkaProducer(
        bootstrap_servers=asked.bootstrap,
        compression_type=None if asked.codec == "none" else asked.codec,
        acks=asked.acks if asked.acks == "all" else int(asked.acks),
        enable_idempotence=asked.idempotent,
        max_request_size=REQUEST_BYTES_MAX,
        linger_ms=5,
    )
    await producer.start()
    try:
        sent = [
            await producer.send(
                asked.topic,
                key=one.key,
                value=one.value,
                headers=list(one.headers),
                partition=one.partition,
                timestamp_ms=one.timestamp,
            )
            for one in asked.records
        ]
        done = await asyncio.wait_for(asyncio.gather(*sent), PATIENCE_S)
        return {"offsets": [-1 if one is None else one.offset for one in done]}
    finally:
        await producer.stop()


async def read(asked: Request) -> Answer:
    places = [TopicPartition(asked.topic, number) for number in asked.assigned]
    deadline = time.monotonic() + PATIENCE_S
    visits: list[list[dict[str, object]]] = []
    async with consumer(asked) as reader:
        reader.assign(places)
        for visit in asked.visits:
            await seek(reader, places, visit)
            found: list[Record] = []
            while len(found) < visit.count and time.monotonic() < deadline:
                for messages in (await reader.getmany(timeout_ms=500)).values():
                    found.extend(
                        Record(one.partition, one.key, one.value, tuple(one.headers), one.timestamp, one.offset)
                        for one in messages
                    )
            visits.append([record.to_json() for record in found[: visit.count]])
    return {"visits": visits}


async def seek(reader: AIOKafkaConsumer, places: list[TopicPartition], visit: Visit) -> None:
    if visit.time is None:
        for place in places:
            reader.seek(place, visit.offset)
        return
    for place, found in (await reader.offsets_for_times(dict.fromkeys(places, visit.time))).items():
        if found is None:
            await reader.seek_to_end(place)
        else:
            reader.seek(place, found.offset)


class Aiokafka:
    """Each request in a loop of its own, as if in a program of its own."""

    version = aiokafka.__version__

    def __getattr__(self, name: str) -> Any:
        work = {"list": names}.get(name) or globals()[name]

        def run(asked: Request) -> Answer:
            done: Coroutine[object, object, Answer] = work(asked)
            return asyncio.run(done)

        return run


if __name__ == "__main__":
    serve(Aiokafka(), code_of=code_of)
