"""Which value holds, and what DescribeConfigs says about it.

A broker's setting comes from, the strongest first: what was changed for this broker, what was changed for all brokers,
its server.properties, the default. A topic's comes from the topic, else from the first of the broker's synonyms that has
a value anywhere: log.retention.ms set to null lets log.retention.minutes speak, and so on.

A listener may have a setting of its own, ``listener.name.NAME.KEY``; KEY alone is then its weaker synonym.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.metadata.configs.broker import BROKER_CONFIGS, CHANGED_ONLY
from ottla.metadata.configs.definition import ConfigKey, ConfigSource, ConfigType, DynamicMode, Synonym, Value
from ottla.metadata.configs.topic import TOPIC_CONFIGS

LISTENER_PREFIX: Final = "listener.name."
_FAMILIES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FAMILY: Final = {name: family for family in _FAMILIES for name in family}


class BrokerSources(NamedTuple):
    """What a broker was told, by whom."""

    static: Mapping[str, str] = {}
    dynamic_default: Mapping[str, str] = {}
    dynamic: Mapping[str, str] = {}


class ConfigValue(NamedTuple):
    """A value as text with where it comes from. Sensitive ones are None."""

    name: str
    text: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One line of DescribeConfigs. ``synonyms`` are all values that were given, the one that holds first."""

    name: str
    text: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: ConfigType
    doc: str
    synonyms: tuple[ConfigValue, ...]


def static_properties(given: Mapping[str, str]) -> dict[str, str]:
    """What server.properties says, with broker.id and node.id as the two names of one setting that they are."""
    properties = dict(given)
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name in given:
            properties.setdefault(other, given[name])
    return properties


def broker_value(name: str, sources: BrokerSources) -> Value:
    """The value of a broker's setting that holds."""
    declared = _declared(name)
    assert declared is not None, name
    for alias in (name, declared.name):
        for given in (sources.dynamic, sources.dynamic_default, sources.static):
            if alias in given:
                return declared.parse(given[alias])
    return declared.default


def topic_value(name: str, config: Mapping[str, str], sources: BrokerSources) -> Value:
    """The value of a topic's setting that holds on a broker."""
    declared = TOPIC_CONFIGS[name]
    if name in config:
        return declared.parse(config[name])
    for synonym in declared.broker:
        value = broker_value(synonym.name, sources)
        if value is not None:
            return _scaled(value, synonym)
    return declared.default


def describe_topic(config: Mapping[str, str], sources: BrokerSources) -> list[ConfigEntry]:
    """Every setting of a topic."""
    return [_topic_entry(declared, config, sources) for declared in TOPIC_CONFIGS.values()]


def describe_broker(sources: BrokerSources) -> list[ConfigEntry]:
    """Every setting of a broker, then those that only this one has: for a listener, unknown, or not meant for anybody."""
    given = {**sources.static, **sources.dynamic_default, **sources.dynamic}
    names = [name for name, declared in BROKER_CONFIGS.items() if not declared.internal]
    names += sorted(given.keys() - set(names))
    return [_broker_entry(name, sources) for name in names]


def describe_default_broker(dynamic_default: Mapping[str, str]) -> list[ConfigEntry]:
    """What was changed for all brokers, which is all that can be said without asking one."""
    entries = describe_broker(BrokerSources(dynamic_default=dynamic_default))
    return [
        entry._replace(synonyms=entry.synonyms[:1])
        for entry in entries
        if entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    ]


def base_name(name: str) -> str:
    """The setting that ``listener.name.NAME.KEY`` is a variant of, or the name itself."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2] or name


def is_dynamic(name: str) -> bool:
    """Whether a broker's setting may be changed while it runs."""
    declared = BROKER_CONFIGS.get(base_name(name))
    return declared is not None and declared.dynamic is not DynamicMode.READ_ONLY


def _topic_entry(declared: ConfigKey, config: Mapping[str, str], sources: BrokerSources) -> ConfigEntry:
    synonyms = _synonyms(declared.broker[0].name, sources) if declared.broker else ()
    if declared.name in config:
        text = declared.format(declared.parse(config[declared.name]))
        own = ConfigValue(declared.name, text, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        synonyms = (own, *synonyms)
    return ConfigEntry(
        declared.name,
        declared.format(topic_value(declared.name, config, sources)),
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        read_only=False,
        sensitive=False,
        type=declared.type,
        doc=declared.doc,
        synonyms=synonyms,
    )


def _broker_entry(name: str, sources: BrokerSources) -> ConfigEntry:
    declared = _declared(name)
    synonyms = _synonyms(name, sources)
    # Nobody knows what is in a setting that nobody knows: it may be a password.
    sensitive = declared is None or declared.sensitive
    return ConfigEntry(
        name,
        None if sensitive or declared is None else declared.format(broker_value(name, sources)),
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        read_only=base_name(name) != name or not is_dynamic(name),
        sensitive=sensitive,
        type=ConfigType.UNKNOWN if declared is None else declared.type,
        doc="" if declared is None else declared.doc,
        synonyms=synonyms,
    )


def _synonyms(name: str, sources: BrokerSources) -> tuple[ConfigValue, ...]:
    """Everything that was said about ``name``, from its own strongest value on, as Kafka lists it."""
    aliases = _FAMILY.get(name) or tuple(dict.fromkeys((name, base_name(name))))
    said = list(_said(aliases, sources))
    first = next((at for at, value in enumerate(said) if value.name == name), len(said))
    return tuple(said[first:])


def _said(aliases: tuple[str, ...], sources: BrokerSources) -> Iterator[ConfigValue]:
    by_strength = (
        (sources.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (sources.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (sources.static, ConfigSource.STATIC_BROKER_CONFIG),
        (_DEFAULTS, ConfigSource.DEFAULT_CONFIG),
    )
    for given, source in by_strength:
        for alias in aliases:
            if alias in given:
                declared = _declared(alias)
                hidden = declared is None or declared.sensitive
                yield ConfigValue(alias, None if hidden else given[alias], source)


def _declared(name: str) -> ConfigKey | None:
    base = base_name(name)
    return BROKER_CONFIGS.get(base) or CHANGED_ONLY.get(base)


def _scaled(value: Value, synonym: Synonym) -> Value:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if value < 0 and (synonym.factor != 1 or synonym.name == "log.retention.ms"):
        return -1  # less than nothing is no limit
    return value * synonym.factor


_DEFAULTS: Final = {
    name: text for name, declared in BROKER_CONFIGS.items() if (text := declared.format(declared.default)) is not None
}
