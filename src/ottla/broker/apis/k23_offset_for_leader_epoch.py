"""OffsetForLeaderEpoch: where an epoch ended, so that whoever read in it can tell whether that still stands."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base.errors import Error
from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.broker.errors import error_code
from ottla.broker.stepwise import stepwise
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(ctx: Context, request: OffsetForLeaderEpochRequest) -> Answer:
    response = OffsetForLeaderEpochResponse()
    is_impostor = ctx.is_impostor(request.replica_id)

    def fill(ctx: Context) -> Iterator[None]:
        for topic in request.topics:
            result = OffsetForLeaderTopicResult(topic=topic.topic)
            response.topics.append(result)
            for wanted in topic.partitions:
                result.partitions.append(_refused(wanted) if is_impostor else _answer(ctx, topic.topic, wanted))
                yield

    return stepwise(ctx, sum(len(topic.partitions) for topic in request.topics), response, fill)


def _refused(wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _answer(ctx: Context, name: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = ctx.services.replicas.partition(name, wanted.partition)
        end = partition.end_offset_for_epoch(wanted.leader_epoch, epoch=wanted.current_leader_epoch)
    except Error as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error_code(error))
    return EpochEndOffset(partition=wanted.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)


HANDLER = Handler(ApiKey.OFFSET_FOR_LEADER_EPOCH, handle, Operation.DESCRIBE, Resource.TOPICS)
