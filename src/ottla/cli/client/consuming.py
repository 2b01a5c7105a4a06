"""Reading by assignment: every partition from where its range starts to where it stops, and no group is needed.

Where a range stops at an offset, the record before it may not exist: compaction and markers of transactions leave gaps. So
a partition is done with a record at the offset or behind it, or when the broker says that its end is there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from ottla.cli.client.connection import NOT_FOUND, Connection, Failure, Target, missing_topic
from ottla.cli.client.description import list_offsets
from ottla.cli.client.ranges import Range, Span, resolve
from ottla.cli.client.record import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE, ClientRecord, Headers

Partition = tuple[str, int]

POLL_S = 0.2
POLL_RECORDS = 500
_TYPES = {TIMESTAMP_CREATE_TIME: CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME: LOG_APPEND_TIME}
_GROUP = "ottla-consume"
"""librdkafka wants a name; nothing is ever committed under it."""


class Request(NamedTuple):
    topics: Sequence[str]
    partitions: Sequence[int]
    """Empty: all of them."""
    range: Range
    limit: int | None
    """Of records, over all partitions."""
    read_committed: bool
    now_ms: int
    headers: bool = True
    """Whether anybody wants them."""


class Plan(NamedTuple):
    """Where each partition is read, and the watermarks that it had when that was decided."""

    spans: dict[Partition, Span]
    watermarks: dict[Partition, tuple[int, int]]


def plan(target: Target, connection: Connection, request: Request) -> Plan:
    """Ask for the offsets that the range is relative to."""
    chosen = _partitions(connection, request)
    isolation = IsolationLevel.READ_COMMITTED if request.read_committed else IsolationLevel.READ_UNCOMMITTED
    admin, timeout_s = connection.admin, target.timeout_s
    low = list_offsets(admin, chosen, OffsetSpec.earliest(), timeout_s)
    high = list_offsets(admin, chosen, OffsetSpec.latest(), timeout_s, isolation)
    at = {
        instant: list_offsets(admin, chosen, OffsetSpec.for_timestamp(instant), timeout_s, isolation)
        for instant in request.range.times
    }
    spans, watermarks = {}, {}
    for partition in chosen:
        bounds = (low[partition] or 0, high[partition] or 0)
        offsets = {instant: found[partition] for instant, found in at.items()}
        spans[partition] = resolve(request.range, low=bounds[0], high=bounds[1], offsets=offsets, now_ms=request.now_ms)
        watermarks[partition] = bounds
    return Plan(spans, watermarks)


def consume(
    target: Target, planned: Plan, request: Request, *, idle: Callable[[], None] = lambda: None
) -> Generator[ClientRecord, None, None]:
    """The records, as they come; ``idle`` is called whenever none is at hand."""
    settings = {
        "group.id": _GROUP,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed" if request.read_committed else "read_uncommitted",
        # A tool holds no more than this, whatever it reads.
        "queued.max.messages.kbytes": 16 << 10,
    }
    open_spans = {partition: span for partition, span in planned.spans.items() if not span.is_empty}
    if not open_spans or request.limit == 0:
        return
    consumer = target.consumer(settings)
    try:
        # A start behind the end is waited for from the end on; librdkafka would call it out of range.
        consumer.assign(
            [
                TopicPartition(topic, number, min(span.start, planned.watermarks[topic, number][1]))
                for (topic, number), span in open_spans.items()
            ]
        )
        yield from _Reading(consumer, open_spans, request).records(idle)
    finally:
        consumer.close()


def from_message(message: Message, *, headers: bool = True) -> ClientRecord:
    kind, timestamp = message.timestamp()
    found = _headers(message) if headers else ()
    return ClientRecord(
        key=message.key(),
        value=message.value(),
        headers=found or (),
        topic=message.topic() or "",
        partition=_number(message.partition()),
        offset=_number(message.offset()),
        timestamp=timestamp if kind in _TYPES else None,
        timestamp_type=_TYPES.get(kind, NO_TIMESTAMP_TYPE),
        leader_epoch=_number(message.leader_epoch()),
        lacks_headers=found is None,
    )


class _Reading:
    """The partitions that are not done yet."""

    def __init__(self, consumer: Consumer, spans: dict[Partition, Span], request: Request) -> None:
        self._consumer = consumer
        self._open = spans
        self._left = request.limit
        self._headers = request.headers

    def records(self, idle: Callable[[], None]) -> Iterator[ClientRecord]:
        while self._open:
            messages = self._consumer.consume(POLL_RECORDS, POLL_S)
            if not messages:
                idle()
            for message in messages:
                record = self._take(message)
                if record is None:
                    continue
                yield record
                if self._left is not None:
                    self._left -= 1
                    if self._left == 0:
                        return

    def _take(self, message: Message) -> ClientRecord | None:
        """The record, if it is within its range. A partition that has come to its end is closed."""
        partition = (message.topic() or "", _number(message.partition()))
        span = self._open.get(partition)
        if span is None:
            return None
        offset = _number(message.offset())
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if span.stop is not None and offset >= span.stop:
                self._close(partition)
            return None
        record = from_message(message, headers=self._headers)
        late = span.until_ms is not None and (record.timestamp or 0) >= span.until_ms
        if late or (span.stop is not None and offset + 1 >= span.stop):
            self._close(partition)
        is_within = offset >= span.start and not late and (span.stop is None or offset < span.stop)
        return record if is_within else None

    def _close(self, partition: Partition) -> None:
        del self._open[partition]
        if self._open:
            self._consumer.pause([TopicPartition(*partition)])


def _partitions(connection: Connection, request: Request) -> list[Partition]:
    chosen = []
    for topic in request.topics:
        found = connection.cluster.topics.get(topic)
        if found is None:
            raise missing_topic(topic)
        for number in request.partitions or sorted(found.partitions):
            if number not in found.partitions:
                raise Failure(f"{topic} has the partitions 0 to {len(found.partitions) - 1}, not {number}", NOT_FOUND)
            if found.partitions[number].leader < 0:
                raise Failure(
                    f"{topic}-{number} has no leader: its replicas are on {found.partitions[number].replicas}, "
                    f"which are down; 'ottla topic describe {topic}' shows more"
                )
            chosen.append((topic, number))
    return chosen


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _headers(message: Message) -> Headers | None:
    """None where the key of one is no UTF-8: confluent_kafka then gives none of them."""
    try:
        found = message.headers() or ()
    except (UnicodeDecodeError, SystemError):
        # Asked once more, it gives them with holes that crash whoever looks.
        return None
    assert isinstance(found, list | tuple), "librdkafka gives pairs"
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in found)
