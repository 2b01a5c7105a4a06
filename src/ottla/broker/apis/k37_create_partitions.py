"""CreatePartitions: more partitions for topics that exist; answered when the new ones have leaders."""

from __future__ import annotations

from collections import Counter

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.forwarding import forwarded
from ottla.broker.mutating import Mutating
from ottla.broker.topicplans import TopicError
from ottla.metadata.ids import BrokerId
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_STRICT_FROM = 3
_Assignments = list[tuple[BrokerId, ...]] | None


def handle(ctx: Context, request: CreatePartitionsRequest) -> Answer:
    if not ctx.services.topics.is_controller:
        names = dict.fromkeys(topic.name for topic in request.topics)
        refused = [CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NOT_CONTROLLER) for name in names]
        return forwarded(ctx, request, CreatePartitionsResponse(results=refused), timeout_ms=request.timeout_ms)
    counts = Counter(topic.name for topic in request.topics)
    results = {name: CreatePartitionsTopicResult(name=name) for name in counts}
    growing: list[CreatePartitionsTopic] = []
    mutating = Mutating(ctx, strict_from=_STRICT_FROM)
    for topic in request.topics:
        try:
            if counts[topic.name] > 1:
                raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            ctx.services.topics.plan_partitions(topic.name, topic.count, _assignments(topic))
            if not request.validate_only:
                now = len(ctx.services.cluster.image.topics[topic.name].partitions)
                mutating.charge(topic.count - now)
        except TopicError as error:
            _refuse(results[topic.name], error)
        else:
            growing.append(topic)
    response = CreatePartitionsResponse(results=list(results.values()), throttle_time_ms=mutating.wait_ms)
    if request.validate_only or not growing:
        return response
    return _Growing(ctx, growing, request.timeout_ms, response, results).parked


class _Growing:
    """Partitions on their way; the answer goes when the last has arrived."""

    def __init__(
        self,
        ctx: Context,
        growing: list[CreatePartitionsTopic],
        timeout_ms: int,
        response: CreatePartitionsResponse,
        results: dict[str, CreatePartitionsTopicResult],
    ) -> None:
        self.parked = Parked()
        self._response = response
        self._left = len(growing)
        for topic in growing:
            result = results[topic.name]
            ctx.services.topics.grow(
                topic.name,
                topic.count,
                _assignments(topic),
                timeout_ms,
                lambda error, result=result: self._done(result, error),  # type: ignore[misc]
            )

    def _done(self, result: CreatePartitionsTopicResult, error: TopicError | None) -> None:
        if error is not None:
            _refuse(result, error)
        self._left -= 1
        if not self._left:
            self.parked.complete(self._response)


def _refuse(result: CreatePartitionsTopicResult, error: TopicError) -> None:
    result.error_code, result.error_message = error.code, str(error)


def _assignments(topic: CreatePartitionsTopic) -> _Assignments:
    if topic.assignments is None:
        return None
    return [tuple(map(BrokerId, assignment.broker_ids)) for assignment in topic.assignments]


HANDLER = Handler(ApiKey.CREATE_PARTITIONS, handle, Operation.ALTER, Resource.TOPICS)
