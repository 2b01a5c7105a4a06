"""Whether settings may be changed, and what an incremental change makes of them.

The checks, their order and their words are Kafka's: the first that fails names the error, and people look the words up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.metadata.configs.broker import BROKER_CONFIGS, CHANGED_ONLY, LISTENER_SECURITY
from ottla.metadata.configs.definition import ConfigKey, ConfigType, DynamicMode
from ottla.metadata.configs.effective import (
    LISTENER_PREFIX,
    BrokerSources,
    base_name,
    broker_value,
    is_dynamic,
    topic_value,
)
from ottla.metadata.configs.together import check_together
from ottla.metadata.configs.topic import TOPIC_CONFIGS
from ottla.metadata.errors import ConfigConflictError, InvalidConfigError, UnknownConfigError

_CLUSTER_LISTENER: Final = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""What may be set for one listener of all brokers at once."""
_CONNECTIONS: Final = ("max.connections", "max.connection.creation.rate")
"""Of every listener. With none of them nobody would come in any more to change that."""
_REMOTE_ONLY: Final = ("remote.log.delete.on.disable", "remote.log.copy.disable")
_POOLS: Final = ("num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads")


class AlterOperation(IntEnum):
    """Numbered as IncrementalAlterConfigs numbers them."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One setting to be changed."""

    name: str
    operation: AlterOperation
    value: str | None


def check_topic_config(config: Mapping[str, str], sources: BrokerSources | None = None) -> None:
    """Raise the reason why a topic may not have these settings."""
    for name in config:
        if name not in TOPIC_CONFIGS:
            raise UnknownConfigError(f"Unknown topic config name: {name}")
    for name, text in config.items():
        TOPIC_CONFIGS[name].parse(text)
    on = sources or BrokerSources()
    low, high = (topic_value(name, config, on) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise ConfigConflictError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    if any(topic_value(name, config, on) for name in _REMOTE_ONLY):
        raise ConfigConflictError(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
        )
    if topic_value("remote.storage.enable", config, on):
        raise InvalidConfigError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
        )


def check_broker_change(config: Mapping[str, str], now: BrokerSources, *, all_brokers: bool) -> None:
    """Raise the reason why these may not become the settings of one broker, or of all, while they run.

    A setting that no broker knows is let through, as Kafka does: a plug-in may know it.
    """
    _check_each(config, all_brokers=all_brokers)
    after = now._replace(dynamic_default=config) if all_brokers else now._replace(dynamic=config)
    check_together(after)
    _check_step(now, after)


def usable(config: Mapping[str, str], *, all_brokers: bool) -> dict[str, str]:
    """What of the settings that somebody wrote can be used. A broker runs without the rest, as Kafka does."""
    kept = {}
    for name, text in config.items():
        try:
            _check_each({name: text}, all_brokers=all_brokers)
        except InvalidConfigError:
            continue
        kept[name] = text
    return kept


def _check_each(config: Mapping[str, str], *, all_brokers: bool) -> None:
    _refuse(
        "Cannot update these configs dynamically",
        (name for name in config if name in BROKER_CONFIGS and not is_dynamic(name)),
    )
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (name for name in config if name in LISTENER_SECURITY),
        "HashSet",
    )
    for name, text in config.items():
        declared = dynamic_key(base_name(name))
        if declared is not None:
            declared.parse(text)
    if all_brokers:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (name for name in config if _is_of_one_broker(name)),
        )


def with_alterations(
    config: Mapping[str, str], alterations: Iterable[Alteration], keys: Mapping[str, ConfigKey]
) -> dict[str, str]:
    """The settings that incremental changes leave of ``config``."""
    changed = dict(config)
    for name, operation, given in alterations:
        if operation is AlterOperation.DELETE:
            changed.pop(name, None)
            continue
        assert given is not None, "a value is needed for everything but a removal"
        changed[name] = given if operation is AlterOperation.SET else _listed(changed, name, operation, given, keys)
    return changed


