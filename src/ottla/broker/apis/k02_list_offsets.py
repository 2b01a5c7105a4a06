"""ListOffsets: where a partition begins, where it ends, and which offset belongs to a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ottla.base.errors import Error
from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.broker.errors import error_code
from ottla.broker.stepwise import stepwise
from ottla.replica.errors import OffsetNotAvailableError
from ottla.replica.partition import Partition
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
TIERED = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
"""Where tiered storage ends, and where what is still to go there begins: there is none, so nowhere."""

_SINCE = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The version that first asks for it. Whatever else is below zero is no time, and none asks for it."""
_NEVER = 1 << 15
_EPOCHS_FROM = 4
_NOT_AVAILABLE_FROM = 5

_READ_COMMITTED = 1
_ISOLATION_LEVELS = (0, _READ_COMMITTED)
_CONSUMER = -1
_WHOEVER_ASKS = -2
"""Kafka calls it the debugging replica: it is answered by any replica, about its own log."""
_UNKNOWN = -1


def handle(ctx: Context, request: ListOffsetsRequest) -> Answer:
    named: Counter[tuple[str, int]] = Counter()
    response = ListOffsetsResponse()

    def fill(ctx: Context) -> Iterator[None]:
        for topic in request.topics:
            for wanted in topic.partitions:
                named[topic.name, wanted.partition_index] += 1
                yield
        for topic in request.topics:
            result = ListOffsetsTopicResponse(name=topic.name)
            response.topics.append(result)
            for wanted in topic.partitions:
                if named[topic.name, wanted.partition_index] > 1:
                    answer = _refused(wanted, ErrorCode.INVALID_REQUEST)
                elif wanted.timestamp < 0 and ctx.version < _SINCE.get(wanted.timestamp, _NEVER):
                    answer = _refused(wanted, ErrorCode.UNSUPPORTED_VERSION)
                elif request.replica_id == _CONSUMER and request.isolation_level not in _ISOLATION_LEVELS:
                    answer = _refused(wanted, ErrorCode.UNKNOWN_SERVER_ERROR)
                else:
                    answer = _answer(ctx, request, topic.name, wanted)
                result.partitions.append(answer)
                yield

    return stepwise(ctx, sum(len(topic.partitions) for topic in request.topics), response, fill)


def _answer(
    ctx: Context, request: ListOffsetsRequest, name: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    try:
        partition = ctx.services.replicas.partition(name, wanted.partition_index)
        if request.replica_id == _WHOEVER_ASKS:
            partition.check_epoch(wanted.current_leader_epoch)
        else:
            partition.check_leader(wanted.current_leader_epoch)
        timestamp, offset, epoch = _find(partition, wanted.timestamp, request)
    except OffsetNotAvailableError as error:
        code = error_code(error) if ctx.version >= _NOT_AVAILABLE_FROM else ErrorCode.LEADER_NOT_AVAILABLE
        return _refused(wanted, code)
    except Error as error:
        return _refused(wanted, error_code(error))
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if ctx.version >= _EPOCHS_FROM else _UNKNOWN,
    )


def _refused(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)


def _find(partition: Partition, timestamp: int, request: ListOffsetsRequest) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch."""
    log = partition.log
    end = log.log_end_offset
    if request.replica_id == _CONSUMER:
        end = log.last_stable_offset if request.isolation_level == _READ_COMMITTED else log.high_watermark
    if timestamp == LATEST:
        if request.replica_id == _CONSUMER:
            partition.check_offsets_known()
        return _UNKNOWN, end, log.epochs.latest if request.replica_id == _WHOEVER_ASKS else partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _UNKNOWN, log.log_start_offset, log.epochs.epoch_for(log.log_start_offset)
    if timestamp in TIERED:
        return _UNKNOWN, _UNKNOWN, _UNKNOWN
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end:
        return _UNKNOWN, _UNKNOWN, _UNKNOWN
    return found.timestamp, found.offset, found.leader_epoch


HANDLER = Handler(ApiKey.LIST_OFFSETS, handle, Operation.DESCRIBE, Resource.TOPICS)
