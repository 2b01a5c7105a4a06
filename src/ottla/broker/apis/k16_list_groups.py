"""ListGroups: the groups that this broker coordinates.

Version notes
- 4: only those in certain states
- 5: only those of certain types; all of them are classic here
"""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_CLASSIC = "classic"


def handle(ctx: Context, request: ListGroupsRequest) -> Answer:
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = ctx.services.groups
    listed = []
    if not types or _CLASSIC in types:
        listed = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=_CLASSIC,
            )
            for group in groups.groups()
            if not states or group.state.value.lower() in states
        ]
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if groups.runtime.is_loading else ErrorCode.NONE
    return ListGroupsResponse(error_code=code, groups=listed)


HANDLER = Handler(ApiKey.LIST_GROUPS, handle, Operation.DESCRIBE, Resource.CLUSTER)
