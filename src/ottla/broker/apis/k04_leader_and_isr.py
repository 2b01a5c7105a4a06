"""LeaderAndIsr: the controller says who leads and who follows. ``orders`` does it."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Resource, later
from ottla.broker.context import Context
from ottla.wire import ApiKey
from ottla.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest


def handle(ctx: Context, request: LeaderAndIsrRequest) -> Answer:
    return later(
        ctx.services.scope, ctx.services.orders.leader_and_isr(request, version=ctx.version), name="leader_and_isr"
    )


HANDLER = Handler(ApiKey.LEADER_AND_ISR, handle, Operation.CLUSTER_ACTION, Resource.CLUSTER)
