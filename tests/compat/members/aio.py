"""aiokafka."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from tests.compat.members.lines import (
    HEARTBEAT_MS,
    SESSION_MS,
    begin,
    say,
    say_assigned,
    say_committed,
    say_read,
    stopping,
)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    async def on_partitions_revoked(self, revoked: Any) -> None:
        say_assigned((each.partition for each in revoked), revoked=True)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        say_assigned(each.partition for each in assigned)


async def main() -> None:
    bootstrap, topic, group = begin()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id="aiokafka",
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not stopping.is_set():
        try:
            await read_and_commit(consumer, topic)
        except KafkaError as error:  # a broker that is down, or another generation
            say({"failed": str(error)})
    await consumer.stop()


async def read_and_commit(consumer: AIOKafkaConsumer, topic: str) -> None:
    read: dict[int, int] = {}
    for place, messages in (await consumer.getmany(timeout_ms=200, max_records=50)).items():
        for message in messages:
            say_read(message.partition, message.offset, message.value)
            read[place.partition] = message.offset + 1
    if read:
        await consumer.commit({TopicPartition(topic, partition): at for partition, at in read.items()})
        say_committed(read)


if __name__ == "__main__":
    asyncio.run(main())
