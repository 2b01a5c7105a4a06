"""OffsetFetch: how far groups are, as it is remembered by every replica in sync.

Version notes
- 1: an error is told for each partition, later for the group
- 2: no topics at all means whatever was committed
- 7: offsets that a transaction is about to replace can be refused
- 8: many groups at once
- 10: topics go by their ids
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.broker.gathering import Gathering
from ottla.broker.stepwise import AT_ONCE_MAX, gradually
from ottla.coordinator.groups.formats import Stored
from ottla.coordinator.groups.group import Group
from ottla.coordinator.groups.shard import GroupShard
from ottla.coordinator.outcome import Outcome, Reply, answered
from ottla.metadata.ids import TopicId, TopicPartition
from ottla.metadata.image import Image
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_GROUP_ERROR_FROM, _MANY_FROM, _BY_ID_FROM = 2, 8, 10
_NOTHING = -1


class _Wanted(NamedTuple):
    """What is asked about one group."""

    group_id: str
    topics: Sequence[OffsetFetchRequestTopics] | None
    """None: whatever was committed."""


def handle(ctx: Context, request: OffsetFetchRequest) -> Answer:
    if ctx.version >= _MANY_FROM:
        groups = [_Wanted(group.group_id, group.topics) for group in request.groups]
    else:
        # The topics of a lone group have the same fields, but for the ids, which those versions do not know.
        groups = [_Wanted(request.group_id, cast("list[OffsetFetchRequestTopics] | None", request.topics))]
    gathering = Gathering(len(groups), _many if ctx.version >= _MANY_FROM else _single)

    def fetch(ctx: Context) -> Iterator[None]:
        for number, wanted in enumerate(groups):
            yield from _fetch(ctx, wanted, gathering.place(number), stable=request.require_stable)

    return gradually(ctx, sum(_named(ctx, wanted) for wanted in groups), fetch, gathering.parked.answer)


def _named(ctx: Context, wanted: _Wanted) -> int:
    """How many offsets that is about."""
    if wanted.topics is not None:
        return 1 + sum(1 + len(topic.partition_indexes) for topic in wanted.topics)
    group = ctx.services.groups.group(wanted.group_id)
    return 1 + min(len(group.offsets), AT_ONCE_MAX) if isinstance(group, Group) else 1


def _fetch(ctx: Context, wanted: _Wanted, reply: Reply, *, stable: bool) -> Iterator[None]:
    """Look a little at a time, and let the shard tell it: when all that was seen is replicated."""
    version, image = ctx.version, ctx.services.cluster.image
    group = ctx.services.groups.group(wanted.group_id)
    if isinstance(group, ErrorCode):
        reply(_refused(wanted, group, version))
        return
    found = OffsetFetchResponseGroup(group_id=wanted.group_id)
    by_id = version >= _BY_ID_FROM
    for topic in _all_topics(group, image) if wanted.topics is None else wanted.topics:
        told, name = OffsetFetchResponseTopics(name=topic.name), topic.name
        if by_id:
            if wanted.topics is None and topic.topic_id == ZERO_UUID:
                continue  # the topic is gone, and its offsets are about to go
            told.topic_id, name = topic.topic_id, image.topic_names.get(TopicId(topic.topic_id), "")
        found.topics.append(told)
        for number in topic.partition_indexes:
            told.partitions.append(_partition(group, name, number, version, stable=stable))
            yield

    def tell(shard: GroupShard, _now_ms: int) -> Outcome[Stored]:
        if shard.groups.get(wanted.group_id) is not group:  # it came, or went, or was loaded anew meanwhile
            return answered(reply, _refused(wanted, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version))
        outcome: Outcome[Stored] = answered(reply, found)
        outcome.after_log = True
        outcome.refused = lambda code: answered(reply, _refused(wanted, _LATE.get(code, code), version))
        return outcome

    if code := ctx.services.groups.run(wanted.group_id, tell):
        reply(_refused(wanted, code, version))
    yield


_LATE = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""What is told if the replicas do not follow: clients ask again."""


def _all_topics(group: Group | None, image: Image) -> list[OffsetFetchRequestTopics]:
    by_topic: dict[str, list[int]] = {}
    for where in group.offsets if group is not None else ():
        by_topic.setdefault(where.topic, []).append(where.partition)
    return [
        OffsetFetchRequestTopics(name=name, topic_id=_topic_id(image, name), partition_indexes=partitions)
        for name, partitions in by_topic.items()
    ]


def _topic_id(image: Image, name: str) -> bytes:
    topic = image.topics.get(name)
    return ZERO_UUID if topic is None or topic.topic_id is None else topic.topic_id


def _partition(
    group: Group | None, name: str, number: int, version: int, *, stable: bool
) -> OffsetFetchResponsePartitions:
    where = TopicPartition(name, number)
    partition = OffsetFetchResponsePartitions(partition_index=number, committed_offset=_NOTHING, metadata="")
    if not name and version >= _BY_ID_FROM:
        partition.error_code = ErrorCode.UNKNOWN_TOPIC_ID
    elif group is not None and stable and group.offsets.is_pending(where):
        partition.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    elif group is not None and (committed := group.offsets.get(where)) is not None:
        partition.committed_offset = committed.offset
        partition.committed_leader_epoch = committed.leader_epoch
        partition.metadata = committed.metadata
    return partition


def _refused(wanted: _Wanted, code: ErrorCode, version: int) -> OffsetFetchResponseGroup:
    refused = OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=code)
    if version < _GROUP_ERROR_FROM:
        refused.topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=number, committed_offset=_NOTHING, metadata="", error_code=code
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in wanted.topics or ()
        ]
    return refused


def _many(groups: Sequence[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=list(groups))


def _single(groups: Sequence[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    (group,) = groups
    # Likewise, what is told of them has the same fields.
    topics = cast("list[OffsetFetchResponseTopic]", group.topics)
    return OffsetFetchResponse(error_code=group.error_code, topics=topics)


HANDLER = Handler(ApiKey.OFFSET_FETCH, handle, Operation.DESCRIBE, Resource.GROUP)
