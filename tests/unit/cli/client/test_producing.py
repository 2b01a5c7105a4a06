"""Sending and reading over stand-ins for librdkafka: what is counted, what is waited for, where a range ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ottla.cli.client import consuming
from ottla.cli.client.connection import Target
from ottla.cli.client.producing import ERRORS_KEPT, Outcome, produce
from ottla.cli.client.ranges import START, Range, Span
from ottla.cli.client.record import ClientRecord, RecordInputError
from ottla.cli.produce import finish

Report = Callable[[KafkaError | None, Message], None]


class StandInProducer:
    """Takes ``room`` records at a time, and delivers them when it is polled and full, or flushed."""

    def __init__(self, room: int = 3, refused: frozenset[bytes] = frozenset(), too_large: bytes = b"?") -> None:
        self.room = room
        self.refused = refused
        self.too_large = too_large
        self.waiting: list[tuple[bytes | None, Report]] = []
        self.times: list[int] = []
        self.delivered: list[bytes | None] = []
        self.most = 0
        self.flushes_interrupted = 0

    def produce(self, topic: str, value: bytes | None, key: bytes | None, partition: int, **more: Any) -> None:
        if more["timestamp"] >= 1 << 63:
            raise OverflowError
        if value == self.too_large:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if len(self.waiting) >= self.room:
            raise BufferError
        self.waiting.append((value, more["on_delivery"]))
        self.times.append(more["timestamp"])
        self.most = max(self.most, len(self.waiting))

    def poll(self, timeout: float) -> int:
        if timeout > 0:
            self._deliver()
        return 0

    def flush(self, timeout: float) -> int:
        if self.flushes_interrupted:
            self.flushes_interrupted -= 1
            raise KeyboardInterrupt
        self._deliver()
        return 0

    def _deliver(self) -> None:
        for value, report in self.waiting:
            if value in self.refused:
                report(KafkaError(KafkaError._MSG_TIMED_OUT), Message(value=value))
            else:
                self.delivered.append(value)
                report(None, Message(value=value))
        self.waiting.clear()


def send(producer: StandInProducer, records: Iterator[ClientRecord]) -> Outcome:
    return produce(cast(Producer, producer), records)


def numbered(count: int) -> Iterator[ClientRecord]:
    return (ClientRecord(value=b"%d" % number, topic="t") for number in range(1, count + 1))


def test_no_more_waits_than_there_is_room_for() -> None:
    producer = StandInProducer(room=3)
    outcome = send(producer, numbered(100))
    assert producer.most == 3
    assert producer.delivered == [b"%d" % number for number in range(1, 101)]
    assert (outcome.taken, outcome.delivered, outcome.failed, outcome.unknown) == (100, 100, 0, 0)


def test_failures_are_named_by_their_record() -> None:
    outcome = send(StandInProducer(refused=frozenset((b"2",)), too_large=b"5"), numbered(6))
    assert (outcome.delivered, outcome.failed) == (4, 2)
    assert sorted(failure.number for failure in outcome.first_failures) == [2, 5]
    assert any("MSG_SIZE_TOO_LARGE" in failure.reason for failure in outcome.first_failures)


def test_of_many_failures_only_the_first_are_kept() -> None:
    outcome = send(StandInProducer(refused=frozenset(b"%d" % number for number in range(1, 51))), numbered(50))
    assert outcome.failed == 50
    assert len(outcome.first_failures) == ERRORS_KEPT


def test_input_that_breaks_off_loses_nothing_before_it() -> None:
    def records() -> Iterator[ClientRecord]:
        yield from numbered(4)
        raise RecordInputError("no record")

    producer = StandInProducer()
    outcome = send(producer, records())
    assert len(producer.delivered) == 4
    assert outcome.input_error is not None
    assert (outcome.input_error.number, outcome.input_error.reason) == (5, "no record")


def test_times_before_1970_are_sent_and_what_cannot_be_is_told_of() -> None:
    producer = StandInProducer()
    times = (5, None, 0, -1, -2, 1 << 63, -(1 << 63))
    outcome = send(producer, (ClientRecord(value=b"v", topic="t", timestamp=each) for each in times))
    assert producer.times == [5, 0, 0, -1, -2, -(1 << 63)]
    assert (outcome.delivered, outcome.retimed) == (6, 1)
    assert [(failure.number, failure.reason) for failure in outcome.first_failures] == [
        (6, "its partition or its time is a number that no record can have")
    ]


def test_ctrl_c_delivers_what_was_taken_and_a_second_one_waits_no_longer() -> None:
    def records() -> Iterator[ClientRecord]:
        yield from numbered(2)
        raise KeyboardInterrupt

    producer = StandInProducer()
    outcome = send(producer, records())
    assert (outcome.interrupted, outcome.delivered) == (True, 2)
    stubborn = StandInProducer()
    stubborn.flushes_interrupted = 1
    outcome = send(stubborn, records())
    assert (outcome.interrupted, outcome.delivered, outcome.unknown) == (True, 0, 2)


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        ({"taken": 2, "delivered": 2}, None, "2 delivered\n"),
        (
            {"taken": 2, "delivered": 2, "retimed": 1},
            None,
            "1 with a time of 0, which librdkafka takes for none: they have the time of now\n2 delivered\n",
        ),
        ({"taken": 14, "delivered": 2, "failed": 12}, 1, "... and 12 more\n2 delivered, 12 failed\n"),
        ({"taken": 3, "delivered": 2, "interrupted": True}, 130, "interrupted: 2 delivered, 1 not known\n"),
    ],
)
def test_how_it_ends(change: dict[str, int], code: int | None, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome()
    for name, value in change.items():
        setattr(outcome, name, value)
    if code is None:
        finish(outcome, quiet=False)
    else:
        with pytest.raises(SystemExit) as caught:
            finish(outcome, quiet=True)
        assert caught.value.code == code
    assert capsys.readouterr().err == told


# ---------------------------------------------------------------- reading


def message(offset: int, *, partition: int = 0, timestamp: int = 0) -> Message:
    return Message("t", partition, offset, value=b"%d" % offset, timestamp=(1, timestamp))


def end(offset: int, *, partition: int = 0) -> Message:
    return Message("t", partition, offset, error=KafkaError(KafkaError._PARTITION_EOF))


class StandInConsumer:
    """Gives the batches of messages that it was made with; nobody may ask for more."""

    def __init__(self, *batches: list[Message]) -> None:
        self._batches = list(batches)
        self.assigned: list[TopicPartition] = []
        self.paused: list[int] = []
        self.closed = False

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions

    def consume(self, count: int, timeout: float) -> list[Message]:
        return self._batches.pop(0)

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused += [partition.partition for partition in partitions]

    def close(self) -> None:
        self.closed = True


def read(consumer: StandInConsumer, spans: dict[int, Span], *, limit: int | None = None, high: int = 100) -> list[int]:
    class StandInTarget(Target):
        def consumer(self, defaults: object) -> Any:
            return consumer

    request = consuming.Request(["t"], [], Range(START), limit, read_committed=False, now_ms=0)
    planned = consuming.Plan(
        {("t", number): span for number, span in spans.items()}, {("t", number): (0, high) for number in spans}
    )
    return [record.offset for record in consuming.consume(StandInTarget({}, 1), planned, request)]


def test_a_range_ends_before_its_stop() -> None:
    consumer = StandInConsumer([message(5), message(6), message(7), message(8)])
    assert read(consumer, {0: Span(5, 7)}) == [5, 6]
    assert consumer.closed


def test_a_range_whose_last_offsets_are_gone_ends_behind_them_or_at_the_end() -> None:
    assert read(StandInConsumer([message(5), message(9)]), {0: Span(5, 8)}) == [5]
    assert read(StandInConsumer([message(5)], [], [end(8)]), {0: Span(5, 8)}) == [5]


def test_the_end_of_a_partition_is_not_the_end_of_a_range_behind_it() -> None:
    assert read(StandInConsumer([message(5), end(6)], [message(6), message(7)]), {0: Span(5, 8)}) == [5, 6, 7]


def test_every_partition_has_its_own_end() -> None:
    consumer = StandInConsumer([message(0), message(1), message(2)], [message(0, partition=1)], [end(1, partition=1)])
    assert read(consumer, {0: Span(0, 2), 1: Span(0, 1), 2: Span(4, 4)}) == [0, 1, 0]
    assert consumer.paused == [0]
    assert [partition.partition for partition in consumer.assigned] == [0, 1]


def test_a_start_behind_the_end_is_waited_for() -> None:
    consumer = StandInConsumer([message(10), message(11), message(12)])
    assert read(consumer, {0: Span(12)}, limit=1, high=10) == [12]
    assert consumer.assigned[0].offset == 10


def test_a_time_that_has_not_come_ends_the_range_when_it_does() -> None:
    consumer = StandInConsumer([message(0, timestamp=5), message(1, timestamp=9), message(2, timestamp=10)])
    assert read(consumer, {0: Span(0, None, 10)}) == [0, 1]


def test_a_count_ends_it() -> None:
    assert read(StandInConsumer([message(0), message(1), message(2)]), {0: Span(0)}, limit=2) == [0, 1]
    assert read(StandInConsumer(), {0: Span(0)}, limit=0) == []


def test_an_error_is_raised() -> None:
    broken = Message("t", 0, 0, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException):
        read(StandInConsumer([broken]), {0: Span(0)})
