"""DescribeUserScramCredentials: which users have a password, by mechanism (KIP-554). Its tool asks wherever it asks for quotas.

Nobody can be given one by this broker; what is told was written by Apache Kafka's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from ottla.broker.api import Handler, Operation, Resource
from ottla.broker.context import Context
from ottla.metadata.znodes.configs import ConfigEntity
from ottla.wire import ApiKey, ErrorCode
from ottla.wire.messages.k50_describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_UNEXPECTED: Final = "The server experienced an unexpected error when processing the request."
_PARTS: Final = {"salt", "stored_key", "server_key", "iterations"}


def handle(ctx: Context, request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    configs = ctx.services.cluster.image.configs
    if not request.users:
        found = {
            entity.name: config
            for entity, config in configs.items()
            if entity.kind == "users" and entity.name is not None and entity.client is None and _is_user(config)
        }
        results = [_result(user, found[user]) for user in sorted(found)]
    else:
        counts = Counter(user.name for user in request.users)
        results = [_named(configs, name, is_twice=count > 1) for name, count in counts.items()]
    return DescribeUserScramCredentialsResponse(results=results)


def _named(
    configs: Mapping[ConfigEntity, Mapping[str, str]], name: str, *, is_twice: bool
) -> DescribeUserScramCredentialsResult:
    if not name:
        return _refused(name, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if is_twice:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return _refused(name, ErrorCode.DUPLICATE_RESOURCE, message)
    config = configs.get(ConfigEntity("users", name), {})
    if not _is_user(config):
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return _refused(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    return _result(name, config)


def _is_user(config: Mapping[str, str]) -> bool:
    return not _MECHANISMS.keys().isdisjoint(config)


def _iterations(credential: str) -> int:
    """Raises ValueError if that is no credential."""
    parts = dict(part.split("=", 1) for part in credential.split(","))
    if parts.keys() != _PARTS:
        raise ValueError("a credential has four parts")
    return int(parts["iterations"])


def _result(user: str, config: Mapping[str, str]) -> DescribeUserScramCredentialsResult:
    """Of each mechanism how often it hashes, and nothing that is secret."""
    result = DescribeUserScramCredentialsResult(user=user)
    try:
        result.credential_infos = [
            CredentialInfo(mechanism=number, iterations=_iterations(config[name]))
            for name, number in _MECHANISMS.items()
            if name in config
        ]
    except ValueError:
        return _refused(user, ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED)
    return result


def _refused(user: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)


HANDLER = Handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, handle, Operation.DESCRIBE, Resource.CLUSTER)
