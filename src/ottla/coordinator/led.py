"""One partition that is led here: its shard, its timers, what is to be written, and who waits for replicas.

What a shard decides is done at once, or gathered: commits, which decide nothing that the next commit would have to know, are
written as one batch at the end of a turn of the loop. An append costs the same for one record as for a hundred.

    do       write, replay, set timers; tell, once the replicas have it
    gather   encode, set timers; at the end of the turn all that was gathered is written, replayed and told likewise
    flush    what was gathered is written now: whoever asks for more than a commit does so before anything is decided, and
             what is gathered never makes a batch larger than the topic takes

What was gathered is refused like anything else that cannot be written, each with its own answer. What cannot be encoded is
refused alone.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from ottla.base.clock import Clock
from ottla.base.errors import Error
from ottla.coordinator.loading import NO_PRODUCER, RecordCodec, Replayed
from ottla.coordinator.outcome import Outcome, TimerKey
from ottla.records import AppendOrigin, Codec, Record, build_batch
from ottla.replica.partition import ALL, Partition
from ottla.wire import ErrorCode

log = logging.getLogger(__name__)

R = TypeVar("R")

GATHERED_BYTES_MAX: Final = 1 << 16
"""Of one batch. A larger one would be no cheaper by the record."""
_ACKS: Final = (ALL, 0, 1)
_BATCH_BYTES: Final = 61
_RECORD_BYTES: Final = 32
"""The most that a record takes beyond its key and value."""


class InvalidAcksError(Error):
    """Kafka lets them be set, and answers every write so."""

    error: ClassVar[str] = "INVALID_REQUIRED_ACKS"


class Shard(Replayed[R], Protocol[R]):
    """The state of one partition, and what is decided on it."""

    def loaded(self, now_ms: int) -> Outcome[R]:
        """All of the log was replayed; from now on there are requests."""
        ...

    def unloaded(self) -> Outcome[R]:
        """Another broker leads: the answers for all who wait here."""
        ...

    def on_timer(self, key: TimerKey, now_ms: int) -> Outcome[R]: ...


S = TypeVar("S", bound=Shard[Any])


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    write_timeout_ms: int
    load_bytes: int
    """Of the log at a time."""
    compression: Codec = Codec.NONE
    acks: int = ALL
    """Whom a write waits for: all replicas in sync, or nobody but this one (0 and 1)."""


class Means(Generic[R]):
    """What the partitions of a topic are looked after with."""

    __slots__ = ("clock", "codec", "config", "loop")

    def __init__(self, codec: RecordCodec[R], config: RuntimeConfig, clock: Clock, loop: AbstractEventLoop) -> None:
        self.codec = codec
        self.config = config
        self.clock = clock
        self.loop = loop


class _Written(Generic[R]):
    """An outcome whose replies wait for the replicas."""

    __slots__ = ("deadline_s", "end_offset", "outcome")

    def __init__(self, outcome: Outcome[R], end_offset: int, deadline_s: float) -> None:
        self.outcome = outcome
        self.end_offset = end_offset
        self.deadline_s = deadline_s


class _Alarm:
    """A timer that runs. Sessions are pushed back far more often than they end, and that is only noted until it rings."""

    __slots__ = ("due_s", "handle", "rings_s")

    def __init__(self, handle: TimerHandle, due_s: float) -> None:
        self.handle = handle
        self.rings_s = due_s
        self.due_s = due_s


class Led(Generic[S, R]):
    """See the module."""

    def __init__(self, means: Means[R], partition: Partition, shard: S) -> None:
        self.partition = partition
        self.shard = shard
        self.state = ShardState.LOADING
        self._means = means
        self._alarms: dict[TimerKey, _Alarm] = {}
        self._gathered: list[Outcome[R]] = []
        self._encoded: list[Record] = []
        """Of all that is gathered."""
        self._gathered_bytes = 0
        self._written: deque[_Written[R]] = deque()
        self._deadline: TimerHandle | None = None

    def do(self, outcome: Outcome[R]) -> None:
        self.flush()
        self._take(outcome)
        self.flush()

    def gather(self, outcome: Outcome[R]) -> None:
        """As ``do``, but written at the end of this turn, with whatever else is gathered until then."""
        if not self._gathered:
            self._means.loop.call_soon(self.flush)
        self._take(outcome)

    def _take(self, outcome: Outcome[R]) -> None:
        self._set_timers(outcome.timers)
        if not outcome.records:
            if outcome.replies or outcome.refused is not None:
                self._tell_in_time(outcome, waits=outcome.after_log)
            return
        encode, now_ms = self._means.codec.encode, self._means.clock.wall_ms()
        try:
            encoded = [Record(*encode(record), now_ms) for record in outcome.records]
        except Error as error:
            self._refuse(outcome, self._not_written(len(outcome.records), error))
            return
        size = sum([_size(record) for record in encoded])
        most = min(GATHERED_BYTES_MAX, self.partition.log.config.max_message_bytes) - _BATCH_BYTES
        if self._gathered and self._gathered_bytes + size > most:
            self.flush()
        self._gathered.append(outcome)
        self._encoded += encoded
        self._gathered_bytes += size

    def flush(self) -> None:
        """Write what is gathered, as one batch."""
        gathered, encoded = self._gathered, self._encoded
        if not gathered:
            return
        self._gathered, self._encoded, self._gathered_bytes = [], [], 0
        means, acks = self._means, self._means.config.acks
        try:
            if acks not in _ACKS:
                raise InvalidAcksError(f"offsets.commit.required.acks is {acks}")
            batch = build_batch(encoded, codec=means.config.compression)
            info = self.partition.append(
                batch, acks=acks, now_ms=means.clock.wall_ms(), origin=AppendOrigin.COORDINATOR
            )
        except Error as error:
            code = self._not_written(len(encoded), error)
            for outcome in gathered:
                self._refuse(outcome, code)
            return
        offset = info.first_offset
        for outcome in gathered:
            for record in outcome.records:
                self.shard.replay(record, offset=offset, producer_id=NO_PRODUCER)
                offset += 1
        for outcome in gathered:
            self._tell_in_time(outcome, waits=acks == ALL)

    def _not_written(self, records: int, error: Error) -> ErrorCode:
        log.warning("%s: %d records cannot be written: %s", self.partition.where, records, error)
        return ErrorCode[getattr(error, "error", ErrorCode.UNKNOWN_SERVER_ERROR.name)]

    def _refuse(self, outcome: Outcome[R], code: ErrorCode) -> None:
        if outcome.refused is None:
            _tell(outcome)
        else:
            self.do(outcome.refused(code))

    # Waiting for replicas.

    def _tell_in_time(self, outcome: Outcome[R], *, waits: bool) -> None:
        end_offset = self.partition.log.log_end_offset
        if waits and not self.partition.is_replicated(end_offset):
            self._wait(outcome, end_offset)
        else:
            _tell(outcome)

    def _wait(self, outcome: Outcome[R], end_offset: int) -> None:
        if not self._written:
            self.partition.wait(self._look)
        loop, timeout_s = self._means.loop, self._means.config.write_timeout_ms / 1000
        self._written.append(_Written(outcome, end_offset, loop.time() + timeout_s))
        if self._deadline is None:
            self._deadline = loop.call_later(timeout_s, self._time_out)

    def _look(self) -> None:
        """The partition moved on. Losing it is told by ``on_leadership``."""
        done = []
        while self._written and self.partition.is_leader and self.partition.is_replicated(self._written[0].end_offset):
            done.append(self._written.popleft())
        self._forget_if_idle()
        for written in done:
            _tell(written.outcome)

    def _time_out(self) -> None:
        late, now_s = [], self._means.loop.time()
        while self._written and self._written[0].deadline_s <= now_s:
            late.append(self._written.popleft())
        self._deadline = None
        if self._written:
            self._deadline = self._means.loop.call_at(self._written[0].deadline_s, self._time_out)
        self._forget_if_idle()
        for written in late:
            self._refuse(written.outcome, ErrorCode.REQUEST_TIMED_OUT)

    def _forget_if_idle(self) -> None:
        if self._written:
            return
        self.partition.forget(self._look)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # Timers.

    def _set_timers(self, timers: dict[TimerKey, int | None]) -> None:
        loop = self._means.loop
        for key, delay_ms in timers.items():
            alarm = self._alarms.get(key)
            if delay_ms is None:
                if alarm is not None:
                    del self._alarms[key]
                    alarm.handle.cancel()
                continue
            due_s = loop.time() + delay_ms / 1000
            if alarm is not None:
                if alarm.rings_s <= due_s:
                    alarm.due_s = due_s
                    continue
                alarm.handle.cancel()
            self._alarms[key] = _Alarm(loop.call_at(due_s, self._ring, key), due_s)

    def _ring(self, key: TimerKey) -> None:
        alarm = self._alarms[key]
        if alarm.due_s > alarm.rings_s:
            alarm.rings_s = alarm.due_s
            alarm.handle = self._means.loop.call_at(alarm.due_s, self._ring, key)
            return
        del self._alarms[key]
        self.flush()
        self.do(self.shard.on_timer(key, self._means.clock.wall_ms()))

    # The end.

    def give_up(self) -> None:
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.GONE
        for alarm in self._alarms.values():
            alarm.handle.cancel()
        self._alarms.clear()
        waiting = [written.outcome for written in self._written] + self._gathered
        self._written.clear()
        self._gathered, self._encoded, self._gathered_bytes = [], [], 0
        self._forget_if_idle()
        if not was_active:
            return  # a worker may still replay into the shard, and nobody asked it anything
        for outcome in waiting:
            refused = outcome.refused
            _tell(outcome if refused is None else refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        _tell(self.shard.unloaded())


def _tell(outcome: Outcome[R]) -> None:
    for reply, response in outcome.replies:
        reply(response)


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + _RECORD_BYTES
