"""AlterConfigs: all settings of a topic or broker at once. What is not named goes back to its default (hence KIP-339)."""

from __future__ import annotations

from ottla.broker.alterconfigs import Outcome, Wanted, alter, given
from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.wire import ApiKey
from ottla.wire.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(ctx: Context, request: AlterConfigsRequest) -> Answer:
    def respond(outcomes: list[Outcome]) -> AlterConfigsResponse:
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=code,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource, (code, message) in zip(request.resources, outcomes, strict=True)
            ]
        )

    return alter(ctx, list(map(_wanted, request.resources)), respond, validate_only=request.validate_only)


def _wanted(resource: AlterConfigsResource) -> Wanted:
    return Wanted(
        resource.resource_type,
        resource.resource_name,
        [config.name for config in resource.configs],
        [config.name for config in resource.configs if config.value is None],
        lambda _current: given((config.name, config.value) for config in resource.configs),
    )


HANDLER = Handler(ApiKey.ALTER_CONFIGS, handle, Operation.ALTER_CONFIGS, Resource.TOPICS)
