"""SyncGroup: the leader brings the assignment, and each member gets its own. Answered when it is in the log.

Version notes
- 3: static members
- 5: the member says which protocol it believes in, and has to
"""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.coordinator.groups.rebalance import sync_refused
from ottla.coordinator.groups.shard import Identity
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k14_sync_group import SyncGroupRequest

_PROTOCOL_FROM = 5


def handle(ctx: Context, request: SyncGroupRequest) -> Answer:
    protocol = (request.protocol_type, request.protocol_name)
    if ctx.version >= _PROTOCOL_FROM and None in protocol:
        return sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return sync_refused(ErrorCode.INVALID_GROUP_ID)
    who = Identity(request.member_id, request.group_instance_id, request.generation_id)
    assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
    parked = Parked()
    code = ctx.services.groups.run(
        request.group_id,
        lambda shard, now_ms: shard.sync(request.group_id, who, protocol, assignments, now_ms, parked.complete),
    )
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.REBALANCE_IN_PROGRESS  # the rebalance is lost, and older clients do not know the other error
    return sync_refused(code) if code else parked.answer()


HANDLER = Handler(ApiKey.SYNC_GROUP, handle, Operation.READ, Resource.GROUP)
