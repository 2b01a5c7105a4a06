"""DescribeProducers: the producers that the leaders of partitions remember (KIP-664)."""

from __future__ import annotations

from ottla.base.errors import Error
from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.broker.errors import error_code
from ottla.metadata.errors import InvalidTopicError
from ottla.metadata.names import check_topic_name
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

_NONE = -1


def handle(ctx: Context, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_described(ctx, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _described(ctx: Context, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
    except InvalidTopicError as error:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return PartitionResponse(partition_index=index, error_code=code, error_message=str(error))
    try:
        partition = ctx.services.replicas.partition(topic, index)
        partition.check_leader()
    except Error as error:
        return PartitionResponse(partition_index=index, error_code=error_code(error), error_message=str(error))
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=(
                    _NONE if entry.current_txn_first_offset is None else entry.current_txn_first_offset
                ),
            )
            for entry in partition.log.producers.entries.values()
        ],
    )


HANDLER = Handler(ApiKey.DESCRIBE_PRODUCERS, handle, Operation.READ, Resource.TOPICS)
