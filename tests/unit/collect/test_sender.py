"""The sender, over a producer that does as it is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from ottla.collect.batches import Batch, Record, encode
from ottla.collect.progress import Counters
from ottla.collect.sender import REJECTED, Sender
from ottla.collect.spool import Spool
from tests.peers.processes import wait_until

Report = Callable[[KafkaError | None, bytes], None]
Verdict = Callable[["Scripted"], None]
WAIT_S = 60
REFUSED = KafkaError.INVALID_RECORD


class Scripted:
    """Keeps what it is given until ``verdict`` reports on it, at every poll."""

    def __init__(self, verdict: Verdict, room: int = 1000) -> None:
        self._verdict = verdict
        self._room = room
        self.held: list[tuple[bytes, Report]] = []

    def produce(self, topic: str, value: bytes, key: bytes | None, *, on_delivery: Report, **_: Any) -> None:
        if value == b"too large":
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if len(self.held) >= self._room:
            raise BufferError
        self.held.append((value, on_delivery))

    def poll(self, seconds: float) -> None:
        self._verdict(self)

    def flush(self, seconds: float) -> int:
        self._verdict(self)
        return len(self.held)

    def purge(self) -> None:
        pass

    def report(self, index: int, code: int | None = None) -> bytes:
        value, report = self.held.pop(index)
        report(None if code is None else KafkaError(code), b"")
        return value


class Sending:
    def __init__(self, folder: Path, *values: bytes) -> None:
        """A batch of two records for every two values."""
        self.spool = Spool(folder, limit_bytes=1 << 20)
        for at in range(0, len(values), 2):
            records = [Record(value) for value in values[at : at + 2]]
            self.spool.append(encode(Batch("t", 1, (), records, {"f": {"offset": at}})))
        self.counters = Counters()
        self.sender: Sender | None = None

    def start(self, *producers: Scripted) -> Sender:
        """One after the other, for one session each."""
        left = iter(producers)
        self.sender = Sender(self.spool, lambda: cast("Producer", next(left)), self.counters, lambda: None)
        self.sender.start()
        return self.sender


@pytest.fixture
def sending(tmp_path: Path) -> Iterator[Callable[..., Sending]]:
    made: list[Sending] = []

    def make(*values: bytes) -> Sending:
        made.append(Sending(tmp_path, *values))
        return made[-1]

    yield make
    for each in made:
        if each.sender is not None:
            each.sender.finish(0)
            each.sender.join()
        each.spool.close()


def nothing(producer: Scripted) -> None:
    pass


def test_a_batch_is_done_when_it_and_all_before_it_are_acknowledged(sending: Callable[..., Sending]) -> None:
    story = sending(b"a", b"b", b"c", b"d")
    steps = iter([1, 1, 1])  # b, c, d: the first is the last
    acknowledged: list[bytes] = []
    is_released = False

    def late(producer: Scripted) -> None:
        if len(producer.held) + len(acknowledged) < 4:
            return
        if (index := next(steps, None)) is not None:
            acknowledged.append(producer.report(index))
        elif is_released and producer.held:
            acknowledged.append(producer.report(0))

    sender = story.start(Scripted(late))
    wait_until(lambda: len(acknowledged) == 3, timeout_s=WAIT_S, what="three are acknowledged")
    assert acknowledged == [b"b", b"c", b"d"]
    assert story.spool.committed == 0
    is_released = True
    sender.finish(WAIT_S)
    sender.join()
    assert story.spool.committed == 2
    assert story.spool.positions() == {"f": {"offset": 2}}
    assert story.counters.delivered == 4


def test_what_was_not_acknowledged_is_sent_again_by_another_producer(sending: Callable[..., Sending]) -> None:
    story = sending(b"a", b"b", b"c", b"d", b"e", b"f")

    def fails(producer: Scripted) -> None:
        if len(producer.held) == 6:
            for _ in range(3):
                producer.report(0)
            producer.report(1, KafkaError._FATAL)

    seen: list[bytes] = []

    def takes(producer: Scripted) -> None:
        while producer.held:
            seen.append(producer.report(0))

    sender = story.start(Scripted(fails), Scripted(takes, room=2))
    sender.finish(WAIT_S)
    sender.join()
    assert seen == [b"c", b"d", b"e", b"f"]
    assert story.counters.errors == 1
    assert (story.spool.committed, story.spool.waiting) == (3, 0)


def test_of_records_that_are_refused_together_only_those_that_are_refused_alone_are_rejected(
    sending: Callable[..., Sending],
) -> None:
    story = sending(b"a", b"bad", b"c", b"too large")

    def refuses(producer: Scripted) -> None:
        together = any(value == b"bad" for value, _ in producer.held)
        while producer.held:
            producer.report(0, REFUSED if together else None)

    sender = story.start(Scripted(refuses))
    sender.finish(WAIT_S)
    sender.join()
    assert sender.failure is None
    assert (story.counters.delivered, story.counters.rejected, story.spool.waiting) == (2, 2, 0)
    kept = [json.loads(line) for line in (story.spool.folder / REJECTED).read_text().splitlines()]
    assert sorted(each["value"] for each in kept) == ["bad", "too large"]


def test_it_gives_up_in_time_and_what_is_left_stays(sending: Callable[..., Sending]) -> None:
    story = sending(b"a", b"b", b"c", b"d")
    sender = story.start(Scripted(nothing, room=1))
    sender.finish(0.1)
    sender.join()
    assert (sender.failure, story.spool.waiting) == (None, 2)


def test_a_damaged_spool_ends_it(sending: Callable[..., Sending]) -> None:
    story = sending(b"a", b"b")
    [file] = story.spool.folder.glob("*.spool")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    sender = story.start(Scripted(nothing))
    sender.join()
    assert "is damaged at byte 0" in str(sender.failure)
