"""AlterClientQuotas: quotas of users, clients and addresses set and removed (KIP-546). Each entry is on its own."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from math import isnan

from ottla.broker.api import Answer, Handler, Operation, Parked, Resource, tend
from ottla.broker.context import Context
from ottla.broker.errors import RefusedError
from ottla.broker.quotas.entities import IP_KEYS, QUOTA_KEYS
from ottla.metadata.configs import ConfigType, double_text
from ottla.metadata.znodes.configs import ConfigClient, ConfigEntity, sanitize
from ottla.registry import RegistryError
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
    ResponseEntityData,
    ResponseEntryData,
)

USER, CLIENT, IP = "user", "client-id", "ip"
_EPSILON = 1e-6
_BITS = {ConfigType.INT: 31, ConfigType.LONG: 63}
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
"""What can be the name of a host; anything else is not asked for."""


def handle(ctx: Context, request: AlterClientQuotasRequest) -> Answer:
    parked = Parked()

    async def work() -> None:
        # Whoever is named twice is answered once, as with Kafka.
        done: dict[tuple[tuple[str, str | None], ...], ResponseEntryData] = {}
        for entry in request.entries:
            whose = tuple((part.entity_type, part.entity_name) for part in entry.entity)
            done[whose] = await _altered(ctx, entry, validate_only=request.validate_only)
        parked.complete(AlterClientQuotasResponse(entries=list(done.values())))

    tend(ctx.services.scope, work, parked, name="changing quotas")
    return parked


async def _altered(ctx: Context, entry: RequestEntryData, *, validate_only: bool) -> ResponseEntryData:
    response = ResponseEntryData(
        error_message=None,
        entity=[ResponseEntityData(entity_type=kind, entity_name=name) for kind, name in _names(entry.entity).items()],
    )
    try:
        entity = await _entity(ctx, entry.entity)
        keys = IP_KEYS if entity.kind == "ips" else QUOTA_KEYS

        def change(current: Mapping[str, str]) -> dict[str, str]:
            changed = dict(current)
            for op in entry.ops:
                if op.remove:
                    changed.pop(op.key, None)
                else:
                    changed[op.key] = _text(op, keys)
            return changed

        await ctx.services.configs.alter(entity, change, validate_only=validate_only)
    except RefusedError as error:
        response.error_code, response.error_message = error.code, error.message
    except RegistryError as error:
        response.error_code, response.error_message = ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
    return response


def _names(parts: list[RequestEntityData]) -> dict[str, str | None]:
    """The last of a kind is the one that is meant."""
    return {part.entity_type: part.entity_name for part in parts}


async def _entity(ctx: Context, parts: list[RequestEntityData]) -> ConfigEntity:
    for part in parts:
        if part.entity_type not in (USER, CLIENT, IP):
            message = f"Unhandled client quota entity type: {part.entity_type}"
            raise RefusedError(ErrorCode.INVALID_REQUEST, message)
        if part.entity_name == "":
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"Empty {part.entity_type} not supported")
    names = _names(parts)
    if not names:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    if IP in names:
        if len(names) > 1:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
            )
        address = names[IP]
        if address is not None and not await _is_address(ctx, address):
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{sanitize(address)} is not a valid IP or resolvable host.")
        return ConfigEntity("ips", address)
    if USER in names:
        return ConfigEntity("users", names[USER], ConfigClient(names[CLIENT]) if CLIENT in names else None)
    return ConfigEntity("clients", names[CLIENT])


async def _is_address(ctx: Context, text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        pass
    else:
        return True
    if not _HOST.fullmatch(text):
        return False
    try:
        await ctx.services.loop.getaddrinfo(text, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return True


def _text(op: OpData, keys: Mapping[str, ConfigType]) -> str:
    kind = keys.get(op.key)
    if kind is None:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {op.key}")
    if kind is ConfigType.DOUBLE:
        return double_text(op.value)
    if isnan(op.value):
        return "0"  # as Java makes it whole
    most = (1 << _BITS[kind]) - 1
    whole = max(-most - 1, min(most, int(op.value + _EPSILON))) if abs(op.value) < float("inf") else most
    if not abs(whole - op.value) <= _EPSILON:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"Configuration {op.key} must be a {kind.name} value")
    return str(whole)


HANDLER = Handler(ApiKey.ALTER_CLIENT_QUOTAS, handle, Operation.ALTER_CONFIGS, Resource.CLUSTER)
