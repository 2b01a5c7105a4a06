"""AlterPartitionReassignments: partitions move to other brokers; null takes a move back (KIP-455).

The answer says that moves have begun, not that they are done. Version notes: version 1 may forbid that the number of replicas
changes (KIP-860).
"""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.asking import ask
from ottla.broker.context import Context
from ottla.controller.controller import Controller
from ottla.controller.machine.reassignment import Refusal
from ottla.metadata.ids import TopicPartition
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(ctx: Context, request: AlterPartitionReassignmentsRequest) -> Answer:
    async def deed(controller: Controller) -> AlterPartitionReassignmentsResponse:
        wanted = {
            TopicPartition(topic.name, partition.partition_index): partition.replicas
            for topic in request.topics
            for partition in topic.partitions
        }
        outcomes: dict[TopicPartition, Refusal | None] = {}
        if not request.allow_replication_factor_change:
            outcomes |= _changing_factor(ctx, wanted)
        outcomes |= await controller.reassign(
            {where: replicas for where, replicas in wanted.items() if where not in outcomes}
        )
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            responses=[
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        _result(
                            partition.partition_index, outcomes[TopicPartition(topic.name, partition.partition_index)]
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    return ask(ctx, deed, _refused)


def _changing_factor(
    ctx: Context, wanted: dict[TopicPartition, list[int] | None]
) -> dict[TopicPartition, Refusal | None]:
    found: dict[TopicPartition, Refusal | None] = {}
    for where, replicas in wanted.items():
        assignment = ctx.services.cluster.image.assignment(where)
        if replicas is None or assignment is None or len(replicas) == len(assignment.origin_replicas):
            continue
        found[where] = Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(assignment.origin_replicas)} to {len(replicas)}",
        )
    return found


def _result(index: int, refusal: Refusal | None) -> ReassignablePartitionResponse:
    if refusal is None:
        return ReassignablePartitionResponse(partition_index=index, error_message=None)
    return ReassignablePartitionResponse(partition_index=index, error_code=refusal.code, error_message=refusal.message)


def _refused(code: ErrorCode) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=code)


HANDLER = Handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, handle, Operation.ALTER, Resource.CLUSTER)
