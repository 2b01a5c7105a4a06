"""CreateAcls: somebody may, or may not, do something. There is no access control yet (``acls``)."""

from __future__ import annotations

from ottla.broker.acls import NO_AUTHORIZER, check_known
from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k30_create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(_ctx: Context, request: CreateAclsRequest) -> CreateAclsResponse:
    for each in request.creations:
        check_known(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))


HANDLER = Handler(ApiKey.CREATE_ACLS, handle, Operation.ALTER, Resource.CLUSTER)
