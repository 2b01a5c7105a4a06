"""Records on their way to brokers, from one task: with an idempotent producer, and acknowledged before anything counts as done.

A record that no broker will ever take (too large, refused by its topic, for a partition that does not exist) fails the task; with
``dead_letter_topic`` it goes there instead, as it is, with headers that say where it should have gone and why it did not. Brokers refuse
whole batches for one bad record, so each record of such a batch is sent again alone before it is judged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from itertools import count
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.scan.errors import OptionError, ScanError
from pyspark_ottla.clients import ClientSettings, client_settings, open_client

Headers = list[tuple[str | None, bytes | None]]
Choose = Callable[[bytes | None, bytes | None, int], int]
Report = Callable[[KafkaError | None, Message | None], None]

LIBRDKAFKAS = -1
"""The partition that librdkafka chooses, by the key."""
_FLUSH_S = 120.0
_DEFAULTS: ClientSettings = {
    "enable.idempotence": True,
    "linger.ms": 20,
    "partitioner": "murmur2_random",
    "log_level": 0,
}
_IN_FLIGHT_MAX = 5
"""With idempotence."""
_SHARED = frozenset(("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP"))
"""What is said to a whole batch, and may be true of one record in it."""
_OWN = frozenset(("_INVALID_DIFFERENT_RECORD", "_INVALID_ARG", "_UNKNOWN_PARTITION"))
_NO_TOPIC = frozenset(("_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART", "TOPIC_EXCEPTION"))
"""The fault of a record that has chosen its topic; of a topic for all records, that of whoever named it."""


class WriteError(ScanError):
    """Records that were not taken."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    kafka: Mapping[str, str]
    topic: str | None
    partitioner: str = "key"
    dead_letter_topic: str | None = None


class Outgoing(NamedTuple):
    topic: str | None
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers | None


class Sending:
    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._producer = open_client(Producer, producer_settings(options.kafka))
        self._choose = chooser(options.partitioner)
        self._partitions: dict[str, int] = {}
        self._failed: list[str] = []
        self._suspects: deque[Outgoing] = deque()
        self._refused: deque[tuple[Outgoing, str]] = deque()
        self.sent = 0

    def put(self, record: Outgoing) -> None:
        self.sent += 1
        fault = _fault(record)
        if fault is not None:
            self._refuse(record, fault)
        elif self._options.dead_letter_topic is None:
            self._produce(record, self._delivered)
        else:
            self._produce(record, partial(self._reported, record, False))

    def check(self) -> None:
        """What has failed meanwhile is told now, and what was refused does not pile up."""
        self._producer.poll(0)
        self._judge()
        if self._suspects or self._refused:
            self.finish()

    def finish(self) -> None:
        """Everything is acknowledged, or it fails."""
        self._flush()
        while self._suspects:
            record = self._suspects.popleft()
            self._produce(record, partial(self._reported, record, True))
            self._flush()
        while self._refused:
            record, reason = self._refused.popleft()
            self._produce(_letter(record, reason, self._options), partial(self._letter_reported, reason))
        self._flush()

    def _produce(self, record: Outgoing, report: Report) -> None:
        assert record.topic is not None
        chosen = record.partition
        if chosen is None and self._choose is not None:
            chosen = self._choose(record.key, record.value, self._size_of(record.topic))
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    LIBRDKAFKAS if chosen is None else chosen,
                    on_delivery=report,
                    headers=record.headers,  # type: ignore[arg-type]  # a list of pairs
                )
            except BufferError:
                self._producer.poll(0.5)
            except KafkaException as error:
                report(error.args[0], None)
                return
            else:
                return

    def _delivered(self, error: KafkaError | None, _: Message | None) -> None:
        if error is not None:
            self._failed.append(error.str())

    def _reported(self, record: Outgoing, is_alone: bool, error: KafkaError | None, _: Message | None) -> None:
        if error is None:
            return
        name = error.name()
        if name in _SHARED and not is_alone:
            self._suspects.append(record)
        elif name in _SHARED or name in _OWN or (name in _NO_TOPIC and self._options.topic is None):
            self._refuse(record, error.str())
        else:
            self._failed.append(error.str())

    def _letter_reported(self, reason: str, error: KafkaError | None, _: Message | None) -> None:
        if error is not None:
            self._failed.append(f"{reason}, and its letter neither: {error.str()}")

    def _refuse(self, record: Outgoing, reason: str) -> None:
        if self._options.dead_letter_topic is None:
            raise WriteError(reason)
        self._refused.append((record, reason))

    def _flush(self) -> None:
        left = self._producer.flush(_FLUSH_S)
        self._judge()
        if left:
            raise WriteError(f"{left} of {self.sent} records were not acknowledged within {_FLUSH_S:g} s")

    def _judge(self) -> None:
        if self._failed:
            raise WriteError(f"{len(self._failed)} records were not taken: {self._failed[0]}")

    def _size_of(self, topic: str) -> int:
        if topic not in self._partitions:
            found = self._producer.list_topics(topic, timeout=30).topics[topic]
            if found.error is not None:
                raise WriteError(f"topic {topic}: {found.error.str()}")
            self._partitions[topic] = len(found.partitions)
        return self._partitions[topic]


def producer_settings(kafka: Mapping[str, str]) -> ClientSettings:
    """Idempotence is there unless something else was asked for that excludes it, as with Java's producers."""
    given = client_settings(kafka)
    settings = {**_DEFAULTS, **given}
    if "enable.idempotence" not in given and _excludes_idempotence(given):
        del settings["enable.idempotence"]
    return settings


def _excludes_idempotence(given: ClientSettings) -> bool:
    in_flight = str(given.get("max.in.flight.requests.per.connection", _IN_FLIGHT_MAX))
    return (
        str(given.get("acks", "all")) not in ("all", "-1")
        or str(given.get("retries", 1)) == "0"
        or (in_flight.isdigit() and int(in_flight) > _IN_FLIGHT_MAX)
    )


def _fault(record: Outgoing) -> str | None:
    """Why no record can be made of this; librdkafka would choose another partition, and write None for a key."""
    if record.topic is None:
        return "a row has no topic, and there is no option topic"
    if record.partition is not None and record.partition < 0:
        return f"partition {record.partition}: a partition number should be non-negative or null"
    if record.headers and any(key is None for key, _ in record.headers):
        return "a header has no key"
    return None


def _letter(record: Outgoing, reason: str, options: WriteOptions) -> Outgoing:
    own = [(key, value) for key, value in record.headers or () if key is not None]
    headers: Headers = [*own, ("reason", reason.encode())]
    if record.topic is not None:
        headers.append(("topic", record.topic.encode()))
    return Outgoing(options.dead_letter_topic, LIBRDKAFKAS, record.key, record.value, headers)


def chooser(name: str) -> Choose | None:
    """Of partitions; None: librdkafka's, by the key."""
    if name.lower() == "key":
        return None
    if name.lower() == "roundrobin":
        numbers = count()
        return lambda _key, _value, partitions: next(numbers) % partitions
    module, colon, function = name.partition(":")
    if not colon:
        raise OptionError(f"partitioner={name}: give key, roundRobin, or package.module:function")
    try:
        found: Choose = getattr(import_module(module), function)
        _check_arguments(found)
    except (ImportError, AttributeError, TypeError) as error:
        raise OptionError(
            f"partitioner={name}: {error}; it is called with key, value and the number of partitions"
        ) from None
    return found


def _check_arguments(function: Choose) -> None:
    try:
        told = signature(function)
    except ValueError:
        return  # as some of C's functions do not tell
    told.bind(b"key", b"value", 1)
