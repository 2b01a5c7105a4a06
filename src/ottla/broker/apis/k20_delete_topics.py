"""DeleteTopics: by name, or by id."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.forwarding import forwarded
from ottla.broker.mutating import Mutating
from ottla.broker.topicplans import TopicError
from ottla.metadata.ids import TopicId
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_BY_STATE_FROM = 6
_DISABLED_FROM = 3
_STRICT_FROM = 5


def handle(ctx: Context, request: DeleteTopicsRequest) -> Answer:
    wanted = request.topics
    if ctx.version < _BY_STATE_FROM:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    if not ctx.services.topics.is_controller:
        refused = DeleteTopicsResponse(responses=[_result(each, ErrorCode.NOT_CONTROLLER) for each in wanted])
        return forwarded(ctx, request, refused, timeout_ms=request.timeout_ms)
    if (refusal := _refusal(ctx, wanted)) is not None:
        return DeleteTopicsResponse(responses=[_result(each, refusal) for each in wanted])
    results = [_looked_up(ctx, each) for each in wanted]
    mutating = Mutating(ctx, strict_from=_STRICT_FROM)
    for result in results:
        _charge(ctx, mutating, result)
    names = {result.name for result in results if not result.error_code and result.name is not None}
    if not names:
        return DeleteTopicsResponse(responses=results, throttle_time_ms=mutating.wait_ms)
    return _Deleting(ctx, names, request.timeout_ms, results, mutating.wait_ms).parked


def _charge(ctx: Context, mutating: Mutating, result: DeletableTopicResult) -> None:
    topic = ctx.services.cluster.image.topics.get(result.name or "")
    if result.error_code or topic is None:
        return
    try:
        mutating.charge(len(topic.partitions))
    except TopicError as error:
        result.error_code, result.error_message = error.code, str(error)


def _refusal(ctx: Context, wanted: list[DeleteTopicState]) -> ErrorCode | None:
    """What is wrong with the request as a whole."""
    if not ctx.services.config.delete_topics:
        return ErrorCode.INVALID_REQUEST if ctx.version < _DISABLED_FROM else ErrorCode.TOPIC_DELETION_DISABLED
    if any(each.name is not None and each.topic_id != ZERO_UUID for each in wanted):
        return ErrorCode.INVALID_REQUEST  # by name and by id at once
    return None


class _Deleting:
    """Topics on their way out; the answer goes when the last has gone."""

    def __init__(
        self, ctx: Context, names: set[str], timeout_ms: int, results: list[DeletableTopicResult], wait_ms: int
    ) -> None:
        self.parked = Parked()
        self._wait_ms = wait_ms
        self._results = results
        self._left = len(names)
        for name in names:
            ctx.services.topics.delete(name, timeout_ms, lambda error, name=name: self._done(name, error))  # type: ignore[misc]

    def _done(self, name: str, error: TopicError | None) -> None:
        if error is not None:
            for result in self._results:
                if result.name == name:
                    result.error_code, result.error_message = error.code, str(error)
        self._left -= 1
        if not self._left:
            self.parked.complete(DeleteTopicsResponse(responses=self._results, throttle_time_ms=self._wait_ms))


def _looked_up(ctx: Context, wanted: DeleteTopicState) -> DeletableTopicResult:
    image = ctx.services.cluster.image
    if wanted.topic_id != ZERO_UUID:
        topic = image.topic_by_id(TopicId(wanted.topic_id))
        if topic is None:
            return _result(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
        return DeletableTopicResult(name=topic.name, topic_id=wanted.topic_id)
    if wanted.name is None:
        return _result(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED)  # as Kafka: nobody may delete what has no name
    known = wanted.name in image.topics
    return _result(wanted, ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _result(wanted: DeleteTopicState, code: ErrorCode) -> DeletableTopicResult:
    return DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id, error_code=code)


HANDLER = Handler(ApiKey.DELETE_TOPICS, handle, Operation.DELETE, Resource.TOPICS)
