"""Heartbeat: a member is alive, and hears whether the group rebalances."""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.coordinator.groups.shard import Identity
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(ctx: Context, request: HeartbeatRequest) -> Answer:
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    who = Identity(request.member_id, request.group_instance_id, request.generation_id)
    parked = Parked()
    code = ctx.services.groups.run(
        request.group_id, lambda shard, now_ms: shard.heartbeat(request.group_id, who, now_ms, parked.complete)
    )
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()  # sessions begin when the group is loaded, so nobody is late
    return HeartbeatResponse(error_code=code) if code else parked.answer()


HANDLER = Handler(ApiKey.HEARTBEAT, handle, Operation.READ, Resource.GROUP)
