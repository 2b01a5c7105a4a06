"""Every setting of topics and brokers, declared once.

definition      what a setting is
topic, broker   the tables
effective       which value holds, and what DescribeConfigs says
changes         which changes are allowed
"""

from __future__ import annotations

from ottla.metadata.configs.broker import BROKER_CONFIGS
from ottla.metadata.configs.changes import AlterOperation, altered, check_broker_change, check_topic_config
from ottla.metadata.configs.definition import ConfigKey, ConfigSource, ConfigType, DynamicMode
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
from ottla.metadata.configs.topic import TOPIC_CONFIGS

__all__ = [
    "BROKER_CONFIGS",
    "TOPIC_CONFIGS",
    "AlterOperation",
    "BrokerSources",
    "ConfigEntry",
    "ConfigKey",
    "ConfigSource",
    "ConfigType",
    "DynamicMode",
    "altered",
    "broker_value",
    "check_broker_change",
    "check_topic_config",
    "describe_broker",
    "describe_default_broker",
    "describe_topic",
    "static_properties",
    "topic_value",
]
