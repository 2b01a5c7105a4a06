"""Fetch: records out of partitions.

What there is is looked up first, as ranges of files; bytes are read once the answer is due. It is due when ``min_bytes`` are
there, when something is wrong, or when ``max_wait_ms`` are over; until then the fetch waits, and every partition it names
wakes it when it has more.

The first partition with records gives at least one batch however large that is, so that a consumer always gets on. All
together give no more than ``max_bytes``, and each no more than its own limit.
"""

from __future__ import annotations

from asyncio import TimerHandle
from typing import Final

from ottla.base.errors import CorruptionError, Error
from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.errors import error_code
from ottla.broker.fetchsessions import FetchSession, Key, News, named
from ottla.broker.nearest import nearest_replica
from ottla.log import Fetched, FileRange, Log
from ottla.log.epochs import EpochEndOffset
from ottla.replica.partition import Partition
from ottla.replica.throttle import Throttle
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode, Part
from ottla.wire.messages.k01_fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.wire.messages.k01_fetch import EpochEndOffset as Diverging

_ZSTD_FROM: Final = 10
_ANY_REPLICA_FROM: Final = 11
_DIVERGING_FROM: Final = 12
_BY_ID_FROM: Final = 13
_LEADER_TOLD_FROM: Final = 16
"""Earlier versions have the field, and nobody who reads it (KIP-951)."""
_READ_COMMITTED: Final = 1
_NOTHING: Final = b""
_READ_BYTES_MAX: Final = 128 << 10
"""What is larger is sent from its file."""


def handle(ctx: Context, request: FetchRequest) -> Answer:
    replica = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if ctx.is_impostor(replica):  # it would move the high watermark
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    by_id = ctx.version >= _BY_ID_FROM
    session = ctx.services.fetch_sessions.begin(request, ctx.services.clock.wall_ms(), by_id=by_id)
    if isinstance(session, ErrorCode):
        ctx.services.dispatch.tallies.errors[ApiKey.FETCH][session] += 1
        return FetchResponse(error_code=session)
    fetch = _Fetch(ctx, request, session, replica)
    found = fetch.look(recording=replica >= 0)
    if fetch.is_due(found) or request.max_wait_ms <= 0:
        return fetch.answer(found)
    return fetch.wait()


