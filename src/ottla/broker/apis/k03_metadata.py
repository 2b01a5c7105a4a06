"""Metadata: which brokers there are, and who leads which partition. Creates topics that are asked for, where that is on."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.metadata.errors import InvalidTopicError
from ottla.metadata.ids import TopicId
from ottla.metadata.image import Image, Topic
from ottla.metadata.names import check_topic_name, is_internal
from ottla.metadata.znodes.topics import LeaderAndIsr, ReplicaAssignment
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_EMPTY_MEANS_ALL_UP_TO = 0
_BROKER_ERRORS_FROM = 1
"""Since version 1 a missing listener is told; before that a partition whose leader cannot be reached has none."""


def handle(ctx: Context, request: MetadataRequest) -> Answer:
    wanted = request.topics
    if wanted is None or (not wanted and ctx.version <= _EMPTY_MEANS_ALL_UP_TO):
        return _answer(ctx, [_described(ctx, topic) for topic in ctx.services.cluster.image.topics.values()])
    missing = [topic.name for topic in wanted if topic.name is not None and _may_create(ctx, request, topic.name)]
    if not missing:
        return _answer(ctx, [_found(ctx, topic) for topic in wanted])
    parked = Parked()
    ctx.services.topics.create_on_demand(
        missing, lambda: parked.complete(_answer(ctx, [_found(ctx, topic) for topic in wanted]))
    )
    return parked


def _may_create(ctx: Context, request: MetadataRequest, name: str) -> bool:
    if name in ctx.services.cluster.image.topics or not request.allow_auto_topic_creation:
        return False
    return ctx.services.config.auto_create_topics and _is_valid(name)


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True


def _found(ctx: Context, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    image = ctx.services.cluster.image
    if wanted.topic_id != ZERO_UUID:
        by_id = image.topic_by_id(TopicId(wanted.topic_id))
        if by_id is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        return _described(ctx, by_id)
    name = wanted.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return _described(ctx, topic)
    if not _is_valid(name):
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name)
    # A topic that was just asked for has no leaders yet, and will have them soon.
    coming = ctx.services.topics.is_coming(name)
    error = ErrorCode.LEADER_NOT_AVAILABLE if coming else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=error, name=name, is_internal=is_internal(name))


def _answer(ctx: Context, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    image = ctx.services.cluster.image
    brokers = []
    for broker_id in image.brokers:
        endpoint = image.endpoint(broker_id, ctx.listener)
        if endpoint is not None:
            rack = image.brokers[broker_id].registration.rack
            brokers.append(MetadataResponseBroker(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack))
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=-1 if image.controller is None else image.controller.broker_id,
        topics=topics,
    )


def _described(ctx: Context, topic: Topic) -> MetadataResponseTopic:
    image = ctx.services.cluster.image
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id or ZERO_UUID,
        is_internal=is_internal(topic.name),
        partitions=[
            _partition(image, where.partition, assignment, state, ctx.listener)
            for where, assignment, state in topic.leaders()
        ],
    )


def _partition(
    image: Image, index: int, assignment: ReplicaAssignment, state: LeaderAndIsr | None, listener: str
) -> MetadataResponsePartition:
    replicas: list[int] = list(assignment.replicas)
    offline: list[int] = [broker for broker in assignment.replicas if broker not in image.brokers]
    if state is None or not state.has_leader or state.leader not in image.brokers:
        return MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=-1,
            leader_epoch=-1 if state is None else state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=[] if state is None else list(state.isr),
            offline_replicas=offline,
        )
    reachable = image.endpoint(state.leader, listener) is not None
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if reachable else ErrorCode.LISTENER_NOT_FOUND,
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=list(state.isr),
        offline_replicas=offline,
    )


HANDLER = Handler(ApiKey.METADATA, handle, Operation.DESCRIBE, Resource.TOPICS)
