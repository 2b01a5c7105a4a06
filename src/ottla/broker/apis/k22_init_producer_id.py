"""InitProducerId: an identity for a producer, by which its retries are told from new records.

Transactions are not there yet. The broker that would coordinate them says so for good, or producers would ask until they give up.
"""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.coordinator.groups.coordinator import partition_for
from ottla.metadata.names import TRANSACTION_STATE
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NO_ID = -1


def handle(ctx: Context, request: InitProducerIdRequest) -> Answer:
    if (request.producer_id == _NO_ID) != (request.producer_epoch == _NO_ID):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(_transactional(ctx, request))
    parked = Parked()
    ctx.services.producer_ids.take(
        lambda producer_id: parked.complete(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))
    )
    return parked


def _transactional(ctx: Context, request: InitProducerIdRequest) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= ctx.services.config.transaction_timeout_max_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    topic = ctx.services.cluster.image.topics.get(TRANSACTION_STATE)
    number = partition_for(request.transactional_id, len(topic.partitions)) if topic is not None else -1
    state = None if topic is None else topic.states.get(number)
    is_named = state is not None and state.leader == ctx.services.config.broker_id
    return ErrorCode.UNSUPPORTED_VERSION if is_named else ErrorCode.NOT_COORDINATOR


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NO_ID, producer_epoch=_NO_ID)


HANDLER = Handler(ApiKey.INIT_PRODUCER_ID, handle, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
