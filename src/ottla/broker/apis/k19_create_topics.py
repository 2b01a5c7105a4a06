"""CreateTopics: one after another checked and planned, all written at once, answered when they are ready."""

from __future__ import annotations

from collections import Counter

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.forwarding import forwarded
from ottla.broker.mutating import Mutating
from ottla.broker.topicplans import NewTopic, TopicError
from ottla.metadata.configs import describe_topic
from ottla.metadata.ids import BrokerId
from ottla.metadata.names import CLUSTER_METADATA
from ottla.metadata.znodes.topics import TopicAssignment
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_STRICT_FROM = 6


def handle(ctx: Context, request: CreateTopicsRequest) -> Answer:
    topics = ctx.services.topics
    if not topics.is_controller:
        refused = [_refused(topic.name, ErrorCode.NOT_CONTROLLER, None) for topic in request.topics]
        return forwarded(ctx, request, CreateTopicsResponse(topics=refused), timeout_ms=request.timeout_ms)
    counts = Counter(topic.name for topic in request.topics)
    results: list[CreatableTopicResult] = []
    planned: list[tuple[NewTopic, TopicAssignment, CreatableTopicResult]] = []
    mutating = Mutating(ctx, strict_from=_STRICT_FROM)
    for asked in request.topics:
        try:
            _check(asked.name, counts)
            topic = _new_topic(asked)
            assignment = topics.plan(topic, () if request.validate_only else [each.name for each, _, _ in planned])
            if not request.validate_only:
                mutating.charge(len(assignment.partitions))
        except TopicError as error:
            results.append(_refused(asked.name, error.code, str(error)))
            continue
        made = _made(ctx, topic, assignment, validate_only=request.validate_only)
        results.append(made)
        planned.append((topic, assignment, made))
    response = CreateTopicsResponse(topics=results, throttle_time_ms=mutating.wait_ms)
    if request.validate_only or not planned:
        return response
    return _Creating(ctx, planned, request.timeout_ms, response).parked


class _Creating:
    """Topics on their way; the answer goes when the last has arrived."""

    def __init__(
        self,
        ctx: Context,
        planned: list[tuple[NewTopic, TopicAssignment, CreatableTopicResult]],
        timeout_ms: int,
        response: CreateTopicsResponse,
    ) -> None:
        self.parked = Parked()
        self._response = response
        self._left = len(planned)
        for topic, assignment, made in planned:
            ctx.services.topics.create(topic, assignment, timeout_ms, lambda error, made=made: self._done(made, error))  # type: ignore[misc]

    def _done(self, made: CreatableTopicResult, error: TopicError | None) -> None:
        if error is not None:
            made.error_code, made.error_message = error.code, str(error)
            made.configs, made.num_partitions, made.replication_factor = [], -1, -1
            if error.code != ErrorCode.REQUEST_TIMED_OUT:
                made.topic_id = ZERO_UUID
        self._left -= 1
        if not self._left:
            self.parked.complete(self._response)


def _check(name: str, counts: Counter[str]) -> None:
    if name == CLUSTER_METADATA:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if counts[name] > 1:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")


def _new_topic(asked: CreatableTopic) -> NewTopic:
    assignments = {
        assignment.partition_index: tuple(map(BrokerId, assignment.broker_ids)) for assignment in asked.assignments
    }
    if len(assignments) != len(asked.assignments):
        raise TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
    return NewTopic(
        asked.name,
        asked.num_partitions,
        asked.replication_factor,
        assignments,
        {config.name: config.value for config in asked.configs if config.value is not None},
        [config.name for config in asked.configs if config.value is None],
    )


def _refused(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message, configs=[])


def _made(ctx: Context, topic: NewTopic, assignment: TopicAssignment, *, validate_only: bool) -> CreatableTopicResult:
    replicas = next(iter(assignment.partitions.values())).replicas
    return CreatableTopicResult(
        name=topic.name,
        error_message=None,
        topic_id=ZERO_UUID if validate_only else assignment.topic_id or ZERO_UUID,
        num_partitions=len(assignment.partitions),
        replication_factor=len(replicas),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.text,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(topic.configs, ctx.services.config.sources)
        ],
    )


HANDLER = Handler(ApiKey.CREATE_TOPICS, handle, Operation.CREATE, Resource.TOPICS)
