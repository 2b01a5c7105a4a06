"""ListPartitionReassignments: the moves that are under way, of some partitions or of all."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.asking import ask
from ottla.broker.context import Context
from ottla.controller.controller import Controller
from ottla.metadata.ids import TopicPartition
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(ctx: Context, request: ListPartitionReassignmentsRequest) -> Answer:
    async def deed(controller: Controller) -> ListPartitionReassignmentsResponse:
        wanted = (
            None
            if request.topics is None
            else {TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes}
        )
        topics: dict[str, list[OngoingPartitionReassignment]] = {}
        for where, assignment in (await controller.reassignments()).items():
            if wanted is None or where in wanted:
                topics.setdefault(where.topic, []).append(
                    OngoingPartitionReassignment(
                        partition_index=where.partition,
                        replicas=list(assignment.replicas),
                        adding_replicas=list(assignment.adding),
                        removing_replicas=list(assignment.removing),
                    )
                )
        return ListPartitionReassignmentsResponse(
            topics=[OngoingTopicReassignment(name=name, partitions=moves) for name, moves in topics.items()]
        )

    return ask(ctx, deed, _refused)


def _refused(code: ErrorCode) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code)


HANDLER = Handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, handle, Operation.DESCRIBE, Resource.CLUSTER)
