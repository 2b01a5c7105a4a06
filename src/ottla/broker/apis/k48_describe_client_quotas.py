"""DescribeClientQuotas: the quotas of users, clients and addresses that match a filter (KIP-546).

A filter has at most one part for each kind of name: this name, the default, or any. ``strict`` leaves out whoever has a kind of
name that the filter does not mention.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.broker.errors import RefusedError
from ottla.broker.quotas.entities import IP_KEYS, QUOTA_KEYS
from ottla.metadata.znodes.configs import ConfigEntity
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

USER, CLIENT, IP = "user", "client-id", "ip"
_DUPLICATE = {USER: "user", CLIENT: "client", IP: "ip"}
Names = dict[str, str | None]
"""The name of an entity by kind; None for the default."""


class Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


def handle(ctx: Context, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    try:
        filters = _filters(request.components)
    except RefusedError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = [
        _entry(names, values)
        for names, values in _described(ctx)
        if values and _fits(names, filters, strict=request.strict)
    ]
    return DescribeClientQuotasResponse(entries=entries)


def _filters(components: list[ComponentData]) -> dict[str, ComponentData]:
    if not all(map(_has_sense, components)):
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka stumbles over these, and says no more
    found: dict[str, ComponentData] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if kind not in _DUPLICATE:
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
        if kind in found:
            message = f"Duplicate {_DUPLICATE[kind]} filter component entity type"
            raise RefusedError(ErrorCode.INVALID_REQUEST, message)
        found[kind] = component
    if IP in found and len(found) > 1:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or clientId "
            "filter component.",
        )
    return found


def _has_sense(component: ComponentData) -> bool:
    return component.match_type in set(Match) and not (component.match_type == Match.EXACT and component.match is None)


def _described(ctx: Context) -> Iterator[tuple[Names, dict[str, float]]]:
    for entity, config in ctx.services.cluster.image.configs.items():
        keys = IP_KEYS if entity.kind == "ips" else QUOTA_KEYS
        if (names := names_of(entity)) is not None:
            yield names, {key: float(value) for key, value in config.items() if key in keys}


def names_of(entity: ConfigEntity) -> Names | None:
    match entity.kind:
        case "users" if entity.client is not None:
            return {USER: entity.name, CLIENT: entity.client.name}
        case "users":
            return {USER: entity.name}
        case "clients":
            return {CLIENT: entity.name}
        case "ips":
            return {IP: entity.name}
        case _:
            return None


def _fits(names: Names, filters: dict[str, ComponentData], *, strict: bool) -> bool:
    if strict and names.keys() - filters.keys():
        return False
    if IP in names and (USER in filters or CLIENT in filters):
        return False
    for kind, component in filters.items():
        if kind not in names:
            return False
        match component.match_type:
            case Match.EXACT if names[kind] != component.match or names[kind] is None:
                return False
            case Match.DEFAULT if names[kind] is not None:
                return False
    return True


def _entry(names: Names, values: dict[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        values=[ValueData(key=key, value=value) for key, value in values.items()],
    )


HANDLER = Handler(ApiKey.DESCRIBE_CLIENT_QUOTAS, handle, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)
