"""Whether settings may be changed, and what an incremental change makes of a value."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from ottla.metadata.configs.broker import BROKER_CONFIGS
from ottla.metadata.configs.definition import ConfigKey, ConfigType, DynamicMode
from ottla.metadata.configs.effective import BrokerSources, base_name, is_dynamic, topic_value
from ottla.metadata.configs.topic import TOPIC_CONFIGS
from ottla.metadata.errors import InvalidConfigError


class AlterOperation(IntEnum):
    """Numbered as IncrementalAlterConfigs numbers them."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def check_topic_config(config: Mapping[str, str], sources: BrokerSources | None = None) -> None:
    """Raise the reason why a topic may not have these settings."""
    for name, text in config.items():
        if name not in TOPIC_CONFIGS:
            raise InvalidConfigError(f"Unknown topic config name: {name}")
        TOPIC_CONFIGS[name].parse(text)
    low, high = (
        topic_value(name, config, sources or BrokerSources())
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise InvalidConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


def check_broker_change(config: Mapping[str, str], *, all_brokers: bool) -> None:
    """Raise the reason why these settings of one broker, or of all, may not be changed while running.

    A setting that no broker knows is let through, as Kafka does: a plug-in may know it.
    """
    known = {name: BROKER_CONFIGS[base_name(name)] for name in config if base_name(name) in BROKER_CONFIGS}
    if fixed := sorted(name for name in known if not is_dynamic(name)):
        raise InvalidConfigError(f"Cannot update these configs dynamically: {', '.join(fixed)}")
    own = sorted(name for name, key in known.items() if key.dynamic is DynamicMode.PER_BROKER or name != key.name)
    if all_brokers and own:
        raise InvalidConfigError(
            f"Cannot update these configs at default cluster level, broker id must be specified: {', '.join(own)}"
        )
    for name, key in known.items():
        key.parse(config[name])


def altered(key: ConfigKey, operation: AlterOperation, *, current: str | None, given: str | None) -> str | None:
    """What an incremental change leaves of ``current``; None for no value of its own any more."""
    if operation is AlterOperation.DELETE:
        return None
    if given is None:
        raise InvalidConfigError(f"Null value not supported for : {key.name}")
    if operation is AlterOperation.SET:
        return given
    if key.type is not ConfigType.LIST:
        raise InvalidConfigError(f"Config value append is not allowed for config key: {key.name}")
    before = [item for item in (current or key.format(key.default) or "").split(",") if item]
    items = given.split(",")
    if operation is AlterOperation.APPEND:
        return ",".join([*before, *(item for item in items if item not in before)])
    return ",".join(item for item in before if item not in items)
