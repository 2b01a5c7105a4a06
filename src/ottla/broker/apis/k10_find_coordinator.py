"""FindCoordinator: which broker looks after a group, or after the transactions of a producer.

That is who leads the partition of ``__consumer_offsets`` or ``__transaction_state`` that the key belongs to. Either topic is made
when it is first asked for. Kafka answers COORDINATOR_NOT_AVAILABLE while it does, and has the client ask again; here the
answer comes when the topic has leaders, also to those that ask while it is being made: librdkafka asks three times in half a second,
and then not again.

Version notes
- 4: many keys at once
- 6: share groups, which this broker does not have
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.errors import MALFORMED
from ottla.broker.topicplans import TopicError
from ottla.coordinator.groups.coordinator import partition_for
from ottla.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_MANY_FROM = 4
_SHARE = 2
_TOPICS: Mapping[int, str] = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}
"""By the type of the key."""
_MESSAGES: Mapping[int, str] = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: MALFORMED,
}


def handle(ctx: Context, request: FindCoordinatorRequest) -> Answer:
    many = ctx.version >= _MANY_FROM
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        return _answer(ctx, request, ErrorCode.INVALID_REQUEST, many=many)
    found = ctx.services.cluster.image.topics.get(topic)
    if found is not None and found.is_up:
        return _answer(ctx, request, many=many)
    parked = Parked()

    def made(_errors: Mapping[str, TopicError]) -> None:
        parked.complete(_answer(ctx, request, many=many))

    ctx.services.topics.create_on_demand([topic], made)
    return parked.answer()


def _answer(
    ctx: Context, request: FindCoordinatorRequest, code: ErrorCode = ErrorCode.NONE, *, many: bool
) -> FindCoordinatorResponse:
    topic = _TOPICS.get(request.key_type, "")
    if many:
        found = [_find(ctx, topic, key, code) for key in request.coordinator_keys]
        if code is ErrorCode.INVALID_REQUEST and request.key_type != _SHARE:  # of a share group Kafka says nothing
            for each in found:
                each.error_message = MALFORMED
        return FindCoordinatorResponse(coordinators=found)
    one = _find(ctx, topic, request.key, code)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=_MESSAGES[one.error_code],
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(ctx: Context, topic: str, key: str, code: ErrorCode) -> Coordinator:
    image = ctx.services.cluster.image
    found = image.topics.get(topic)
    if found is not None and found.partitions and not code:
        state = found.states.get(partition_for(key, len(found.partitions)))
        endpoint = None if state is None else image.endpoint(state.leader, ctx.listener)
        if state is not None and endpoint is not None:
            return Coordinator(key=key, node_id=state.leader, host=endpoint.host, port=endpoint.port)
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code or ErrorCode.COORDINATOR_NOT_AVAILABLE)


HANDLER = Handler(ApiKey.FIND_COORDINATOR, handle, Operation.DESCRIBE, Resource.GROUP)
