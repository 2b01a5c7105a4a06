"""AlterPartition: a leader wants another ISR.

Version notes: since version 2 topics go by their ids; since version 3 each replica comes with the epoch of its broker, or -1
where the leader does not know it.
"""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.asking import ask
from ottla.broker.context import Context
from ottla.controller.controller import Controller
from ottla.controller.machine.isr import ANY_EPOCH, Wish
from ottla.metadata.ids import BrokerId, TopicId, TopicPartition
from ottla.metadata.image import Image
from ottla.metadata.znodes.topics import LeaderAndIsr
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

_EPOCHS_FROM = 3


def handle(ctx: Context, request: AlterPartitionRequest) -> Answer:
    with_epochs = ctx.version >= _EPOCHS_FROM

    async def deed(controller: Controller) -> AlterPartitionResponse:
        names: dict[bytes, str] = {}

        def wishes(image: Image) -> dict[TopicPartition, Wish]:
            found: dict[TopicPartition, Wish] = {}
            for topic in request.topics:
                known = image.topic_by_id(TopicId(topic.topic_id))
                if known is None:
                    continue
                names[topic.topic_id] = known.name
                for partition in topic.partitions:
                    where = TopicPartition(known.name, partition.partition_index)
                    found[where] = _wish(request.broker_id, partition, with_epochs=with_epochs)
            return found

        verdicts = await controller.alter_partitions(BrokerId(request.broker_id), request.broker_epoch, wishes)
        if isinstance(verdicts, ErrorCode):
            return _refused(verdicts)
        return AlterPartitionResponse(
            topics=[
                ResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        _result(partition.partition_index, names.get(topic.topic_id), verdicts)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return ask(ctx, deed, _refused)


def _wish(leader: int, partition: RequestPartitionData, *, with_epochs: bool) -> Wish:
    if with_epochs:
        isr = tuple((BrokerId(each.broker_id), each.broker_epoch) for each in partition.new_isr_with_epochs)
    else:
        isr = tuple((BrokerId(broker), ANY_EPOCH) for broker in partition.new_isr)
    return Wish(
        BrokerId(leader),
        partition.leader_epoch,
        partition.partition_epoch,
        isr,
        recovering=bool(partition.leader_recovery_state),
    )


def _result(
    index: int, topic: str | None, verdicts: dict[TopicPartition, LeaderAndIsr | ErrorCode]
) -> ResponsePartitionData:
    if topic is None:
        return ResponsePartitionData(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    verdict = verdicts[TopicPartition(topic, index)]
    if isinstance(verdict, ErrorCode):
        return ResponsePartitionData(partition_index=index, error_code=verdict)
    return ResponsePartitionData(
        partition_index=index,
        leader_id=verdict.leader,
        leader_epoch=verdict.leader_epoch,
        isr=list(verdict.isr),
        leader_recovery_state=int(verdict.recovering),
        partition_epoch=verdict.partition_epoch,
    )


def _refused(code: ErrorCode) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=code)


HANDLER = Handler(ApiKey.ALTER_PARTITION, handle, Operation.CLUSTER_ACTION, Resource.CLUSTER)
