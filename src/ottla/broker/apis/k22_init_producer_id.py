"""InitProducerId: an identity for a producer, by which its retries are told from new records."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NO_ID = -1


def handle(ctx: Context, request: InitProducerIdRequest) -> Answer:
    if request.transactional_id is not None:
        code = ErrorCode.INVALID_REQUEST if not request.transactional_id else ErrorCode.COORDINATOR_NOT_AVAILABLE
        return InitProducerIdResponse(error_code=code)
    if (request.producer_id == _NO_ID) != (request.producer_epoch == _NO_ID):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST)
    parked = Parked()
    ctx.services.producer_ids.take(
        lambda producer_id: parked.complete(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))
    )
    return parked


HANDLER = Handler(ApiKey.INIT_PRODUCER_ID, handle, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
