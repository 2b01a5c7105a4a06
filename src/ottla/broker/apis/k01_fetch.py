"""Fetch: records out of partitions.

What there is is looked up first, as ranges of files; bytes are read once the answer is due. It is due when ``min_bytes`` are
there, when something is wrong, or when ``max_wait_ms`` are over; until then the fetch waits, and every partition it names
wakes it when it has more.

The first partition with records gives at least one batch however large that is, so that a consumer always gets on. All
together give no more than ``max_bytes``, and each no more than its own limit.
"""

from __future__ import annotations

from asyncio import TimerHandle
from typing import NamedTuple

from ottla.base.errors import Error
from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.errors import error_code
from ottla.broker.fetchsessions import FetchSession, Key, named
from ottla.log import Fetched, FileRange
from ottla.replica.partition import Partition
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k01_fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

_READ_COMMITTED = 1
_NOTHING = b""


def handle(ctx: Context, request: FetchRequest) -> Answer:
    session = ctx.services.fetch_sessions.begin(request, ctx.services.clock.wall_ms())
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    fetch = _Fetch(ctx, request, session)
    found = fetch.look()
    if fetch.is_due(found) or request.max_wait_ms <= 0:
        return fetch.answer(found)
    return fetch.wait()


class _Found(NamedTuple):
    """What a look at one partition gave: an answer that lacks its records, and where those are."""

    key: Key
    data: PartitionData
    range: FileRange | None


class _Fetch:
    """One fetch from its request to its answer."""

    def __init__(self, ctx: Context, request: FetchRequest, session: FetchSession | None) -> None:
        self._ctx = ctx
        self._request = request
        self._session = session
        self._wanted = list(named(request)) if session is None else list(session.partitions.items())
        self._parked = Parked()
        self._waiting_at: list[Partition] = []
        self._timer: TimerHandle | None = None

    def look(self) -> list[_Found]:
        left = self._request.max_bytes
        found, empty = [], True
        for key, wanted in self._wanted:
            each = self._look_at(key, wanted, left, min_one=empty)
            found.append(each)
            if each.range is not None:
                left -= each.range.length
                empty = False
        return found

    def is_due(self, found: list[_Found]) -> bool:
        size = sum(each.range.length for each in found if each.range is not None)
        return size >= self._request.min_bytes or not found or any(each.data.error_code for each in found)

    def wait(self) -> Parked:
        services = self._ctx.services
        self._timer = services.loop.call_later(self._request.max_wait_ms / 1000, self._end)
        for (name, topic_id, index), _ in self._wanted:
            if topic_id != ZERO_UUID:
                name = services.replicas.topic_name(topic_id)  # noqa: PLW2901
            partition = services.replicas.partition(name, index)
            partition.wait(self._woken)
            self._waiting_at.append(partition)
        return self._parked

    def _woken(self) -> None:
        found = self.look()
        if self.is_due(found):
            self._end(found)

    def _end(self, found: list[_Found] | None = None) -> None:
        assert self._timer is not None
        self._timer.cancel()
        for partition in self._waiting_at:
            partition.forget(self._woken)
        if not self._parked.is_complete:
            self._parked.complete(self.answer(self.look() if found is None else found))

    def answer(self, found: list[_Found]) -> FetchResponse:
        topics: dict[tuple[str, bytes], list[PartitionData]] = {}
        session = self._session
        incremental = session is not None and self._request.session_epoch > 0
        for key, data, range_ in found:
            try:
                data.records = _NOTHING if range_ is None else range_.read()
            except OSError:
                data.error_code, data.records = ErrorCode.KAFKA_STORAGE_ERROR, _NOTHING
            telling = session is None or session.worth_telling(key, data)
            if telling or not incremental:
                topics.setdefault(key[:2], []).append(data)
        return FetchResponse(
            session_id=0 if session is None else session.id,
            responses=[
                FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in topics.items()
            ],
        )

    def _look_at(self, key: Key, wanted: FetchPartition, left: int, *, min_one: bool) -> _Found:
        name, topic_id, index = key
        replicas = self._ctx.services.replicas
        try:
            if topic_id != ZERO_UUID:
                name = replicas.topic_name(topic_id)
            partition = replicas.partition(name, index)
            committed = self._request.isolation_level == _READ_COMMITTED
            fetched = partition.read(
                wanted.fetch_offset,
                min(wanted.partition_max_bytes, max(left, 0)),
                committed=committed,
                min_one=min_one,
                epoch=wanted.current_leader_epoch,
            )
        except Error as error:
            return _Found(key, self._refused(name, index, error), None)
        data = PartitionData(
            partition_index=index,
            high_watermark=partition.log.high_watermark,
            last_stable_offset=partition.log.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=_aborted(partition, wanted, fetched) if committed else None,
        )
        return _Found(key, data, fetched.range)

    def _refused(self, name: str, index: int, error: Error) -> PartitionData:
        code = error_code(error)
        data = PartitionData(
            partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=None, records=_NOTHING
        )
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            topic = self._ctx.services.cluster.image.topics.get(name)
            state = None if topic is None else topic.states.get(index)
            if state is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
        return data


def _aborted(partition: Partition, wanted: FetchPartition, fetched: Fetched) -> list[AbortedTransaction]:
    if fetched.range is None:
        return []
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.log.aborted_transactions(wanted.fetch_offset, fetched.upper_bound)
    ]


HANDLER = Handler(ApiKey.FETCH, handle, Operation.READ, Resource.TOPICS)
