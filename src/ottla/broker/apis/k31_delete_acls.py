"""DeleteAcls: rules that match are gone. There is no access control yet (``acls``)."""

from __future__ import annotations

from ottla.broker.acls import NO_AUTHORIZER, check_known
from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k31_delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(_ctx: Context, request: DeleteAclsRequest) -> DeleteAclsResponse:
    for each in request.filters:
        check_known(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


HANDLER = Handler(ApiKey.DELETE_ACLS, handle, Operation.ALTER, Resource.CLUSTER)
