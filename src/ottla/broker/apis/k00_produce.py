"""Produce: records into partitions.

acks 0     no answer; an error ends the connection, for there is no other way to tell
acks 1     answered when this broker has the records
acks -1    answered when every replica in sync has them, or when the time is up

A batch that takes long to judge is judged in another thread; what its client sends behind it waits, so that nothing of one
client overtakes.

Of requests that came in one go, the batches for a partition are written in one call, and only then is anybody told: five of
16 KB take 23 µs so, and 37 one by one.

There are no transactions yet, so whoever reads what is committed would wait for the end of one for ever. A transactional
batch is refused as Kafka refuses it from a producer that has begun no transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from ottla.base.errors import Error, RemoteProtocolError
from ottla.broker.api import Answer, Handler, Operation, Parked, Resource, tend
from ottla.broker.context import Context
from ottla.broker.errors import error_code
from ottla.broker.stepwise import AT_ONCE_MAX, gradually
from ottla.records import Codec
from ottla.records.batch import CODEC_MASK, HEADER_BYTES, LOG_OVERHEAD, MAGIC, MAGIC_AT, TRANSACTIONAL_FLAG
from ottla.records.errors import LaboriousError
from ottla.replica.partition import ALL, Partition
from ottla.wire import ZERO_UUID, ApiKey, Buffer, ErrorCode
from ottla.wire.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_FLOOR: Final = 3
"""Versions 0 to 2 are offered for librdkafka's sake (see ``wire.apis``) and refused."""
_UNACKNOWLEDGED: Final = "a produce without acknowledgement failed"
_ZSTD_FROM: Final = 7
_LEADER_TOLD_FROM: Final = 10
_ATTRIBUTES_AT: Final = 22
"""Where their lower byte is in a batch."""
_ONE_PARTITION: Final = 2
"""What a request names that is for one partition: that, and its topic."""
_ACKS: Final = (0, 1, ALL)
_ADMIN: Final = "__admin_client"
"""By this client id, Kafka's administrators mend what brokers keep in topics of their own."""
_NOT_TRIED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that come without the start of the log, as with Kafka: the log was not asked."""


class _Laborious(NamedTuple):
    """One partition's records that take long to judge."""

    partition: Partition
    name: str
    data: bytes
    response: PartitionProduceResponse


class _Taken:
    """One partition's records that its log has taken; they may be written later, and not be on every replica in sync yet."""

    __slots__ = ("end_offset", "partition", "response", "size")

    def __init__(self, partition: Partition, end_offset: int, size: int, response: PartitionProduceResponse) -> None:
        self.partition = partition
        self.end_offset = end_offset
        self.size = size
        self.response = response

    @property
    def is_waited_for(self) -> bool:
        return not self.response.error_code and not self.partition.is_replicated(self.end_offset)


class _Appending:
    """What a produce has come to so far."""

    __slots__ = ("failed", "laborious", "now_ms", "response", "taken", "unwritten")

    def __init__(self, now_ms: int, unwritten: dict[Partition, None] | None = None) -> None:
        self.now_ms = now_ms
        self.response = ProduceResponse()
        self.unwritten = unwritten
        """Which logs have something to write, for this one and for those that came with it; None if each batch is written at once."""
        self.taken: list[_Taken] = []
        self.laborious: list[_Laborious] = []
        self.failed = False


def handle(ctx: Context, request: ProduceRequest) -> Answer:
    appending = _Appending(ctx.services.clock.wall_ms())
    answer = _begin(ctx, request, appending)
    return _answer(ctx, request, appending) if answer is None else answer


def together(ctx: Context, requests: list[ProduceRequest]) -> list[Answer | RemoteProtocolError]:
    """As many as can be told of now: what comes behind a batch that takes long has to wait for it."""
    now_ms = ctx.services.clock.wall_ms()
    unwritten: dict[Partition, None] = {}
    begun: list[_Appending] = []
    answers: list[Answer | RemoteProtocolError] = []
    last: Answer | RemoteProtocolError = None
    try:
        for request in requests:
            appending = _Appending(now_ms, unwritten)
            try:
                last = _begin(ctx, request, appending)
            except RemoteProtocolError as error:
                last = error
            if last is not None:
                break
            begun.append(appending)
            if appending.laborious or (appending.failed and request.acks == 0):
                break
    finally:
        _write(ctx, unwritten, begun, now_ms)
    for at, appending in enumerate(begun):
        try:
            answers.append(_answer(ctx, requests[at], appending))
        except RemoteProtocolError as error:
            answers.append(error)
            return answers
    if last is not None:
        answers.append(last)
    return answers


