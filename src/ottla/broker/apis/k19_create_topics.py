"""CreateTopics: one after another checked and planned, all written at once, answered when they are ready."""

from __future__ import annotations

from collections import Counter

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.broker.topics import NewTopic, TopicError
from ottla.metadata.configs import describe_topic
from ottla.metadata.ids import BrokerId
from ottla.metadata.znodes.topics import TopicAssignment
from ottla.wire import ZERO_UUID, ApiKey, ErrorCode
from ottla.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


def handle(ctx: Context, request: CreateTopicsRequest) -> Answer:
    topics = ctx.services.topics
    if not topics.is_controller:
        refused = [_refused(topic.name, ErrorCode.NOT_CONTROLLER, None) for topic in request.topics]
        return CreateTopicsResponse(topics=refused)
    counts = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatableTopicResult] = {}
    planned: list[tuple[NewTopic, TopicAssignment]] = []
    for asked in request.topics:
        if counts[asked.name] > 1:
            results[asked.name] = _refused(asked.name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            continue
        try:
            topic = _new_topic(asked)
            assignment = topics.plan(topic)
        except TopicError as error:
            results[asked.name] = _refused(asked.name, error.code, str(error))
            continue
        results[asked.name] = _made(ctx, topic, assignment, validate_only=request.validate_only)
        planned.append((topic, assignment))
    response = CreateTopicsResponse(topics=list(results.values()))
    if request.validate_only or not planned:
        return response
    return _Creating(ctx, planned, request.timeout_ms, response, results).parked


class _Creating:
    """Topics on their way; the answer goes when the last has arrived."""

    def __init__(
        self,
        ctx: Context,
        planned: list[tuple[NewTopic, TopicAssignment]],
        timeout_ms: int,
        response: CreateTopicsResponse,
        results: dict[str, CreatableTopicResult],
    ) -> None:
        self.parked = Parked()
        self._response = response
        self._results = results
        self._left = len(planned)
        for topic, assignment in planned:
            name = topic.name
            ctx.services.topics.create(topic, assignment, timeout_ms, lambda error, name=name: self._done(name, error))  # type: ignore[misc]

    def _done(self, name: str, error: TopicError | None) -> None:
        if error is not None:
            result = self._results[name]
            result.error_code, result.error_message = error.code, str(error)
        self._left -= 1
        if not self._left:
            self.parked.complete(self._response)


def _new_topic(asked: CreatableTopic) -> NewTopic:
    configs: dict[str, str] = {}
    for config in asked.configs:
        if config.value is None:
            raise TopicError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    assignments = {
        assignment.partition_index: tuple(map(BrokerId, assignment.broker_ids)) for assignment in asked.assignments
    }
    if len(assignments) != len(asked.assignments):
        raise TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
    return NewTopic(asked.name, asked.num_partitions, asked.replication_factor, assignments, configs)


def _refused(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def _made(ctx: Context, topic: NewTopic, assignment: TopicAssignment, *, validate_only: bool) -> CreatableTopicResult:
    replicas = next(iter(assignment.partitions.values())).replicas
    return CreatableTopicResult(
        name=topic.name,
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
