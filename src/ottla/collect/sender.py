"""From the spool to the brokers, in a thread: in order, and nothing leaves the spool before it is acknowledged.

A session is one producer. Batches are read behind what is done, and given to librdkafka record by record; when all records of a
batch and of those before it are acknowledged, it is done. A broker that is away is librdkafka's to wait for, without a limit.

    a record that no broker will ever take      brokers refuse whole batches, so each record of one is sent again alone; which is
    (too large, refused by its topic)           refused then goes to ``rejected.jsonl`` beside the spool, as ``ottla produce -f
                                                jsonl`` reads it, and is told
    anything else                               ends the session: what was not acknowledged is sent again, by a new producer
"""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.base.errors import Error
from ottla.collect.batches import Batch, Record, decode
from ottla.collect.progress import Counters
from ottla.collect.spool import Reader, Spool

log = logging.getLogger(__name__)

REJECTED = "rejected.jsonl"
CHECKPOINT_S = 0.5
_POLL_S = 0.05
_RETRY_FIRST_S = 0.5
_RETRY_LAST_S = 10.0
_REFUSED = frozenset(
    (
        "MSG_SIZE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "_INVALID_ARG",
        "_INVALID_DIFFERENT_RECORD",
    )
)
"""What sending again does not change, as long as the same records are sent together."""
SETTINGS: Mapping[str, object] = {
    "message.timeout.ms": 0,
    "linger.ms": 20,
    "reconnect.backoff.max.ms": 1000,
    "queue.buffering.max.messages": 50_000,
}
"""Beside what ``ottla produce`` has. Without a timeout, librdkafka sends a record until somebody takes it, and brokers that were
away for long are found soon after they are back."""


class _SessionOver(Exception):  # noqa: N818  it is no error of ours
    """What was not acknowledged has to be sent again."""


class _Sent:
    """A batch on its way."""

    __slots__ = ("batch", "missing", "number")

    def __init__(self, number: int, batch: Batch, missing: int) -> None:
        self.number = number
        self.batch = batch
        self.missing = missing


class Sender:
    def __init__(
        self, spool: Spool, producer: Callable[[], Producer], counters: Counters, on_room: Callable[[], None]
    ) -> None:
        """``on_room`` is called from the thread whenever the spool may take more."""
        self._spool = spool
        self._producer = producer
        self._counters = counters
        self._on_room = on_room
        self._deadline_s: float | None = None
        self._ended = threading.Event()
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def finish(self, timeout_s: float) -> None:
        """End once everything is sent, or after so long."""
        self._deadline_s = time.monotonic() + timeout_s

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        retry_s = _RETRY_FIRST_S
        try:
            while not self._is_over():
                committed = self._spool.committed
                try:
                    _Session(self._spool, self._producer(), self._counters, self._on_room, self._is_over).run()
                except _SessionOver as over:
                    self._counters.errors += 1
                    log.warning("%s; what was not acknowledged is sent again", over)
                    retry_s = _RETRY_FIRST_S if self._spool.committed > committed else min(retry_s * 2, _RETRY_LAST_S)
                    self._pause(retry_s)
        except (Error, OSError, KafkaException) as error:
            self.failure = error
        finally:
            self._ended.set()

    def _is_over(self) -> bool:
        deadline_s = self._deadline_s
        return deadline_s is not None and (not self._spool.waiting or time.monotonic() >= deadline_s)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._is_over():
            time.sleep(_POLL_S)