def _begin(ctx: Context, request: ProduceRequest, appending: _Appending) -> Answer:
    """Append what is to be appended. An answer that has nothing to do with what came of it is given at once."""
    if ctx.version < _FLOOR:
        raise RemoteProtocolError(f"Produce version {ctx.version}")
    named = 0
    for topic in request.topic_data:
        named += 1 + len(topic.partition_data)
    if request.transactional_id is None and _has_transactional(request):
        return _unauthorized(ctx, request)
    topics = request.topic_data if named == _ONE_PARTITION else _distinct(request.topic_data)
    if named > AT_ONCE_MAX:
        appending.unwritten = None
        return _gradually(ctx, request, topics, named, appending)
    for topic in topics:
        partitions = _topic_response(topic, appending)
        for data in topic.partition_data:
            partitions.append(_append(ctx, topic.name, topic.topic_id, data, request.acks, appending))
    return None


def _write(ctx: Context, unwritten: dict[Partition, None], begun: list[_Appending], now_ms: int) -> None:
    """All of it, before anybody is told. What the disk does not take counts for none of those who sent it."""
    written = []
    for partition in unwritten:
        try:
            partition.log.finish_append(now_ms=now_ms)
            written.append(partition)
        except Error as error:
            for appending in begun:
                for each in appending.taken:
                    if each.partition is partition:
                        _refuse(ctx, partition.where.topic, each.response, error, partition, each.size)
                        appending.failed = True
    for partition in written:
        partition.appended()


def _distinct(topics: list[TopicProduceData]) -> list[TopicProduceData]:
    """Kafka keeps a map: the last of what is sent to one partition counts, and a topic of none is not answered."""
    found: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    for topic in topics:
        for data in topic.partition_data:
            found.setdefault((topic.name, topic.topic_id), {})[data.index] = data
    return [
        TopicProduceData(name=name, topic_id=topic_id, partition_data=list(partitions.values()))
        for (name, topic_id), partitions in found.items()
    ]


def _has_transactional(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None and _is_transactional(data.records):
                return True
    return False


def _is_transactional(records: Buffer) -> bool:
    return (
        len(records) > _ATTRIBUTES_AT
        and records[MAGIC_AT] >= MAGIC
        and bool(records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG)
    )


def _unauthorized(ctx: Context, request: ProduceRequest) -> Answer:
    """Nobody may write without a transactional id what belongs to a transaction: nothing of the request is appended."""
    if request.acks == 0:
        raise RemoteProtocolError("a transactional batch came without a transactional id")
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_answered(ctx, topic.name, data.index, code) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _gradually(
    ctx: Context, request: ProduceRequest, topics: list[TopicProduceData], named: int, appending: _Appending
) -> Answer:
    """Without acknowledgement, what fails here fails unheard: its sender may be gone on to something else by then."""

    def append(ctx: Context) -> Iterator[None]:
        for topic in topics:
            partitions = _topic_response(topic, appending)
            for data in topic.partition_data:
                partitions.append(_append(ctx, topic.name, topic.topic_id, data, request.acks, appending))
                yield
            yield

    return gradually(ctx, named, append, lambda: _appended_all(ctx, request, appending))


def _topic_response(topic: TopicProduceData, appending: _Appending) -> list[PartitionProduceResponse]:
    partitions: list[PartitionProduceResponse] = []
    appending.response.responses.append(
        TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)
    )
    return partitions


def _answer(ctx: Context, request: ProduceRequest, appending: _Appending) -> Answer:
    if request.acks == 0 and appending.failed and not appending.laborious:
        raise RemoteProtocolError(_UNACKNOWLEDGED)
    return _appended_all(ctx, request, appending)


