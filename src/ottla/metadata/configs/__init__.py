"""Every setting of topics and brokers, declared once.

definition      what a setting is
topic, broker   the tables
effective       which value holds, and what DescribeConfigs says
changes         which changes are allowed
together        what may not be at the same time
effects         what changes nothing here, and why
"""

from __future__ import annotations

from ottla.metadata.configs.broker import BROKER_CONFIGS
from ottla.metadata.configs.changes import (
    Alteration,
    AlterOperation,
    check_broker_change,
    check_topic_config,
    usable,
    with_alterations,
)
from ottla.metadata.configs.definition import ConfigKey, ConfigSource, ConfigType, DynamicMode, double_text
from ottla.metadata.configs.effective import (
    BrokerSources,
    ConfigEntry,
    broker_value,
    describe_broker,
    describe_default_broker,
    describe_topic,
    static_properties,
    topic_value,
)
from ottla.metadata.configs.effects import no_effect
from ottla.metadata.configs.together import check_together, connection_overrides
from ottla.metadata.configs.topic import TOPIC_CONFIGS

__all__ = [
    "BROKER_CONFIGS",
    "TOPIC_CONFIGS",
    "AlterOperation",
    "Alteration",
    "BrokerSources",
    "ConfigEntry",
    "ConfigKey",
    "ConfigSource",
    "ConfigType",
    "DynamicMode",
    "broker_value",
    "check_broker_change",
    "check_together",
    "check_topic_config",
    "connection_overrides",
    "describe_broker",
    "describe_default_broker",
    "describe_topic",
    "double_text",
    "no_effect",
    "static_properties",
    "topic_value",
    "usable",
    "with_alterations",
]
