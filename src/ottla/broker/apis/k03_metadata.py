"""Metadata: which brokers there are, and who leads which partition. Creates topics that are asked for, where that is on.

A topic that is created on demand is told of once it has leaders. Kafka answers LEADER_NOT_AVAILABLE at once instead and has
the client ask again; the wait is shorter than that. A broker that was just started answers once it leads what it is to lead, and
who asks for a leader that may be gone is answered when the controller has decided (see ``broker.cluster``).

Version notes
- 0: no topics named means all of them, and replicas whose brokers are gone are left out with an error
- up to 5: a leader that lacks the listener counts as no leader
- 12: topics may be asked for by id; as soon as one is, names are not looked at
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.authorized import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from ottla.broker.cluster import PartitionView
from ottla.broker.context import Context
from ottla.broker.stepwise import stepwise
from ottla.broker.topicplans import TopicError
from ottla.metadata.errors import InvalidTopicError
from ottla.metadata.ids import TopicId
from ottla.metadata.image import Topic
from ottla.metadata.names import check_topic_name, is_internal
from ottla.replica.fetchers import VERDICT_S
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T = TypeVar("T")

LISTENING_S: Final = 0.002
"""How much later than a client a broker may hear that another one hung up."""
SETTLING_MAX_S: Final = 5.0
"""How long a broker may take to settle before clients are told what it knows."""
_EMPTY_MEANS_ALL_UP_TO = 0
_LISTENER_NOT_FOUND_FROM = 6
_BY_ID_FROM = 12


def handle(ctx: Context, request: MetadataRequest) -> Answer:
    cluster = ctx.services.cluster
    if not cluster.is_settled:
        return _settling(ctx, request)
    named = _named(request)
    if cluster.is_in_doubt(named):
        return _doubting(ctx, request)
    answer = _handle(ctx, request)
    if isinstance(answer, MetadataResponse) and cluster.is_watched(named):
        return _listening(ctx, request, answer)
    return answer


def _named(request: MetadataRequest) -> list[str] | None:
    """The topics that are asked for by name, each once; None where it may be any."""
    if not request.topics or any(each.name is None for each in request.topics):
        return None
    return list(dict.fromkeys(each.name for each in request.topics if each.name is not None))


def _listening(ctx: Context, request: MetadataRequest, answer: MetadataResponse) -> Parked:
    """A leader may have hung up on whoever asks, and on this broker, too, which does not know yet."""
    parked, then = Parked(), ctx.kept()

    def go_on() -> None:
        in_doubt = then.services.cluster.is_in_doubt(_named(request))
        _pass_on(_doubting(then, request) if in_doubt else answer, parked)

    ctx.services.loop.call_later(LISTENING_S, go_on)
    return parked


def _doubting(ctx: Context, request: MetadataRequest) -> Parked:
    """A leader hung up. What is said of it now is wrong in a moment, if the controller finds that it is gone."""
    cluster, then = ctx.services.cluster, ctx.kept()
    parked = Parked()

    def go_on() -> None:
        if not parked.is_complete:
            timer.cancel()
            _pass_on(_handle(then, request), parked)

    def look() -> None:
        if cluster.is_in_doubt(_named(request)) and not parked.is_complete:
            cluster.when_changed(look)
        else:
            go_on()

    timer = ctx.services.loop.call_later(VERDICT_S, go_on)
    cluster.when_changed(look)
    return parked


def _settling(ctx: Context, request: MetadataRequest) -> Parked:
    """The broker was just started, and what it says of topics may be wrong in a moment."""
    parked, then = Parked(), ctx.kept()

    def go_on() -> None:
        timer.cancel()
        _pass_on(_handle(then, request), parked)

    cluster = ctx.services.cluster
    timer = ctx.services.loop.call_later(SETTLING_MAX_S, cluster.settle)
    cluster.when_settled(go_on)
    return parked


def _handle(ctx: Context, request: MetadataRequest) -> Answer:
    wanted = request.topics
    if wanted is None or (not wanted and ctx.version <= _EMPTY_MEANS_ALL_UP_TO):
        image = ctx.services.cluster.image
        count = sum(len(topic.partitions) for topic in image.topics.values())
        return _answer(ctx, request, image.topics.values(), _described, count=count)
    if ctx.version < _BY_ID_FROM and any(each.name is None or each.topic_id != ZERO_UUID for each in wanted):
        return _refused(wanted)
    by_id = dict.fromkeys(each.topic_id for each in wanted if each.topic_id != ZERO_UUID)
    if by_id:
        return _answer(ctx, request, map(TopicId, by_id), _by_id)
    names = list(dict.fromkeys(each.name or "" for each in wanted))
    missing = [name for name in names if _may_create(ctx, request, name)]
    if not missing:
        return _answer(ctx, request, names, lambda ctx, name: _by_name(ctx, name, {}))
    parked, then = Parked(), ctx.kept()

    def made(errors: Mapping[str, TopicError]) -> None:
        _pass_on(_answer(then, request, names, lambda ctx, name: _by_name(ctx, name, errors)), parked)

    ctx.services.topics.create_on_demand(missing, made)
    return parked


def _pass_on(answer: Answer, parked: Parked) -> None:
    """Who waits for ``parked`` gets what comes of ``answer``."""
    if isinstance(answer, Parked):
        answer.when_complete(parked.complete)
    else:
        parked.complete(answer)


def _may_create(ctx: Context, request: MetadataRequest, name: str) -> bool:
    image = ctx.services.cluster.image
    if name in image.topics or not image.brokers or not request.allow_auto_topic_creation:
        return False
    return ctx.services.config.auto_create_topics and _is_valid(name)


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True


def _by_id(ctx: Context, topic_id: TopicId) -> MetadataResponseTopic:
    topic = ctx.services.cluster.image.topic_by_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    return _described(ctx, topic)


def _by_name(ctx: Context, name: str, errors: Mapping[str, TopicError]) -> MetadataResponseTopic:
    topic = ctx.services.cluster.image.topics.get(name)
    if topic is not None:
        return _described(ctx, topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if _is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    if not ctx.services.cluster.image.brokers:
        code = ErrorCode.LEADER_NOT_AVAILABLE  # this broker was just started: it does not know what there is
    elif name in errors:
        code = _LATER.get(errors[name].code, errors[name].code)
    return MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


_LATER = {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.LEADER_NOT_AVAILABLE,
}
"""What came of a creation if the topic is there and only has no leaders yet."""


def _answer(
    ctx: Context,
    request: MetadataRequest,
    wanted: Iterable[T],
    describe: Callable[[Context, T], MetadataResponseTopic],
    *,
    count: int | None = None,
) -> Answer:
    """``count`` is how many partitions that are, if it is known."""
    cluster = ctx.services.cluster
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack)
            for broker_id, endpoint, rack in (*cluster.reachable(ctx.listener), *cluster.parting(ctx.listener))
        ],
        cluster_id=cluster.image.cluster_id,
        controller_id=cluster.controller_id,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )
    topics = list(wanted)

    def fill(ctx: Context) -> Iterator[None]:
        for each in topics:
            topic = describe(ctx, each)
            if request.include_topic_authorized_operations and topic.name is not None:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
            response.topics.append(topic)
            yield

    return stepwise(ctx, len(topics) if count is None else count, response, fill)


def _refused(wanted: list[MetadataRequestTopic]) -> MetadataResponse:
    """For a request that asks by id before that was possible."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=each.name or "", topic_id=each.topic_id)
            for each in wanted
        ]
    )


def _described(ctx: Context, topic: Topic) -> MetadataResponseTopic:
    views = ctx.services.cluster.partitions(topic, ctx.listener)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id or ZERO_UUID,
        is_internal=is_internal(topic.name),
        partitions=[_partition(ctx, view) for view in views],
    )


def _partition(ctx: Context, view: PartitionView) -> MetadataResponsePartition:
    error, replicas, isr = view.error, view.replicas, view.isr
    if error is ErrorCode.LISTENER_NOT_FOUND and ctx.version < _LISTENER_NOT_FOUND_FROM:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    if ctx.version <= _EMPTY_MEANS_ALL_UP_TO and view.offline:
        replicas = [broker for broker in replicas if broker not in view.offline]
        isr = [broker for broker in isr if broker not in view.offline]
        error = error or ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=view.number,
        leader_id=view.leader,
        leader_epoch=view.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline,
    )


HANDLER = Handler(ApiKey.METADATA, handle, Operation.DESCRIBE, Resource.TOPICS)
