"""AllocateProducerIds: a block of ids for a broker to hand out."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.asking import ask
from ottla.broker.context import Context
from ottla.controller.controller import Controller
from ottla.metadata.ids import BrokerId
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


def handle(ctx: Context, request: AllocateProducerIdsRequest) -> Answer:
    async def deed(controller: Controller) -> AllocateProducerIdsResponse:
        block = await controller.allocate_producer_ids(BrokerId(request.broker_id), request.broker_epoch)
        if isinstance(block, ErrorCode):
            return _refused(block)
        return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.last - block.first + 1)

    return ask(ctx, deed, _refused)


def _refused(code: ErrorCode) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code)


HANDLER = Handler(ApiKey.ALLOCATE_PRODUCER_IDS, handle, Operation.CLUSTER_ACTION, Resource.CLUSTER)
