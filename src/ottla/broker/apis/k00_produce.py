"""Produce: records into partitions.

acks 0     no answer; an error ends the connection, for there is no other way to tell
acks 1     answered when this broker has the records
acks -1    answered when every replica in sync has them, or when the time is up
"""

from __future__ import annotations

from ottla.base.errors import Error, RemoteProtocolError
from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.errors import error_code
from ottla.replica.partition import ALL, Partition
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_FLOOR = 3
"""Versions 0 to 2 are offered for librdkafka's sake (see ``wire.apis``) and refused."""
_ACKS = (0, 1, ALL)


class _Written:
    """One partition's records, appended and not yet on every replica in sync."""

    __slots__ = ("end_offset", "partition", "response")

    def __init__(self, partition: Partition, end_offset: int, response: PartitionProduceResponse) -> None:
        self.partition = partition
        self.end_offset = end_offset
        self.response = response


def handle(ctx: Context, request: ProduceRequest) -> Answer:
    if ctx.version < _FLOOR:
        raise RemoteProtocolError(f"Produce version {ctx.version}")
    acks = request.acks
    waiting: list[_Written] = []
    responses = []
    failed = False
    for topic in request.topic_data:
        partitions = []
        for data in topic.partition_data:
            one = _append(ctx, topic.name, topic.topic_id, data, acks, waiting)
            failed = failed or one.error_code != 0
            partitions.append(one)
        responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions))
    if acks == 0:
        if failed:
            raise RemoteProtocolError("a produce without acknowledgement failed")
        return None
    response = ProduceResponse(responses=responses)
    return _Replicating(ctx, request.timeout_ms, waiting, response).parked if waiting else response


def _append(
    ctx: Context, name: str, topic_id: bytes, data: PartitionProduceData, acks: int, waiting: list[_Written]
) -> PartitionProduceResponse:
    if acks not in _ACKS:
        return PartitionProduceResponse(index=data.index, error_code=ErrorCode.INVALID_REQUIRED_ACKS, base_offset=-1)
    services = ctx.services
    try:
        if topic_id != ZERO_UUID:
            name = services.replicas.topic_name(topic_id)
        partition = services.replicas.partition(name, data.index)
        info = partition.append(bytes(data.records or b""), acks=acks, now_ms=services.clock.wall_ms())
    except Error as error:
        return _refused(ctx, name, data.index, error)
    response = PartitionProduceResponse(
        index=data.index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time,
        log_start_offset=info.log_start_offset,
    )
    if acks == ALL and not partition.is_replicated(info.last_offset + 1):
        waiting.append(_Written(partition, info.last_offset + 1, response))
    return response


def _refused(ctx: Context, name: str, index: int, error: Error) -> PartitionProduceResponse:
    code = error_code(error)
    response = PartitionProduceResponse(index=index, error_code=code, base_offset=-1, error_message=str(error))
    response.record_errors = [
        BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
        for at, message in getattr(error, "record_errors", ())
    ]
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        topic = ctx.services.cluster.image.topics.get(name)
        state = None if topic is None else topic.states.get(index)
        if state is not None:
            response.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
    return response


class _Replicating:
    """A produce that waits for its records to be on every replica in sync, or for its time to be up."""

    def __init__(self, ctx: Context, timeout_ms: int, waiting: list[_Written], response: ProduceResponse) -> None:
        self.parked = Parked()
        self._waiting = waiting
        self._response = response
        self._timer = ctx.services.loop.call_later(timeout_ms / 1000, self._time_out)
        for written in waiting:
            written.partition.wait(self._look)

    def _look(self) -> None:
        for written in list(self._waiting):
            if not written.partition.is_leader:
                written.response.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif not written.partition.is_replicated(written.end_offset):
                continue
            self._waiting.remove(written)
            self._forget(written)
        if not self._waiting:
            self._timer.cancel()
            self.parked.complete(self._response)

    def _time_out(self) -> None:
        for written in self._waiting:
            written.response.error_code = ErrorCode.REQUEST_TIMED_OUT
            self._forget(written)
        self._waiting.clear()
        self.parked.complete(self._response)

    def _forget(self, written: _Written) -> None:
        if all(other.partition is not written.partition for other in self._waiting):
            written.partition.forget(self._look)


HANDLER = Handler(ApiKey.PRODUCE, handle, Operation.WRITE, Resource.TOPICS)