class _Found:
    """What a look at one partition gave: an answer that lacks its records, and where those are."""

    __slots__ = ("data", "key", "log", "range", "throttle")

    def __init__(
        self,
        key: Key,
        data: PartitionData,
        range: FileRange | None,  # noqa: A002
        log: Log | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self.key = key
        self.data = data
        self.range = range
        self.log = log
        self.throttle = throttle


class _Fetch:
    """One fetch from its request to its answer."""

    def __init__(self, ctx: Context, request: FetchRequest, session: FetchSession | None, replica: int) -> None:
        self._ctx = ctx
        self._request = request
        self._version = ctx.version  # by the time of the answer the connection may be at another request
        self._replica = replica
        self._replica_epoch = -1 if request.replica_state is None else request.replica_state.replica_epoch
        self._selects = ctx.services.config.selects_replicas and bool(request.rack_id)
        self._session = session
        self._news: News | None = None
        if replica >= 0:
            self._wanted = self._wanted_by_follower()
        elif session is None:
            self._wanted = list(dict(named(request)).items())
        else:
            self._wanted = list(session.partitions.items())
        self._parked: Parked | None = None
        self._looking = False
        self._abandoned = False
        self._waiting_at: list[Partition] = []
        self._timer: TimerHandle | None = None
        self._tells_leaders = False

    def _wanted_by_follower(self) -> list[tuple[Key, FetchPartition]]:
        session, eager = self._session, self._ctx.services.config.selects_replicas
        if session is None:
            self._news = News(is_eager=eager)
            return list(dict(named(self._request)).items())
        due = session.due_to_follower(self._request, replica_epoch=self._replica_epoch, is_eager=eager)
        self._news = session.news
        return due

    def _look_further(self) -> None:
        """While a follower's fetch waits, something happens to partitions that it had no need to look at."""
        session, news = self._session, self._news
        if session is None or news is None:
            return
        looked_at = {key for key, _ in self._wanted}
        for key in news.take():
            if key in session.partitions and key not in looked_at:
                self._wanted.append((key, session.partitions[key]))

    def look(self, *, recording: bool = False) -> list[_Found]:
        """What there is. ``recording``: a follower shows how far it has come, once for each fetch."""
        left = min(self._request.max_bytes, self._ctx.services.config.fetch_bytes_max)
        found, empty = [], True
        for key, wanted in self._wanted:
            each = self._look_at(key, wanted, left, min_one=empty, recording=recording)
            found.append(each)
            if each.range is not None:
                left -= each.range.length
                empty = False
        return found

    def is_due(self, found: list[_Found]) -> bool:
        size = 0
        for each in found:
            if each.range is not None:
                size += each.range.length
        if size >= self._request.min_bytes or (not found and self._replica < 0):
            return True
        return any(self._is_news(each) for each in found)

    def _is_news(self, each: _Found) -> bool:
        """Something that is told at once, though there are no records."""
        data = each.data
        if data.error_code or data.diverging_epoch is not None or data.preferred_read_replica >= 0:
            return True
        # Consumers may read from this follower, and see nothing before it knows of it.
        return (
            self._replica >= 0
            and self._session is not None
            and self._ctx.services.config.selects_replicas
            and self._session.has_moved(each.key, data)
        )

    def wait(self) -> Parked:
        services = self._ctx.services
        self._parked = Parked(on_abandoned=self._stop_waiting)
        self._timer = services.loop.call_later(self._request.max_wait_ms / 1000, self._end)
        if self._news is not None:
            self._news.wake = self._woken
            if self._session is None:
                self.look()  # with eyes on everything from now on
            return self._parked
        for (name, topic_id, index), _ in self._wanted:
            if topic_id != ZERO_UUID:
                name = services.replicas.topic_name(topic_id)  # noqa: PLW2901
            partition = services.replicas.partition(name, index)
            partition.wait(self._woken)
            self._waiting_at.append(partition)
        return self._parked

    def _woken(self) -> None:
        if self._replica < 0:
            self._look_again()
        elif not self._looking:
            # What else is appended in this turn goes with the same answer.
            self._looking = True
            self._ctx.services.loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._looking = False
        assert self._parked is not None
        if self._parked.is_complete or self._abandoned:
            return
        self._look_further()
        found = self.look()
        if self.is_due(found):
            self._end(found)

    def _end(self, found: list[_Found] | None = None) -> None:
        self._stop_waiting()
        assert self._parked is not None
        if not self._parked.is_complete:
            if found is None:
                self._look_further()
                found = self.look()
            self._parked.complete(self.answer(found))

    def _stop_waiting(self) -> None:
        assert self._timer is not None
        self._abandoned = True
        self._timer.cancel()
        if self._news is not None:
            if self._news.wake == self._woken:
                self._news.wake = None
            if self._session is None:
                self._news.close()
        for partition in self._waiting_at:
            partition.forget(self._woken)

    def answer(self, found: list[_Found]) -> FetchResponse:
        topics: dict[tuple[str, bytes], list[PartitionData]] = {}
        session = self._session
        incremental = session is not None and self._request.session_epoch > 0
        for each in found:
            key, data = each.key, each.data
            try:
                data.records = _NOTHING if each.range is None else _records(each.range)
            except OSError:
                data.error_code, data.records = ErrorCode.KAFKA_STORAGE_ERROR, _NOTHING
            if each.range is not None and each.log is not None:
                if self._replica < 0:
                    each.log.bytes_out += each.range.length
                else:
                    each.log.replicated_bytes_out += each.range.length
                    if each.throttle is not None:
                        each.throttle.record(each.range.length)
            if session is not None:
                if not incremental:
                    session.begun(key, data)
                elif not session.worth_telling(key, data):
                    continue
            readable = self._version >= _ZSTD_FROM or not self._is_zstd(key)
            topics.setdefault(key[:2], []).append(data if readable else _unreadable(key))
        response = FetchResponse(
            session_id=0 if session is None else session.id,
            responses=[
                FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in topics.items()
            ],
        )
        if self._tells_leaders:
            response.node_endpoints = self._endpoints(topics)
        return response

    def _is_zstd(self, key: Key) -> bool:
        name, _, index = key
        try:
            return self._ctx.services.replicas.partition(name, index).log.config.compression_type == "zstd"
        except Error:
            return False

    def _look_at(self, key: Key, wanted: FetchPartition, left: int, *, min_one: bool, recording: bool) -> _Found:
        name, topic_id, index = key
        replicas = self._ctx.services.replicas
        try:
            if topic_id != ZERO_UUID:
                name = replicas.topic_name(topic_id)
            partition = replicas.partition(name, index)
            committed = self._request.isolation_level == _READ_COMMITTED
            if (
                wanted.last_fetched_epoch >= 0
                and self._version >= _DIVERGING_FROM
                and (end := self._divergence(partition, wanted)) is not None
            ):
                self._look_again_at(key)
                return _Found(key, _diverged(partition, end), None)
            size = min(wanted.partition_max_bytes, max(left, 0))
            if self._replica >= 0:
                fetched = partition.read_for_replica(
                    wanted.fetch_offset, size, min_one=min_one, epoch=wanted.current_leader_epoch
                )
                if recording:
                    self._record(partition, wanted)
                self._watch(key, partition, wanted)
                throttle = partition.leader_throttle
                if throttle is not None and self._replica not in partition.isr and throttle.is_exceeded:
                    fetched.range = None
            else:
                fetched = partition.read(
                    wanted.fetch_offset,
                    size,
                    committed=committed,
                    min_one=min_one,
                    epoch=wanted.current_leader_epoch,
                    any_replica=self._version >= _ANY_REPLICA_FROM,
                )
                if self._selects and (nearest := self._nearest(partition, wanted)) is not None:
                    return _Found(key, _elsewhere(partition, nearest), None)
        except Error as error:
            self._look_again_at(key)
            return _Found(key, self._refused(name, index, error), None)
        data = PartitionData(
            partition_index=index,
            high_watermark=partition.log.high_watermark,
            last_stable_offset=partition.log.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=_aborted(partition, wanted, fetched) if committed else None,
        )
        return _Found(key, data, fetched.range, partition.log, partition.leader_throttle)

    def _watch(self, key: Key, partition: Partition, wanted: FetchPartition) -> None:
        if self._news is not None:
            if self._session is not None or self._parked is not None:
                self._news.watch(key, partition)
            if partition.log.log_end_offset > wanted.fetch_offset:
                self._look_again_at(key)

    def _look_again_at(self, key: Key) -> None:
        """The follower's next fetch has to look there even if nothing happens until then."""
        if self._news is not None:
            self._news.keys[key] = None

    def _nearest(self, partition: Partition, wanted: FetchPartition) -> int | None:
        if partition.leadership is None:
            return None
        return nearest_replica(
            partition.leadership,
            self._ctx.services.cluster.image,
            leader=partition.leader,
            listener=self._ctx.listener,
            rack=self._request.rack_id,
            offset=wanted.fetch_offset,
        )

    def _divergence(self, partition: Partition, wanted: FetchPartition) -> EpochEndOffset | None:
        return partition.divergence(wanted.last_fetched_epoch, wanted.fetch_offset, epoch=wanted.current_leader_epoch)

    def _record(self, partition: Partition, wanted: FetchPartition) -> None:
        partition.fetched(
            self._replica,
            wanted.fetch_offset,
            wanted.log_start_offset,
            broker_epoch=self._replica_epoch,
            now_s=self._ctx.services.clock.monotonic(),
        )

    def _refused(self, name: str, index: int, error: Error) -> PartitionData:
        # Clients ask again and again behind a storage error; what is damaged stays so, and they tell it to who uses them.
        code = ErrorCode.CORRUPT_MESSAGE if isinstance(error, CorruptionError) else error_code(error)
        self._ctx.services.dispatch.tallies.fetch_refused(name, code)
        data = PartitionData(
            partition_index=index,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=None,
            records=_NOTHING,
        )
        moved = code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        if moved and self._version >= _LEADER_TOLD_FROM:
            topic = self._ctx.services.cluster.image.topics.get(name)
            state = None if topic is None else topic.states.get(index)
            if state is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
                self._tells_leaders = True
        return data

    def _endpoints(self, topics: dict[tuple[str, bytes], list[PartitionData]]) -> list[NodeEndpoint]:
        """Where the leaders are that were told, so that nobody has to ask (KIP-951)."""
        told = [data.current_leader for partitions in topics.values() for data in partitions]
        wanted = {leader.leader_id for leader in told if leader is not None}
        return [
            NodeEndpoint(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack)
            for broker_id, endpoint, rack in self._ctx.services.cluster.reachable(self._ctx.listener)
            if broker_id in wanted
        ]


def _unreadable(key: Key) -> PartitionData:
    """For a client that is too old for the codec that all records of the topic are packed with (KIP-110).

    As with Kafka, what it cannot be sent counts against its limits, and for its session, as if it had been.
    """
    return PartitionData(
        partition_index=key[2],
        error_code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        high_watermark=-1,
        aborted_transactions=None,
        records=_NOTHING,
    )


def _diverged(partition: Partition, end: EpochEndOffset) -> PartitionData:
    data = _without_records(partition)
    data.diverging_epoch = Diverging(epoch=end.leader_epoch, end_offset=end.end_offset)
    return data


def _elsewhere(partition: Partition, broker_id: int) -> PartitionData:
    """Another replica is nearer: there is nothing here for this consumer."""
    data = _without_records(partition)
    data.preferred_read_replica = broker_id
    return data


def _without_records(partition: Partition) -> PartitionData:
    return PartitionData(
        partition_index=partition.where.partition,
        high_watermark=partition.log.high_watermark,
        last_stable_offset=partition.log.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        aborted_transactions=None,
    )


def _records(found: FileRange) -> Part:
    return found.read() if found.length <= _READ_BYTES_MAX else found


def _aborted(partition: Partition, wanted: FetchPartition, fetched: Fetched) -> list[AbortedTransaction]:
    if fetched.range is None:
        return []
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.log.aborted_transactions(wanted.fetch_offset, fetched.upper_bound)
    ]


HANDLER = Handler(ApiKey.FETCH, handle, Operation.READ, Resource.TOPICS)
