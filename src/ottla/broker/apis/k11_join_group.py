"""JoinGroup: become a member, or take part in the next generation. Answered when that begins.

Version notes
- 0: one timeout for sessions and rebalances
- 4: a client without an id is given one first, and asked to come again with it (KIP-394)
- 5: static members
- 7: the protocol's name may be null
- 9: a static leader can be told that there is nothing to assign (KIP-814)
"""

from __future__ import annotations

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource
from ottla.broker.context import Context
from ottla.coordinator.groups.rebalance import Joining, join_refused
from ottla.coordinator.outcome import Reply
from ottla.wire import ApiKey, ErrorCode, Message
from ottla.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse

_REBALANCE_TIMEOUT_FROM, _KNOWN_ID_FROM, _NULL_PROTOCOL_FROM, _SKIPPING_FROM = 1, 4, 7, 9


def handle(ctx: Context, request: JoinGroupRequest) -> Answer:
    parked = Parked()
    reply: Reply = parked.complete
    if ctx.version < _NULL_PROTOCOL_FROM:
        reply = lambda response: parked.complete(_named(response))  # noqa: E731  a function here would refer to itself
    code = ErrorCode.INVALID_GROUP_ID
    if request.group_id:
        joining = _joining(ctx, request)
        code = ctx.services.groups.run(
            request.group_id, lambda shard, now_ms: shard.join(request.group_id, joining, now_ms, reply)
        )
    if code:
        reply(join_refused(request.member_id, code))
    return parked.answer()


def _named(response: Message) -> Message:
    assert isinstance(response, JoinGroupResponse)
    if response.protocol_name is None:
        response.protocol_name = ""
    return response


def _joining(ctx: Context, request: JoinGroupRequest) -> Joining:
    version = ctx.version
    needs_known_id = version >= _KNOWN_ID_FROM and request.group_instance_id is None
    has_rebalance_timeout = version >= _REBALANCE_TIMEOUT_FROM
    return Joining(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.peer[0]}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
        needs_known_id=needs_known_id,
        can_skip_assignment=version >= _SKIPPING_FROM,
    )


HANDLER = Handler(ApiKey.JOIN_GROUP, handle, Operation.READ, Resource.GROUP)