def _appended_all(ctx: Context, request: ProduceRequest, appending: _Appending) -> Answer:
    if appending.laborious:
        return _Vetting(ctx, request, appending).parked
    if request.acks == 0:
        return None
    if request.acks == ALL:
        waiting = [each for each in appending.taken if each.is_waited_for]
        if waiting:
            return _Replicating(ctx, request.timeout_ms, waiting, appending.response).parked
    return appending.response


def _append(
    ctx: Context, name: str, topic_id: bytes, data: PartitionProduceData, acks: int, appending: _Appending
) -> PartitionProduceResponse:
    response = _appended(ctx, name, topic_id, data, acks, appending)
    if response.error_code:
        appending.failed = True
    return response


def _appended(
    ctx: Context, name: str, topic_id: bytes, data: PartitionProduceData, acks: int, appending: _Appending
) -> PartitionProduceResponse:
    services = ctx.services
    partition: Partition | None = None
    try:
        if topic_id != ZERO_UUID:
            name = services.replicas.topic_name(topic_id)
        partition = services.replicas.partition(name, data.index)
        records = data.records if isinstance(data.records, bytes) else bytes(data.records or b"")
        if (code := _refusal(records, ctx.version)) is not None:
            return _answered(ctx, name, data.index, code)
        if acks not in _ACKS:
            return _answered(ctx, name, data.index, ErrorCode.INVALID_REQUIRED_ACKS)
        if partition.is_internal and ctx.client_id != _ADMIN:
            return _answered(ctx, name, data.index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        try:
            later = appending.unwritten is not None
            info = partition.append(records, acks=acks, now_ms=appending.now_ms, later=later)
        except LaboriousError:
            response = PartitionProduceResponse(index=data.index, base_offset=-1)
            appending.laborious.append(_Laborious(partition, name, records, response))
            return response
    except Error as error:
        return _refused(ctx, name, data.index, error, partition, len(data.records or b""))
    response = PartitionProduceResponse(
        index=data.index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time,
        log_start_offset=info.log_start_offset,
    )
    if appending.unwritten is not None:
        appending.unwritten[partition] = None
    if appending.unwritten is not None or acks == ALL:
        appending.taken.append(_Taken(partition, info.last_offset + 1, len(records), response))
    return response


def _answered(ctx: Context, name: str, index: int, code: ErrorCode) -> PartitionProduceResponse:
    ctx.services.dispatch.tallies.produce_refused(name, code)
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)


