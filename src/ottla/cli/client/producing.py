"""Sending records: in bounded memory, each failure by the number of its record, and Ctrl-C loses nothing that was taken.

librdkafka's queue has a bound; when it is full, reading the input waits. A record counts as delivered once the broker
has acknowledged it, and as failed once librdkafka has given up on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.cli.client.connection import explain
from ottla.cli.client.record import ClientRecord, RecordInputError

ERRORS_KEPT = 10
_SLICE_S = 0.2

Delivered = Callable[[int, Message], None]
Progress = Callable[["Outcome"], None]


class Failed(NamedTuple):
    number: int
    """Of the record in the input, from 1."""
    reason: str


class Outcome:
    """What became of the records so far."""

    def __init__(self) -> None:
        self.taken = 0
        self.delivered = 0
        self.delivered_bytes = 0
        self.failed = 0
        self.first_failures: list[Failed] = []
        self.input_error: Failed | None = None
        self.retimed = 0
        """Records that were sent with the time of now in place of their own."""
        self.interrupted = False

    @property
    def unknown(self) -> int:
        """Records that neither a broker nor librdkafka has spoken of."""
        return self.taken - self.delivered - self.failed

    def fail(self, number: int, reason: str) -> None:
        self.failed += 1
        if len(self.first_failures) < ERRORS_KEPT:
            self.first_failures.append(Failed(number, reason))


def settings(*, compression: str, acks: str) -> dict[str, object]:
    """What librdkafka is told unless ``-X`` says otherwise."""
    return {
        "queue.buffering.max.messages": 20_000,
        "queue.buffering.max.kbytes": 32 << 10,
        "linger.ms": 5,
        "compression.type": compression,
        "acks": acks,
        # Without it, a record sent again could come twice or out of order. It needs every replica's word.
        "enable.idempotence": acks == "all",
        # Where Kafka's own clients would put a key.
        "partitioner": "murmur2_random",
    }


def produce(
    producer: Producer,
    records: Iterable[ClientRecord],
    *,
    delivered: Delivered | None = None,
    progress: Progress = lambda _: None,
) -> Outcome:
    """Send everything, and wait until every record is delivered or given up."""
    outcome = Outcome()
    try:
        _send_all(producer, records, outcome, delivered, progress)
    except RecordInputError as error:
        outcome.input_error = Failed(outcome.taken + 1, str(error))
    except KeyboardInterrupt:
        outcome.interrupted = True
    try:
        while producer.flush(_SLICE_S):
            progress(outcome)
    except KeyboardInterrupt:
        # A second one, or the first while waiting: what is known is told, and no more is waited for.
        outcome.interrupted = True
    return outcome


def _send_all(
    producer: Producer,
    records: Iterable[ClientRecord],
    outcome: Outcome,
    delivered: Delivered | None,
    progress: Progress,
) -> None:
    for record in records:
        outcome.taken += 1
        report = _reporter(outcome, outcome.taken, delivered)
        try:
            _send(producer, record, report, lambda: progress(outcome))
            # librdkafka sends any time, before 1970, too, but takes 0 for none.
            outcome.retimed += record.timestamp == 0
        except KafkaException as error:
            outcome.fail(outcome.taken, explain(error.args[0]))
        except OverflowError:
            outcome.fail(outcome.taken, "its partition or its time is a number that no record can have")
        producer.poll(0)
        progress(outcome)


def _send(
    producer: Producer,
    record: ClientRecord,
    report: Callable[[KafkaError | None, Message], None],
    waiting: Callable[[], None],
) -> None:
    while True:
        with suppress(BufferError):
            producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=report,
                timestamp=record.timestamp or 0,
                headers=list(record.headers) or None,
            )
            return
        producer.poll(_SLICE_S)
        waiting()


def _reporter(
    outcome: Outcome, number: int, delivered: Delivered | None
) -> Callable[[KafkaError | None, Message], None]:
    def report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            outcome.fail(number, explain(error))
            return
        outcome.delivered += 1
        outcome.delivered_bytes += len(message)
        if delivered is not None:
            delivered(number, message)

    return report
