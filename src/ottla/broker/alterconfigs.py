"""What AlterConfigs and IncrementalAlterConfigs share: a resource after another is judged and changed, each on its own.

The checks and their order are Kafka's. A topic that does not exist is found out only after what the request says about it was
put together, so that of two mistakes the same one is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.broker.api import Answer, Parked, tend
from ottla.broker.configadmin import RESOURCE_KINDS, ResourceKind
from ottla.broker.context import Context
from ottla.broker.errors import RefusedError
from ottla.metadata.configs import BROKER_CONFIGS, check_broker_change, check_topic_config
from ottla.metadata.errors import ConfigConflictError, InvalidConfigError, InvalidTopicError, UnknownConfigError
from ottla.metadata.names import check_topic_name
from ottla.metadata.znodes.configs import broker_entity, topic_entity
from ottla.registry import RegistryError
from ottla.wire import ErrorCode, Message

Settings = Mapping[str, str]
Change = Callable[[Settings], Settings]


class Wanted(NamedTuple):
    """One resource of a request."""

    kind: int
    name: str
    names: Sequence[str]
    nulls: Sequence[str]
    """Settings that were given without a value though they need one."""
    change: Change
    """From the settings that it has to those that are wanted."""
    log_levels: Callable[[], None] | None = None
    """Judges, and unless validate-only makes, what is asked of the loggers; None where loggers cannot be asked for."""


class Outcome(NamedTuple):
    code: int
    message: str | None


_DONE = Outcome(ErrorCode.NONE, None)


def alter(
    ctx: Context, wanted: Sequence[Wanted], respond: Callable[[list[Outcome]], Message], *, validate_only: bool
) -> Answer:
    parked = Parked()
    counts = Counter((each.kind, each.name) for each in wanted)

    async def tried(each: Wanted, *, validate_only: bool) -> Outcome:
        try:
            if counts[each.kind, each.name] > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await _alter(ctx, each, validate_only=validate_only)
        except RefusedError as error:
            return Outcome(error.code, error.message)
        except RegistryError as error:
            return Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        return _DONE

    async def work() -> None:
        # Brokers are all judged before anything is changed, as with Kafka: one may be judged by what another has.
        brokers = [each for each in wanted if each.kind == ResourceKind.BROKER]
        judged = {each.name: await tried(each, validate_only=True) for each in brokers}
        outcomes = []
        for each in wanted:
            outcome = judged[each.name] if each.kind == ResourceKind.BROKER else _DONE
            if outcome == _DONE:
                outcome = await tried(each, validate_only=validate_only)
            outcomes.append(outcome)
        parked.complete(respond(outcomes))

    tend(ctx.services.scope, work, parked, name="changing settings")
    return parked


async def _alter(ctx: Context, wanted: Wanted, *, validate_only: bool) -> None:
    if len(set(wanted.names)) < len(wanted.names):
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if wanted.nulls:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(wanted.nulls)}")
    match RESOURCE_KINDS.get(wanted.kind):
        case ResourceKind.TOPIC:
            await _alter_topic(ctx, wanted, validate_only=validate_only)
        case ResourceKind.BROKER:
            await _alter_broker(ctx, wanted, validate_only=validate_only)
        case ResourceKind.BROKER_LOGGER if wanted.log_levels is not None:
            if wanted.name:
                _check_own(ctx, wanted.name)
            else:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: ")
            wanted.log_levels()
        case ResourceKind.CLIENT_METRICS:
            message = "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"
            raise RefusedError(ErrorCode.INVALID_REQUEST, message)
        case _:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {wanted.kind}")


async def _alter_topic(ctx: Context, wanted: Wanted, *, validate_only: bool) -> None:
    if not wanted.name:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    where = f"ConfigResource(type=TOPIC, name='{wanted.name}')"

    def change(config: Settings) -> Settings:
        changed = wanted.change(config)
        if wanted.name not in ctx.services.cluster.image.topics:
            message = f"The topic '{wanted.name}' does not exist."
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        check_topic_config(changed, ctx.services.config.sources)
        return changed

    try:
        try:
            check_topic_name(wanted.name)
        except InvalidTopicError:
            change({})
        await ctx.services.configs.alter(topic_entity(wanted.name), change, validate_only=validate_only)
    except (UnknownConfigError, ConfigConflictError) as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from error
    except InvalidConfigError as error:
        message = f"Invalid config value for resource {where}: {error}"
        raise RefusedError(ErrorCode.INVALID_CONFIG, message) from error


async def _alter_broker(ctx: Context, wanted: Wanted, *, validate_only: bool) -> None:
    config = ctx.services.config
    if wanted.name:
        _check_own(ctx, wanted.name)

    def change(current: Settings) -> Settings:
        changed = wanted.change(current)
        check_broker_change(changed, config.sources, all_brokers=not wanted.name)
        if wanted.name:
            config.check_listeners(changed)
        if any(name in BROKER_CONFIGS and BROKER_CONFIGS[name].sensitive for name in changed):
            raise InvalidConfigError("Password encoder secret not configured")
        return changed

    entity = broker_entity(config.broker_id if wanted.name else None)
    try:
        await ctx.services.configs.alter(entity, change, validate_only=validate_only)
    except (UnknownConfigError, ConfigConflictError) as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from error
    except InvalidConfigError as error:
        raise RefusedError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _check_own(ctx: Context, name: str) -> None:
    own = ctx.services.config.broker_id
    try:
        wanted = int(name)
    except ValueError:
        message = f"Node id must be an integer, but it is: {name}"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message) from None
    if wanted != own:
        message = f"Unexpected broker id, expected {own}, but received {name}"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)


def given(pairs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    return {name: value for name, value in pairs if value is not None}