def _refusal(records: bytes, version: int) -> ErrorCode | None:
    """What may not be in a batch though the log could take it.

    Formats of old, transactions that nobody has begun, and a codec that older clients lack.
    """
    if len(records) <= _ATTRIBUTES_AT:
        return None
    magic = records[MAGIC_AT]
    if magic < MAGIC:
        return ErrorCode.INVALID_RECORD
    if _is_transactional(records):
        return ErrorCode.INVALID_TXN_STATE
    if version < _ZSTD_FROM and magic == MAGIC and records[_ATTRIBUTES_AT] & CODEC_MASK == Codec.ZSTD:
        size = LOG_OVERHEAD + int.from_bytes(records[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big")
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if HEADER_BYTES <= size <= len(records) else None
    return None


def _refused(
    ctx: Context, name: str, index: int, error: Error, partition: Partition | None, size: int
) -> PartitionProduceResponse:
    code = error_code(error)
    ctx.services.dispatch.tallies.produce_refused(name, code, size)
    response = PartitionProduceResponse(index=index, error_code=code, base_offset=-1, error_message=str(error))
    if partition is not None and code not in _NOT_TRIED:
        response.log_start_offset = partition.log.log_start_offset
    response.record_errors = [
        BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
        for at, message in getattr(error, "record_errors", ())
    ]
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER and ctx.version >= _LEADER_TOLD_FROM:
        topic = ctx.services.cluster.image.topics.get(name)
        state = None if topic is None else topic.states.get(index)
        if state is not None:
            response.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
    return response


def _refuse(
    ctx: Context, name: str, response: PartitionProduceResponse, error: Error, partition: Partition, size: int
) -> None:
    """What is to be answered for a partition is not what it was to be."""
    refused = _refused(ctx, name, response.index, error, partition, size)
    response.base_offset, response.log_append_time_ms = refused.base_offset, refused.log_append_time_ms
    response.error_code, response.error_message = refused.error_code, refused.error_message
    response.record_errors, response.current_leader = refused.record_errors, refused.current_leader
    response.log_start_offset = refused.log_start_offset


class _Vetting:
    """A produce with batches that are judged in another thread before they are appended."""

    def __init__(self, ctx: Context, request: ProduceRequest, appending: _Appending) -> None:
        self.parked = Parked(holds=True)
        self._ctx = ctx
        self._request = request
        self._taken = appending.taken
        self._response = appending.response
        self._failed = appending.failed
        tend(ctx.services.scope, partial(self._work, appending.laborious), self.parked, name="judging a batch")

    async def _work(self, laborious: list[_Laborious]) -> None:
        for each in laborious:
            await self._append(each)
        if self._request.acks == 0:
            self.parked.complete(RemoteProtocolError(_UNACKNOWLEDGED) if self._failed else None)
            return
        waiting = [each for each in self._taken if each.is_waited_for] if self._request.acks == ALL else []
        if waiting:
            replicating = _Replicating(self._ctx, self._request.timeout_ms, waiting, self._response)
            replicating.parked.when_complete(self.parked.complete)
        else:
            self.parked.complete(self._response)

    async def _append(self, each: _Laborious) -> None:
        services, acks, partition, response = self._ctx.services, self._request.acks, each.partition, each.response
        try:
            now_ms = services.clock.wall_ms()
            vetted = await services.vetting.vet(each.data, partition.log.rules, now_ms=now_ms)
            info = partition.append(vetted, acks=acks, now_ms=services.clock.wall_ms())
        except Error as error:
            _refuse(self._ctx, each.name, response, error, partition, len(each.data))
            self._failed = True
            return
        response.base_offset, response.log_append_time_ms = info.first_offset, info.log_append_time
        response.log_start_offset = info.log_start_offset
        if acks == ALL:
            self._taken.append(_Taken(partition, info.last_offset + 1, len(each.data), response))


class _Replicating:
    """A produce that waits for its records to be on every replica in sync, or for its time to be up."""

    def __init__(self, ctx: Context, timeout_ms: int, waiting: list[_Taken], response: ProduceResponse) -> None:
        self.parked = Parked(on_abandoned=self._stop_waiting)
        self._ctx = ctx
        self._waiting = waiting
        self._response = response
        self._timer = ctx.services.loop.call_later(timeout_ms / 1000, self._time_out)
        for written in waiting:
            written.partition.wait(self._look)

    def _look(self) -> None:
        for written in list(self._waiting):
            if not written.partition.is_leader:
                self._fail(written, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif written.partition.is_under_min_isr:
                # Nothing is acknowledged that too few have, and nobody knows when there will be more.
                self._fail(written, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            elif not written.partition.is_replicated(written.end_offset):
                continue
            self._waiting.remove(written)
            self._forget(written)
        if not self._waiting:
            self._timer.cancel()
            self.parked.complete(self._response)

    def _time_out(self) -> None:
        for written in self._waiting:
            self._fail(written, ErrorCode.REQUEST_TIMED_OUT)
        self._stop_waiting()
        self.parked.complete(self._response)

    def _fail(self, written: _Taken, code: ErrorCode) -> None:
        written.response.error_code = code
        self._ctx.services.dispatch.tallies.produce_refused(written.partition.where.topic, code)

    def _stop_waiting(self) -> None:
        self._timer.cancel()
        for written in self._waiting:
            written.partition.forget(self._look)
        self._waiting.clear()

    def _forget(self, written: _Taken) -> None:
        if all(other.partition is not written.partition for other in self._waiting):
            written.partition.forget(self._look)


HANDLER = Handler(ApiKey.PRODUCE, handle, Operation.WRITE, Resource.TOPICS, together)
