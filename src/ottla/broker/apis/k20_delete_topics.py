"""DeleteTopics: by name, or by id."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.topics import TopicError
from ottla.metadata.ids import TopicId
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_BY_STATE_FROM = 6


def handle(ctx: Context, request: DeleteTopicsRequest) -> Answer:
    wanted = request.topics
    if ctx.version < _BY_STATE_FROM:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    if not ctx.services.topics.is_controller:
        return DeleteTopicsResponse(responses=[_result(each, ErrorCode.NOT_CONTROLLER) for each in wanted])
    if not ctx.services.config.delete_topics:
        return DeleteTopicsResponse(responses=[_result(each, ErrorCode.TOPIC_DELETION_DISABLED) for each in wanted])
    results = [_looked_up(ctx, each) for each in wanted]
    names = [result.name for result in results if not result.error_code and result.name is not None]
    if not names:
        return DeleteTopicsResponse(responses=results)
    return _Deleting(ctx, names, request.timeout_ms, results).parked


class _Deleting:
    def __init__(self, ctx: Context, names: list[str], timeout_ms: int, results: list[DeletableTopicResult]) -> None:
        self.parked = Parked()
        self._results = results
        self._left = len(names)
        for name in names:
            ctx.services.topics.delete(name, timeout_ms, lambda error, name=name: self._done(name, error))  # type: ignore[misc]

    def _done(self, name: str, error: TopicError | None) -> None:
        if error is not None:
            result = next(each for each in self._results if each.name == name)
            result.error_code, result.error_message = error.code, str(error)
        self._left -= 1
        if not self._left:
            self.parked.complete(DeleteTopicsResponse(responses=self._results))


def _looked_up(ctx: Context, wanted: DeleteTopicState) -> DeletableTopicResult:
    image = ctx.services.cluster.image
    if wanted.name is not None and wanted.topic_id != ZERO_UUID:
        return _result(wanted, ErrorCode.INVALID_REQUEST)
    if wanted.name is None:
        topic = image.topic_by_id(TopicId(wanted.topic_id))
        if topic is None:
            return _result(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
    else:
        topic = image.topics.get(wanted.name)
        if topic is None:
            return _result(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id or ZERO_UUID)


def _result(wanted: DeleteTopicState, code: ErrorCode) -> DeletableTopicResult:
    return DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id, error_code=code)


HANDLER = Handler(ApiKey.DELETE_TOPICS, handle, Operation.DELETE, Resource.TOPICS)