class _Session:
    def __init__(
        self,
        spool: Spool,
        producer: Producer,
        counters: Counters,
        on_room: Callable[[], None],
        is_over: Callable[[], bool],
    ) -> None:
        self._spool = spool
        self._producer = producer
        self._counters = counters
        self._on_room = on_room
        self._is_over = is_over
        self._reader = Reader(spool, spool.committed)
        self._on_way: deque[_Sent] = deque()
        self._suspects: deque[tuple[_Sent, Record]] = deque()
        self._trouble = ""
        self._has_kept = False
        """Whether there are rejected records that may not be on disk yet."""
        self._written = spool.committed
        self._checkpoint_due_s = time.monotonic() + CHECKPOINT_S

    def run(self) -> None:
        try:
            while not self._is_over():
                found = self._reader.next()
                if found is None:
                    self._poll(_POLL_S)
                else:
                    self._send(found[0], decode(found[1]))
                    self._poll(0)
        finally:
            self._producer.purge()
            self._reader.close()
            self._settle()
            self._write_checkpoint()

    def _send(self, number: int, batch: Batch) -> None:
        sent = _Sent(number, batch, len(batch.records))
        self._on_way.append(sent)
        for record in batch.records:
            self._produce(sent, record)

    def _produce(self, sent: _Sent, record: Record, *, is_alone: bool = False) -> None:
        """Waits while librdkafka has no room; gives up when the session does."""

        def report(error: KafkaError | None, message: Message) -> None:
            self._report(sent, record, error, len(message), is_alone=is_alone)

        batch = sent.batch
        while not self._is_over():
            try:
                self._producer.produce(
                    batch.topic,
                    record.value,
                    record.key,
                    on_delivery=report,
                    timestamp=batch.received_ms,
                    headers=[*batch.headers, *record.headers],
                )
            except BufferError:
                self._poll(_POLL_S)
            except KafkaException as error:
                self._report(sent, record, error.args[0], 0, is_alone=True)
                return
            else:
                return

    def _report(self, sent: _Sent, record: Record, error: KafkaError | None, size: int, *, is_alone: bool) -> None:
        counters = self._counters
        if error is None:
            counters.delivered += 1
            counters.delivered_bytes += size
            sent.missing -= 1
        elif error.name() not in _REFUSED:
            self._trouble = self._trouble or f"{error.str()} ({error.name()})"
        elif not is_alone:
            self._suspects.append((sent, record))
        else:
            reason = f"{error.str()} ({error.name()})"
            if not counters.rejected:
                log.error("a record is not taken: %s; it is kept in %s", reason, self._spool.folder / REJECTED)
            counters.rejected += 1
            _keep(self._spool.folder / REJECTED, sent.batch, record, reason)
            self._has_kept = True
            sent.missing -= 1

    def _try_alone(self) -> None:
        """Records that were refused with others, each by itself."""
        while self._suspects and self._flushed():
            sent, record = self._suspects.popleft()
            self._produce(sent, record, is_alone=True)
            self._flushed()

    def _flushed(self) -> bool:
        while self._producer.flush(_POLL_S):
            if self._trouble:
                raise _SessionOver(self._trouble)
            if self._is_over():
                return False
        return True

    def _poll(self, seconds: float) -> None:
        self._producer.poll(seconds)
        if self._trouble:
            raise _SessionOver(self._trouble)
        if self._suspects:
            self._try_alone()
        self._settle()
        if time.monotonic() >= self._checkpoint_due_s:
            self._write_checkpoint()

    def _settle(self) -> None:
        """Whatever is done from the front on is done for good."""
        while self._on_way and not self._on_way[0].missing:
            sent = self._on_way.popleft()
            self._spool.commit(sent.number + 1, sent.batch.positions)

    def _write_checkpoint(self) -> None:
        self._checkpoint_due_s = time.monotonic() + CHECKPOINT_S
        if self._spool.committed == self._written:
            return
        committed = self._spool.committed
        try:
            if self._has_kept:
                _sync(self._spool.folder / REJECTED)
                self._has_kept = False
            self._spool.checkpoint()
        except OSError as error:
            self._counters.errors += 1
            log.warning("cannot write down what is done: %s; after a crash it is sent again", error.strerror)
            return
        self._written = committed
        self._on_room()


def _keep(path: Path, batch: Batch, record: Record, reason: str) -> None:
    headers = (*batch.headers, *record.headers, ("rejected", reason.encode()))
    line = {
        "topic": batch.topic,
        "timestamp": batch.received_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [{"key": name, "value": _text(value)} for name, value in headers],
    }
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _text(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
