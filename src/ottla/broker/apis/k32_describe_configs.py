"""DescribeConfigs: every setting of a topic or of this broker, its value, and where that comes from.

A broker answers for itself alone, and for what was changed for all brokers (the empty name). Loggers are settings too: their
names and levels. Client metrics are refused, as every broker on ZooKeeper does.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.configadmin import RESOURCE_KINDS, ResourceKind
from ottla.broker.context import Context
from ottla.broker.errors import MALFORMED, RefusedError
from ottla.broker.loggers import levels
from ottla.metadata.configs import (
    BrokerSources,
    ConfigEntry,
    describe_broker,
    describe_default_broker,
    describe_topic,
    static_properties,
)
from ottla.metadata.errors import InvalidTopicError
from ottla.metadata.names import check_topic_name
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_DYNAMIC_BROKER_LOGGER = 6
"""The source of a logger's level."""


def handle(ctx: Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    if any(resource.resource_type not in RESOURCE_KINDS for resource in request.resources):
        # One that means nothing spoils all, for nobody knows what it would take to be allowed to see it.
        return DescribeConfigsResponse(
            results=[_refused(each, ErrorCode.INVALID_REQUEST, MALFORMED) for each in request.resources]
        )
    return DescribeConfigsResponse(results=[_described(ctx, request, each) for each in request.resources])


def _described(
    ctx: Context, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        configs = list(_configs(ctx, request, resource))
    except RefusedError as error:
        return _refused(resource, error.code, error.message)
    if resource.configuration_keys:
        wanted = set(resource.configuration_keys)
        configs = [config for config in configs if config.name in wanted]
    return DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=configs
    )


def _configs(
    ctx: Context, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> Iterable[DescribeConfigsResourceResult]:
    match RESOURCE_KINDS[resource.resource_type]:
        case ResourceKind.TOPIC:
            return [_result(request, entry) for entry in _topic(ctx, resource.resource_name)]
        case ResourceKind.BROKER:
            return [_result(request, entry) for entry in _broker(ctx, resource.resource_name)]
        case ResourceKind.BROKER_LOGGER:
            return _loggers(ctx, resource.resource_name)
        case ResourceKind.CLIENT_METRICS:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, "Config type client-metrics is only supported on KRaft clusters"
            )


def _topic(ctx: Context, name: str) -> list[ConfigEntry]:
    image = ctx.services.cluster.image
    try:
        check_topic_name(name)
    except InvalidTopicError as error:
        raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {error}") from error
    if name not in image.topics:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return describe_topic(image.topic_config(name), _sources(ctx))


def _broker(ctx: Context, name: str) -> list[ConfigEntry]:
    if not name:
        return describe_default_broker(ctx.services.config.sources.dynamic_default)
    _check_own(ctx, name, "or empty string, ")
    return describe_broker(_sources(ctx))


def _loggers(ctx: Context, name: str) -> Iterable[DescribeConfigsResourceResult]:
    if not name:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_own(ctx, name, "")
    for logger, level in levels().items():
        yield DescribeConfigsResourceResult(name=logger, value=level, config_source=_DYNAMIC_BROKER_LOGGER)


def _check_own(ctx: Context, name: str, or_else: str) -> None:
    own = ctx.services.config.broker_id
    try:
        wanted = int(name)
    except ValueError:
        message = f"Broker id must be an integer, but it is: {name}"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message) from None
    if wanted != own:
        message = f"Unexpected broker id, expected {own} {or_else}but received {name}"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)


def _sources(ctx: Context) -> BrokerSources:
    sources = ctx.services.config.sources
    return sources._replace(static=static_properties(sources.static))


def _result(request: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.text,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=name, value=text, source=source) for name, text, source in synonyms],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )


def _refused(resource: DescribeConfigsResource, code: ErrorCode, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


HANDLER = Handler(ApiKey.DESCRIBE_CONFIGS, handle, Operation.DESCRIBE_CONFIGS, Resource.TOPICS)
