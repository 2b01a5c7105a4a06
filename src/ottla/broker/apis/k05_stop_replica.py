"""StopReplica: the controller wants replicas stopped, or deleted. ``orders`` does it."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Resource, later
from ottla.broker.context import Context
from ottla.wire import ApiKey
from ottla.wire.messages.k05_stop_replica import StopReplicaRequest


def handle(ctx: Context, request: StopReplicaRequest) -> Answer:
    return later(ctx.services.scope, ctx.services.orders.stop_replica(request), name="stop_replica")


HANDLER = Handler(ApiKey.STOP_REPLICA, handle, Operation.CLUSTER_ACTION, Resource.CLUSTER)
