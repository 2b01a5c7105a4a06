"""DescribeAcls: who may do what. There is no access control yet (``acls``)."""

from __future__ import annotations

from ottla.broker.acls import NO_AUTHORIZER_HERE, check_known
from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(_ctx: Context, request: DescribeAclsRequest) -> DescribeAclsResponse:
    check_known(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER_HERE)


HANDLER = Handler(ApiKey.DESCRIBE_ACLS, handle, Operation.DESCRIBE, Resource.CLUSTER)
