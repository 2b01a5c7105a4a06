"""OffsetCommit: a group remembers how far it is. Answered when every replica in sync remembers it too.

Version notes
- up to 4: the client may say how long to keep the offsets
- 10: topics go by their ids
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.stepwise import gradually
from ottla.coordinator.groups.formats import NEVER, CommittedOffset
from ottla.coordinator.groups.shard import Identity
from ottla.metadata.ids import TopicId, TopicPartition
from ottla.metadata.names import CONSUMER_OFFSETS
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_BY_ID_FROM = 10


def handle(ctx: Context, request: OffsetCommitRequest) -> Answer:
    now_ms = ctx.services.clock.wall_ms()
    offsets: dict[TopicPartition, CommittedOffset] = {}
    response = OffsetCommitResponse()
    accepted: list[tuple[TopicPartition, OffsetCommitResponsePartition]] = []

    def check(ctx: Context) -> Iterator[None]:
        for topic in request.topics:
            name = _name(ctx, topic)
            told = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            response.topics.append(told)
            for partition in topic.partitions:
                where = TopicPartition(name, partition.partition_index)
                result = OffsetCommitResponsePartition(partition_index=partition.partition_index)
                told.partitions.append(result)
                if (code := _check(ctx, where)) is not None:
                    result.error_code = code
                    ctx.services.dispatch.tallies.commit_refused(code)
                else:
                    accepted.append((where, result))
                    offsets[where] = _committed(partition, request.retention_time_ms, now_ms)
                yield
            yield

    def respond(codes: Mapping[TopicPartition, ErrorCode]) -> OffsetCommitResponse:
        for where, result in accepted:
            if code := codes[where]:
                result.error_code = code
                ctx.services.dispatch.tallies.commit_refused(code)
        return response

    def commit() -> Answer:
        if not offsets:
            return response
        who = Identity(request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
        parked = Parked()
        code = ctx.services.groups.run_gathered(
            request.group_id,
            lambda shard, now_ms: shard.commit(request.group_id, who, offsets, now_ms, parked.complete, respond),
        )
        return respond(dict.fromkeys(offsets, code)) if code else parked.answer()

    return gradually(ctx, sum(1 + len(topic.partitions) for topic in request.topics), check, commit)


def _name(ctx: Context, topic: OffsetCommitRequestTopic) -> str:
    """Of a topic that is given by its id; an id that nobody has goes by itself."""
    if ctx.version < _BY_ID_FROM:
        return topic.name
    return ctx.services.cluster.image.topic_names.get(TopicId(topic.topic_id)) or topic.topic_id.hex()


def _check(ctx: Context, where: TopicPartition) -> ErrorCode | None:
    topics = ctx.services.cluster.image.topics
    if CONSUMER_OFFSETS not in topics:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # a broker that was just started knows of no topics at all
    topic = topics.get(where.topic)
    if topic is None and ctx.version >= _BY_ID_FROM:
        return ErrorCode.UNKNOWN_TOPIC_ID
    known = topic is not None and where.partition in topic.partitions
    return None if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _committed(partition: OffsetCommitRequestPartition, retention_ms: int, now_ms: int) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms,
        NEVER if retention_ms < 0 else now_ms + retention_ms,
    )


HANDLER = Handler(ApiKey.OFFSET_COMMIT, handle, Operation.READ, Resource.GROUP)
