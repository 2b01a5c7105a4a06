"""IncrementalAlterConfigs: some settings of a topic, broker or logger set, removed, or given more or fewer items (KIP-339).

Loggers are those of this process, and their levels last as long as it does (KIP-412).
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker import loggers
from ottla.broker.alterconfigs import Outcome, Wanted, alter
from ottla.broker.api import Answer, Handler, Operation, Resource
from ottla.broker.configadmin import ResourceKind
from ottla.broker.context import Context
from ottla.broker.errors import RefusedError
from ottla.metadata.configs import BROKER_CONFIGS, TOPIC_CONFIGS, Alteration, AlterOperation, with_alterations
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k44_incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(ctx: Context, request: IncrementalAlterConfigsRequest) -> Answer:
    def respond(outcomes: list[Outcome]) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(
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

    validate_only = request.validate_only
    wanted = [_wanted(resource, validate_only=validate_only) for resource in request.resources]
    return alter(ctx, wanted, respond, validate_only=validate_only)


def _wanted(resource: AlterConfigsResource, *, validate_only: bool) -> Wanted:
    keys = BROKER_CONFIGS if resource.resource_type == ResourceKind.BROKER else TOPIC_CONFIGS

    def change(current: Mapping[str, str]) -> Mapping[str, str]:
        return with_alterations(current, _alterations(resource), keys)

    def log_levels() -> None:
        alterations = _alterations(resource)
        for alteration in alterations:
            _check_logger(alteration)
        if not validate_only:
            for name, operation, level in alterations:
                if operation is AlterOperation.SET and level is not None:
                    loggers.set_level(name, level)
                else:
                    loggers.unset_level(name)

    return Wanted(
        resource.resource_type,
        resource.resource_name,
        [config.name for config in resource.configs],
        [
            config.name
            for config in resource.configs
            if config.value is None and config.config_operation != AlterOperation.DELETE
        ],
        change,
        log_levels,
    )


def _alterations(resource: AlterConfigsResource) -> list[Alteration]:
    known = set(AlterOperation)
    for config in resource.configs:
        if config.config_operation not in known:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {config.config_operation}")
    return [
        Alteration(config.name, AlterOperation(config.config_operation), config.value) for config in resource.configs
    ]


def _check_logger(alteration: Alteration) -> None:
    name, operation, level = alteration
    if operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
        message = f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)
    if not loggers.exists(name):
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation is AlterOperation.SET and level not in loggers.CHOICES:
        message = (
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(loggers.CHOICES)}"
        )
        raise RefusedError(ErrorCode.INVALID_CONFIG, message)
    if operation is AlterOperation.DELETE and name == loggers.ROOT:
        message = f"Removing the log level of the {loggers.ROOT} logger is not allowed"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)


HANDLER = Handler(ApiKey.INCREMENTAL_ALTER_CONFIGS, handle, Operation.ALTER_CONFIGS, Resource.TOPICS)
