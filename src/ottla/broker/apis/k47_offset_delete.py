"""OffsetDelete: a group forgets how far it is in some partitions, unless its members consume them."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.metadata.ids import TopicPartition
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(ctx: Context, request: OffsetDeleteRequest) -> Answer:
    wanted = [TopicPartition(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
    image = ctx.services.cluster.image
    known = [where for where in wanted if image.assignment(where) is not None]

    def respond(code: ErrorCode, codes: Mapping[TopicPartition, ErrorCode]) -> OffsetDeleteResponse:
        if code:
            return OffsetDeleteResponse(error_code=code)
        return OffsetDeleteResponse(topics=_topics(wanted, codes))

    if not request.group_id:
        return respond(ErrorCode.INVALID_GROUP_ID, {})
    parked = Parked()
    code = ctx.services.groups.run(
        request.group_id,
        lambda shard, _now_ms: shard.delete_offsets(request.group_id, known, parked.complete, respond),
    )
    return respond(code, {}) if code else parked.answer()


def _topics(wanted: list[TopicPartition], codes: Mapping[TopicPartition, ErrorCode]) -> list[OffsetDeleteResponseTopic]:
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for where in dict.fromkeys(wanted):
        topic = topics.setdefault(where.topic, OffsetDeleteResponseTopic(name=where.topic))
        code = codes.get(where, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic.partitions.append(OffsetDeleteResponsePartition(partition_index=where.partition, error_code=code))
    return list(topics.values())


HANDLER = Handler(ApiKey.OFFSET_DELETE, handle, Operation.DELETE, Resource.GROUP)
