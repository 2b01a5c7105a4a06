"""Followers kept up to date: one task for a leader, and one connection, over which it fetches for many partitions.

What a partition is fetched from is the end of its own log, so there is no state here that could be wrong after a restart:

    follow ──► fetch from the end of the log, with the epoch of its last record
                 │  records        appended as they are; high watermark and start are the leader's, as far as the log reaches
                 │  diverged       cut by epoch (``truncation``), and fetched again
                 │  out of range   the leader's log ends before, or starts behind: cut to its end, or started over
                 │  another epoch  one of the two has yet to hear from the controller: again in a moment
                 └─ anything else  likewise

A fetch waits at the leader for records. A partition that comes meanwhile does not wait for it: the connection is given up,
and the next fetch names everybody. What is not answered in time is taken for lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

from ottla.base.clock import Clock
from ottla.base.errors import Error
from ottla.base.pace import Pace
from ottla.log import StorageError
from ottla.metadata.ids import ZERO_ID, BrokerId, TopicPartition
from ottla.peers import Peer, PeerLostError
from ottla.replica.leadersession import Key, LeaderSession
from ottla.replica.partition import Partition
from ottla.replica.throttle import LOOK_AGAIN_S
from ottla.wire import ErrorCode, Message, in_memory
from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData, ReplicaState
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

log = logging.getLogger(__name__)

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 9
"""As brokers of 3.9 speak to each other."""
LATEST, EARLIEST = -1, -2
FIRST_PAUSE_S = 0.02
GATHER_S = 0.01
"""Orders come for many partitions at once."""

Address = tuple[str, int]
R = TypeVar("R", bound=Message)


class FetchSettings(NamedTuple):
    """What a broker's configuration says, by Kafka's names."""

    broker_id: BrokerId
    fetchers: int
    wait_max_ms: int
    min_bytes: int
    max_bytes: int
    response_max_bytes: int
    backoff_ms: int
    timeout_ms: int


class Line(Protocol):
    """The way to a leader: a ``Peer``, or what stands for one where there is no network."""

    host: str
    port: int

    def call(
        self, request: Message, version: int, answer: type[R], *, timeout_s: float | None = None
    ) -> Awaitable[R]: ...

    def close(self) -> None: ...


class DialLeader(Protocol):
    def __call__(self, host: str, port: int, *, client_id: str) -> Line: ...


class LeaderHere(NamedTuple):
    """What fetchers ask their broker."""

    address: Callable[[BrokerId], Address | None]
    """Where a live broker listens for others."""
    broker_epoch: Callable[[], int]
    dial: DialLeader = Peer


class _Followed:
    """One partition, in one epoch of its leader."""

    __slots__ = ("epoch", "is_asked_for", "key", "lag", "partition", "pause_s", "paused_until_s")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.key = Key(partition.topic_id or ZERO_ID, partition.where.partition)
        self.is_asked_for = False
        """A fetch has named it. What comes before was asked for in an earlier epoch, and may not be what is there now."""
        self.pause_s = FIRST_PAUSE_S
        self.paused_until_s = 0.0
        self.lag: int | None = None
        """How much was committed and is not here, as far as the last fetch told."""

    @property
    def is_held_back(self) -> bool:
        throttle = self.partition.follower_throttle
        return throttle is not None and self.lag != 0 and throttle.is_exceeded

    @property
    def is_current(self) -> bool:
        return self.partition.leader_epoch == self.epoch and not self.partition.is_leader


class _Patience:
    """With one answer of the task that makes it: what ``asyncio.timeout`` is, compiled, since it is on the way of every record."""

    __slots__ = ("_is_over", "_loop", "_task", "_timer", "is_hurried")

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._is_over = False
        self.is_hurried = False
        """Somebody came who does not wait for this answer."""
        self._timer = self._loop.call_later(seconds, self._give_up)

    def hurry(self) -> None:
        if not self.is_hurried and not self._is_over:
            self.is_hurried = True
            self._timer.cancel()
            self._timer = self._loop.call_later(GATHER_S, self._give_up)

    def _give_up(self) -> None:
        assert self._task is not None, "made by a task"
        self._is_over = True
        self._task.cancel()

    def is_to_blame(self) -> bool:
        """Whether it was this that had the task cancelled, and nothing else."""
        return self._is_over and self._task is not None and self._task.uncancel() <= 0

    def end(self) -> None:
        self._timer.cancel()


class Fetcher:
    """Fetches from one leader. See the module."""

    def __init__(self, leader: BrokerId, number: int, settings: FetchSettings, here: LeaderHere, clock: Clock) -> None:
        self._leader = leader
        self._number = number
        self._settings = settings
        self._here = here
        self._clock = clock
        self._followed: dict[Key, _Followed] = {}
        self._changed: dict[Key, None] = {}
        self._unwanted: set[Key] = set()
        self._session = LeaderSession()
        self._peer: Line | None = None
        self.cut_s: float | None = None
        """When the leader hung up, if it has not answered since."""
        self._pause_s = FIRST_PAUSE_S
        self._news = asyncio.Event()
        self._patience: _Patience | None = None
        """With the answer that is waited for."""

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def lag_max(self) -> int:
        """Of the partition that is furthest behind."""
        return max((followed.lag or 0 for followed in self._followed.values()), default=0)

    def partitions(self) -> list[Partition]:
        return [followed.partition for followed in self._followed.values()]

    def follow(self, partition: Partition) -> None:
        followed = _Followed(partition)
        self._followed[followed.key] = followed
        self._changed[followed.key] = None
        self._unwanted.discard(followed.key)
        partition.begin_to_follow(now_ms=self._clock.wall_ms())
        self._news.set()
        if self._patience is not None:
            self._patience.hurry()

    def forget(self, partition: Partition) -> None:
        key = Key(partition.topic_id or ZERO_ID, partition.where.partition)
        if self._followed.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._unwanted.add(key)

    async def run(self) -> None:
        """Until there is nobody left to fetch for."""
        try:
            while self._followed:
                if not await self._round():
                    await self._rest(self._pause_s)
                    self._pause_s = min(2 * self._pause_s, self._settings.backoff_ms / 1000)
                else:
                    self._pause_s = FIRST_PAUSE_S
        finally:
            self._hang_up()

    async def _round(self) -> bool:
        """One fetch and what comes of it; False if nothing came."""
        address = self._here.address(self._leader)
        if address is None:
            return False
        if self._peer is None or (self._peer.host, self._peer.port) != address:
            self._hang_up()
            name = f"broker-{self._settings.broker_id}-fetcher-{self._number}"
            self._peer = self._here.dial(*address, client_id=name)
        asked, request = self._request()
        if not asked and self._session.is_new:
            return False
        try:
            response = await self._call(self._peer, request)
        except (PeerLostError, TimeoutError) as error:
            log.info("fetching from broker %d: %s", self._leader, str(error) or "no answer in time")
            if isinstance(error, PeerLostError) and self.cut_s is None:
                self.cut_s = self._clock.monotonic()
            self._hang_up()
            return False
        if response is None:  # somebody came who does not wait
            self._hang_up()
            return True
        self.cut_s = None
        if response.error_code:
            self._session.lost()
            return response.error_code in _SESSION_ERRORS
        self._session.answered(response.session_id)
        await self._take(response)
        return True

    def _request(self) -> tuple[bool, FetchRequest]:
        settings, now_s = self._settings, self._clock.monotonic()
        candidates = list(self._followed if self._session.is_new else self._changed)
        wanted: dict[Key, FetchPartition] = {}
        for key in candidates:
            followed = self._followed[key]
            if followed.is_held_back:
                self._hold_back(followed, now_s)
            elif followed.paused_until_s <= now_s and followed.is_current:
                wanted[key] = self._asked_of(followed.partition)
                followed.is_asked_for = True
                self._changed.pop(key, None)
        ask = self._session.ask(wanted, self._unwanted)
        self._unwanted = set()
        state = ReplicaState(replica_id=settings.broker_id, replica_epoch=self._here.broker_epoch())
        request = FetchRequest(
            replica_state=state,
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=ask.session_id,
            session_epoch=ask.session_epoch,
            topics=ask.topics,
            forgotten_topics_data=ask.forgotten,
        )
        if self._changed:  # some are paused: no waiting at the leader beyond their time
            due_s = min(self._followed[key].paused_until_s for key in self._changed) - now_s
            request.max_wait_ms = max(min(settings.wait_max_ms, round(due_s * 1000)), 0)
        return bool(wanted), request

    def _asked_of(self, partition: Partition) -> FetchPartition:
        return FetchPartition(
            partition=partition.where.partition,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=partition.log.log_end_offset,
            last_fetched_epoch=partition.log.epochs.latest,
            log_start_offset=partition.log.log_start_offset,
            partition_max_bytes=self._settings.max_bytes,
        )

    async def _call(self, peer: Line, request: FetchRequest) -> FetchResponse | None:
        """The answer; None if somebody new is not to wait for it. One of these is on the way of every record: no tasks."""
        self._news.clear()
        patience = self._patience = _Patience(self._settings.timeout_ms / 1000)
        try:
            return await peer.call(request, FETCH_VERSION, FetchResponse)
        except asyncio.CancelledError:
            if not patience.is_to_blame():
                raise
            if patience.is_hurried:
                return None
            raise TimeoutError from None
        finally:
            patience.end()
            self._patience = None

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                self._news.clear()
                await self._news.wait()
        except TimeoutError:
            return

    def _hang_up(self) -> None:
        self._session.lost()
        if self._peer is not None:
            self._peer.close()

    # What came.

    async def _take(self, response: FetchResponse) -> None:
        pace: Pace | None = None
        for topic in response.responses:
            for data in topic.partitions:
                if pace is None:
                    pace = Pace()
                else:
                    await pace.keep()
                followed = self._followed.get(Key(topic.topic_id, data.partition_index))
                if followed is not None and followed.is_asked_for and followed.is_current:
                    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                        await self._start_over(followed)
                    else:
                        self._take_one(followed, data)

    def _take_one(self, followed: _Followed, data: PartitionData) -> None:
        partition = followed.partition
        try:
            if data.error_code:
                self._pause(followed, ErrorCode(data.error_code).name)
                return
            if data.diverging_epoch is not None:
                diverging = data.diverging_epoch
                partition.truncate_by_epoch(diverging.epoch, diverging.end_offset, now_ms=self._clock.wall_ms())
            else:
                start = partition.log.log_start_offset
                partition.replicate(
                    bytes(in_memory(data.records or b"")),
                    high_watermark=data.high_watermark,
                    log_start_offset=data.log_start_offset,
                    now_ms=self._clock.wall_ms(),
                )
                followed.lag = max(data.high_watermark - partition.log.log_end_offset, 0)
                if partition.follower_throttle is not None:
                    partition.follower_throttle.record(len(data.records or b""))
                # A start that moved is told with the next fetch: somebody may wait for it.
                if not data.records and partition.log.log_start_offset == start:
                    return
        except StorageError:
            # The directory is offline, and has said why. It takes its partitions with it.
            self.forget(partition)
            return
        except Error as error:
            self._pause(followed, str(error))
            return
        self._ask_next(followed)

    def _ask_next(self, followed: _Followed) -> None:
        followed.pause_s = FIRST_PAUSE_S
        if self._is_followed(followed):
            self._changed[followed.key] = None

    def _is_followed(self, followed: _Followed) -> bool:
        """While a leader was asked where its log begins and ends, the controller may have decided otherwise."""
        return self._followed.get(followed.key) is followed

    def _hold_back(self, followed: _Followed, now_s: float) -> None:
        """It has had its share. The leader would go on sending what was asked for last."""
        followed.paused_until_s = max(followed.paused_until_s, now_s + LOOK_AGAIN_S)
        self._changed[followed.key] = None
        self._unwanted.add(followed.key)

    def _pause(self, followed: _Followed, why: str) -> None:
        if not self._is_followed(followed):
            return
        # The controller tells one broker after the other, so that a few refusals are nothing to speak of.
        level = logging.DEBUG if followed.pause_s < self._settings.backoff_ms / 1000 else logging.WARNING
        log.log(level, "%s: cannot follow broker %d yet: %s", followed.partition.where, self._leader, why)
        followed.paused_until_s = self._clock.monotonic() + followed.pause_s
        followed.pause_s = min(2 * followed.pause_s, self._settings.backoff_ms / 1000)
        self._changed[followed.key] = None
        self._unwanted.add(followed.key)

    async def _start_over(self, followed: _Followed) -> None:
        """Nothing at the leader follows what is here: it ends before, or begins behind."""
        where, epoch = followed.partition.where, followed.epoch
        try:
            end = await self._offset(where, epoch, LATEST)
            start = await self._offset(where, epoch, EARLIEST)
            if followed.is_current:
                followed.partition.fit_between(start, end, now_ms=self._clock.wall_ms())
        except StorageError:
            self.forget(followed.partition)
        except (Error, TimeoutError) as error:
            self._pause(followed, str(error) or type(error).__name__)
        else:
            self._ask_next(followed)

    async def _offset(self, where: TopicPartition, epoch: int, which: int) -> int:
        assert self._peer is not None, "asked over the connection that the answer came from"
        wanted = ListOffsetsPartition(partition_index=where.partition, current_leader_epoch=epoch, timestamp=which)
        request = ListOffsetsRequest(
            replica_id=self._settings.broker_id, topics=[ListOffsetsTopic(name=where.topic, partitions=[wanted])]
        )
        timeout_s = self._settings.timeout_ms / 1000
        response = await self._peer.call(request, LIST_OFFSETS_VERSION, ListOffsetsResponse, timeout_s=timeout_s)
        (found,) = response.topics[0].partitions
        if found.error_code:
            raise PeerLostError(f"{where}: {ErrorCode(found.error_code).name}")
        return found.offset


_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""What another session mends at once."""
