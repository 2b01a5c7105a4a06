"""ApiVersions: what this broker can be asked."""

from __future__ import annotations

import re

from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMED_FROM = 3


def handle(ctx: Context, request: ApiVersionsRequest) -> ApiVersionsResponse:
    error = ErrorCode.NONE
    if ctx.unsupported_version:
        ctx.unsupported_version = False
        error = ErrorCode.UNSUPPORTED_VERSION
    elif ctx.version >= _NAMED_FROM and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    keys = [
        ApiVersion(api_key=key, min_version=versions.low, max_version=versions.high)
        for key, versions in ctx.services.dispatch.offered()
    ]
    features = ctx.services.cluster.image.features
    if features is None:
        return ApiVersionsResponse(error_code=error, api_keys=keys)
    return ApiVersionsResponse(
        error_code=error,
        api_keys=keys,
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.levels.items()
        ],
    )


HANDLER = Handler(ApiKey.API_VERSIONS, handle, Operation.NONE, Resource.NOTHING)
