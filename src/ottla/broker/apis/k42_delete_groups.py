"""DeleteGroups: groups without members go, with all that they committed."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.broker.gathering import Gathering
from ottla.coordinator.outcome import Reply
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(ctx: Context, request: DeleteGroupsRequest) -> Answer:
    group_ids = list(dict.fromkeys(request.groups_names))
    gathering = Gathering(len(group_ids), _response)
    for number, group_id in enumerate(group_ids):
        _delete(ctx, group_id, gathering.place(number))
    return gathering.parked.answer()


def _delete(ctx: Context, group_id: str, reply: Reply) -> None:
    def respond(code: ErrorCode) -> DeletableGroupResult:
        return DeletableGroupResult(group_id=group_id, error_code=code)

    code = ctx.services.groups.run_each(group_id, lambda shard, _now_ms: shard.delete(group_id, reply, respond))
    if code:
        reply(respond(code))


def _response(results: Sequence[DeletableGroupResult]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=list(results))


HANDLER = Handler(ApiKey.DELETE_GROUPS, handle, Operation.DELETE, Resource.GROUP)