def dynamic_key(name: str) -> ConfigKey | None:
    """The declaration of what may be changed of a broker that runs."""
    found = BROKER_CONFIGS.get(name)
    return found if found is not None and found.dynamic is not DynamicMode.READ_ONLY else CHANGED_ONLY.get(name)


def _listed(
    config: Mapping[str, str], name: str, operation: AlterOperation, given: str, keys: Mapping[str, ConfigKey]
) -> str:
    declared = keys.get(name)
    if declared is None:
        raise UnknownConfigError(f"Unknown config name: {name}")
    if declared.type is not ConfigType.LIST:
        raise ConfigConflictError(f"Config value {operation.name.lower()} is not allowed for config key: {name}")
    current = config.get(name, declared.format(declared.default) or "")
    before = current.split(",") if current else []
    items = given.split(",")
    if operation is AlterOperation.APPEND:
        return ",".join([*before, *(item for item in items if item not in before)])
    for item in items:
        if item in before:
            before.remove(item)
    return ",".join(before)


def _refuse(why: str, names: Iterable[str], collection: str = "Set") -> None:
    if found := ", ".join(names):
        raise InvalidConfigError(f"{why}: {collection}({found})")


def _is_of_one_broker(name: str) -> bool:
    base = base_name(name)
    if base != name:
        return base not in _CLUSTER_LISTENER
    declared = BROKER_CONFIGS.get(name)
    return declared is not None and declared.dynamic is DynamicMode.PER_BROKER


def _check_step(now: BrokerSources, after: BrokerSources) -> None:
    """A number of threads at most doubles and at most halves in one step.

    Here no thread depends on it. But the change goes to all brokers, and some of them may be Apache Kafka's.
    """
    for name in _POOLS:
        _check_pool(name, "Dynamic thread count update validation failed for", now, after)
    for prefix in _listener_prefixes(now):
        _check_connections([f"{prefix}{name}" for name in _CONNECTIONS], now, after)
    old, new = (broker_value("log.cleaner.threads", sources) for sources in (now, after))
    assert isinstance(old, int)
    assert isinstance(new, int)
    if new == old or not broker_value("log.cleaner.enable", now):
        return
    if new < 1:
        raise _wrapped("Log cleaner threads should be at least 1")
    if new < old // 2:
        raise _wrapped(f"Log cleaner threads cannot be reduced to less than half the current value {old}")
    if new > old * 2:
        raise _wrapped(f"Log cleaner threads cannot be increased to more than double the current value {old}")


def _check_pool(name: str, failed: str, now: BrokerSources, after: BrokerSources) -> None:
    old, new = (broker_value(name, sources) for sources in (now, after))
    assert isinstance(old, int)
    assert isinstance(new, int)
    if new == old:
        return
    if new <= 0:
        raise _wrapped(f"{failed} {name}={new}, value should be at least 1")
    if new < old // 2:
        raise _wrapped(f"{failed} {name}={new}, value should be at least half the current value {old}")
    if new > old * 2:
        raise _wrapped(f"{failed} {name}={new}, value should not be greater than double the current value {old}")


def _listener_prefixes(sources: BrokerSources) -> list[str]:
    listeners = str(broker_value("listeners", sources)).split(",")
    return [f"{LISTENER_PREFIX}{listener.partition('://')[0].strip().lower()}." for listener in listeners]


def _check_connections(names: Sequence[str], now: BrokerSources, after: BrokerSources) -> None:
    new = [broker_value(name, after) for name in names]
    if new != [broker_value(name, now) for name in names]:
        for name, value in zip(_CONNECTIONS, new, strict=True):
            if value == 0:
                raise _wrapped(f"Invalid {name} {value}")


def _wrapped(why: str) -> InvalidConfigError:
    """Kafka takes the reason for the value of a setting of that name, and tells it so."""
    cause = f"org.apache.kafka.common.config.ConfigException: {why}"
    return InvalidConfigError(f"Invalid value {cause} for configuration Invalid dynamic configuration")
