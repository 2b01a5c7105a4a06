"""Reading in a group: members share the partitions, and the group remembers what was read.

A record is committed after it was handed over and the next one asked for, so a reader that is killed reads some records
again, and misses none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ottla.cli.client.connection import Target
from ottla.cli.client.consuming import POLL_RECORDS, POLL_S, from_message
from ottla.cli.client.record import ClientRecord

Partition = tuple[str, int]


class GroupRequest(NamedTuple):
    topics: list[str]
    group: str
    begin: str
    """``earliest`` or ``latest``: where the group has committed nothing."""
    until_end: bool
    """Stop when all that this member has is read."""
    limit: int | None
    read_committed: bool
    headers: bool = True
    """Whether anybody wants them."""


def consume_in_group(
    target: Target, request: GroupRequest, *, idle: Callable[[], None] = lambda: None
) -> Generator[ClientRecord, None, None]:
    """The records that this member gets; ``idle`` is called before what was read so far is committed."""
    if request.limit == 0:
        return
    settings = {
        "group.id": request.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": request.begin,
        "isolation.level": "read_committed" if request.read_committed else "read_uncommitted",
        "queued.max.messages.kbytes": 16 << 10,
    }
    consumer = target.consumer(settings)
    reading = _Reading(consumer, idle, headers=request.headers)
    try:
        consumer.subscribe(request.topics, on_assign=reading.assigned, on_revoke=reading.revoked)
        yield from reading.records(request.limit, until_end=request.until_end)
    finally:
        reading.commit()
        consumer.close()


class _Reading:
    def __init__(self, consumer: Consumer, idle: Callable[[], None], *, headers: bool) -> None:
        self._consumer = consumer
        self._idle = idle
        self._headers = headers
        self._open: set[Partition] | None = None
        """Partitions whose end was not seen yet; None before there are any."""
        self._read: dict[Partition, int] = {}

    def records(self, limit: int | None, *, until_end: bool) -> Iterator[ClientRecord]:
        left = limit
        while not (until_end and self._open is not None and not self._open):
            for message in self._consumer.consume(POLL_RECORDS if left is None else min(left, POLL_RECORDS), POLL_S):
                record = self._take(message)
                if record is None:
                    continue
                yield record
                self._read[record.topic, record.partition] = record.offset + 1
                if left is not None:
                    left -= 1
                    if left == 0:
                        return
            self.commit()

    def commit(self) -> None:
        """What was handed over is out of the house first."""
        self._idle()
        if self._read:
            offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in self._read.items()]
            self._read.clear()
            self._consumer.commit(offsets=offsets, asynchronous=False)

    def _take(self, message: Message) -> ClientRecord | None:
        error = message.error()
        if error is None:
            return from_message(message, headers=self._headers)
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if self._open is not None:
            self._open.discard((message.topic() or "", message.partition() or 0))
        return None

    def assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._open = (self._open or set()) | {(each.topic, each.partition) for each in partitions}

    def revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """What goes to another member is committed before it goes."""
        self.commit()
        gone = {(each.topic, each.partition) for each in partitions}
        self._open = (self._open or set()) - gone
        if not self._open:
            self._open = None
