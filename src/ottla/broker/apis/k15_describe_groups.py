"""DescribeGroups: the state of groups, and who their members are.

Version notes
- up to 5: a group that is not there is described as one that is dead
- 6: it is told to be unknown (KIP-1043)
"""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.authorized import GROUP_OPERATIONS, NOT_ASKED
from ottla.broker.context import Context
from ottla.coordinator.groups.group import Group, GroupState
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_UNKNOWN_FROM = 6


def handle(ctx: Context, request: DescribeGroupsRequest) -> Answer:
    groups = [_described(ctx, group_id) for group_id in request.groups]
    for group in groups:
        asked = request.include_authorized_operations and not group.error_code
        group.authorized_operations = GROUP_OPERATIONS if asked else NOT_ASKED
    return DescribeGroupsResponse(groups=groups)


def _described(ctx: Context, group_id: str) -> DescribedGroup:
    group = ctx.services.groups.group(group_id)
    if isinstance(group, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=group)
    if group is None:
        dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if ctx.version >= _UNKNOWN_FROM:
            dead.error_code, dead.error_message = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
        return dead
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if group.state is GroupState.STABLE else "",
        members=_members(group),
    )


def _members(group: Group) -> list[DescribedGroupMember]:
    """What members offer and have is only told while it holds."""
    stable = group.state is GroupState.STABLE
    return [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol_name or "") if stable else b"",
            member_assignment=member.assignment if stable else b"",
        )
        for member in group.members.values()
    ]


HANDLER = Handler(ApiKey.DESCRIBE_GROUPS, handle, Operation.DESCRIBE, Resource.GROUP)
