"""ControlledShutdown: a broker is about to stop, and wants others to lead first."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.asking import ask
from ottla.broker.context import Context
from ottla.controller.controller import Controller
from ottla.metadata.ids import BrokerId
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k07_controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


def handle(ctx: Context, request: ControlledShutdownRequest) -> Answer:
    async def deed(controller: Controller) -> ControlledShutdownResponse:
        left = await controller.shut_down(BrokerId(request.broker_id), request.broker_epoch)
        if isinstance(left, ErrorCode):
            return _refused(left)
        remaining = [RemainingPartition(topic_name=where.topic, partition_index=where.partition) for where in left]
        return ControlledShutdownResponse(remaining_partitions=remaining)

    return ask(ctx, deed, _refused)


def _refused(code: ErrorCode) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(error_code=code)


HANDLER = Handler(ApiKey.CONTROLLED_SHUTDOWN, handle, Operation.CLUSTER_ACTION, Resource.CLUSTER)
