"""ListOffsets: where a partition begins, where it ends, and which offset belongs to a time."""

from __future__ import annotations

from collections import Counter

from ottla.base.errors import Error
from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.broker.errors import error_code
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
"""Where tiered storage ends: there is none, so nowhere."""

_READ_COMMITTED = 1
_CONSUMER = -1
_UNKNOWN = -1


def handle(ctx: Context, request: ListOffsetsRequest) -> ListOffsetsResponse:
    named = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            if named[topic.name, wanted.partition_index] > 1:
                answer = _refused(wanted, ErrorCode.INVALID_REQUEST)
            else:
                answer = _answer(ctx, request, topic.name, wanted)
            partitions.append(answer)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _answer(
    ctx: Context, request: ListOffsetsRequest, name: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    try:
        partition = ctx.services.replicas.partition(name, wanted.partition_index)
        partition.check_leader(wanted.current_leader_epoch)
        timestamp, offset, epoch = _find(partition, wanted.timestamp, request)
    except Error as error:
        return _refused(wanted, error_code(error))
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
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
        return _UNKNOWN, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _UNKNOWN, log.log_start_offset, log.epochs.epoch_for(log.log_start_offset)
    if timestamp == LATEST_TIERED:
        return _UNKNOWN, _UNKNOWN, _UNKNOWN
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end:
        return _UNKNOWN, _UNKNOWN, _UNKNOWN
    return found.timestamp, found.offset, found.leader_epoch


HANDLER = Handler(ApiKey.LIST_OFFSETS, handle, Operation.DESCRIBE, Resource.TOPICS)
