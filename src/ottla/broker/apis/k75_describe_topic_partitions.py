"""DescribeTopicPartitions: who leads which partition, a page at a time (KIP-966).

Topics come in the order of their names, and partitions in theirs. An answer holds no more partitions than the client or
``max.request.partition.size.limit`` allows; the cursor it ends with is where the next request goes on. Topics that were
named and do not exist count nothing.
"""

from __future__ import annotations

from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.authorized import TOPIC_OPERATIONS
from ottla.broker.cluster import PartitionView
from ottla.broker.context import Context
from ottla.metadata.errors import InvalidTopicError
from ottla.metadata.image import Topic
from ottla.metadata.names import check_topic_name, is_internal
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    ResponseCursor,
)


def handle(ctx: Context, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    image, cursor = ctx.services.cluster.image, request.cursor
    named = {topic.name for topic in request.topics}
    names = sorted(name for name in named or image.topics if cursor is None or name >= cursor.topic_name)
    if cursor is not None and (cursor.partition_index < 0 or (named and cursor.topic_name not in named)):
        return _refused(request)
    left = max(1, min(ctx.services.config.describe_partitions_max, request.response_partition_limit))
    answer = DescribeTopicPartitionsResponse()
    for name in names:
        if not left:
            answer.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            answer.topics.append(_unknown(name))
            continue
        first = _first(name, cursor)
        described = _described(ctx, topic, first, left)
        answer.topics.append(described)
        left -= len(described.partitions)
        if first + len(described.partitions) < len(topic.partitions):
            answer.next_cursor = ResponseCursor(topic_name=name, partition_index=first + len(described.partitions))
            break
    return answer


def _first(name: str, cursor: RequestCursor | None) -> int:
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


def _described(ctx: Context, topic: Topic, first: int, limit: int) -> DescribeTopicPartitionsResponseTopic:
    views = list(ctx.services.cluster.partitions(topic, ctx.listener))[first : first + limit]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id or ZERO_UUID,
        is_internal=is_internal(topic.name),
        partitions=[_partition(view) for view in views],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(view: PartitionView) -> DescribeTopicPartitionsResponsePartition:
    """No error: a leader that cannot be reached is none. No replica outside the ISR is known to hold everything."""
    return DescribeTopicPartitionsResponsePartition(
        partition_index=view.number,
        leader_id=view.leader,
        leader_epoch=view.leader_epoch,
        replica_nodes=view.replicas,
        isr_nodes=view.isr,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=view.offline,
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except InvalidTopicError:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        ]
    )


HANDLER = Handler(ApiKey.DESCRIBE_TOPIC_PARTITIONS, handle, Operation.DESCRIBE, Resource.TOPICS)
