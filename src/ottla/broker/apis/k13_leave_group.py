"""LeaveGroup: members go, and the others rebalance without waiting for their sessions to end.

Version notes
- up to 2: one member, and its error is that of the request
- 3: many members, and static ones by their name alone
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.coordinator.groups.shard import Identity
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_MANY_FROM = 3


def handle(ctx: Context, request: LeaveGroupRequest) -> Answer:
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    many = ctx.version >= _MANY_FROM
    members = request.members if many else [MemberIdentity(member_id=request.member_id)]
    leaving = [Identity(each.member_id, each.group_instance_id) for each in members]
    parked = Parked()

    def respond(codes: Sequence[ErrorCode]) -> LeaveGroupResponse:
        if not many:
            return LeaveGroupResponse(error_code=codes[0])
        return LeaveGroupResponse(
            members=[
                MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code)
                for each, code in zip(members, codes, strict=True)
            ]
        )

    code = ctx.services.groups.run(
        request.group_id,
        lambda shard, now_ms: shard.leave(request.group_id, leaving, now_ms, parked.complete, respond),
    )
    return LeaveGroupResponse(error_code=code) if code else parked.answer()


HANDLER = Handler(ApiKey.LEAVE_GROUP, handle, Operation.READ, Resource.GROUP)
