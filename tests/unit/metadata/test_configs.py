from __future__ import annotations

import re

import pytest

from ottla.metadata import InvalidConfigError
from ottla.metadata.configs import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    Alteration,
    AlterOperation,
    BrokerSources,
    ConfigKey,
    ConfigSource,
    broker_value,
    check_broker_change,
    check_topic_config,
    describe_broker,
    describe_default_broker,
    describe_topic,
    double_text,
    static_properties,
    topic_value,
    usable,
    with_alterations,
)
from tests.unit.metadata.golden import config_table

BROKER = {row["name"]: row for row in config_table("broker")}
TOPIC = {row["name"]: row for row in config_table("topic")}


def _same_bounds(key: ConfigKey, valid: str) -> bool:
    if match := re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\]( or -1)?", valid):
        high = None if match[2] is None else float(match[2])
        return (key.at_least, key.at_most, key.or_else) == (float(match[1]), high, -1 if match[3] else None)
    if match := re.fullmatch(r"(?:\(case insensitive\) )?\[(\w.*)\]", valid):
        return ", ".join(key.choices) == match[1]
    return (key.at_least, key.at_most, key.choices) == (None, None, ())


@pytest.mark.parametrize(("table", "facts"), [(TOPIC_CONFIGS, TOPIC), (BROKER_CONFIGS, BROKER)])
def test_every_setting_of_kafka_is_there_with_its_type_default_and_bounds(
    table: dict[str, ConfigKey], facts: dict[str, dict[str, str]]
) -> None:
    assert list(table) == list(facts)
    for name, key in table.items():
        fact = facts[name]
        assert key.type.name == fact["type"]
        assert str(key.format(key.default)) == fact["default"].removeprefix("class ").replace("null", "None"), name
        assert "partitionId" in fact["valid"] or _same_bounds(key, fact["valid"] or ""), name
        assert key.doc.endswith(".")
        assert len(key.doc) < 130
        if "dynamic" in fact:
            assert (key.dynamic.value, key.internal) == (fact["dynamic"], fact["internal"] == "true")
        if key.broker:
            assert key.broker[0].name == fact["broker_synonym"]
            assert all(synonym.name in BROKER_CONFIGS for synonym in key.broker)


@pytest.mark.parametrize("table", [TOPIC_CONFIGS, BROKER_CONFIGS])
def test_every_default_is_a_value_that_may_be_given(table: dict[str, ConfigKey]) -> None:
    for key in table.values():
        text = key.format(key.default)
        if text is not None and key.at_least is not None:
            assert key.parse(text) == key.default


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("segment.bytes", "13", "Invalid value 13 for configuration segment.bytes: Value must be at least 14"),
        ("segment.bytes", "2147483648", "Not a number of type INT"),
        ("segment.bytes", "1_000", "Not a number of type INT"),
        ("retention.ms", "soon", "Not a number of type LONG"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "half", "Not a number of type DOUBLE"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("compression.type", "brotli", "String must be one of: uncompressed, zstd"),
        ("segment.bytes", " +7 ", "Invalid value 7 for configuration segment.bytes: "),
        ("min.cleanable.dirty.ratio", "-5", "Invalid value -5.0 for configuration"),
        ("min.cleanable.dirty.ratio", "1e20", "Invalid value 1.0E20 for configuration"),
        ("min.cleanable.dirty.ratio", "1.5f", "Invalid value 1.5 for configuration"),
        ("min.cleanable.dirty.ratio", "inf", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"),
        ("compression.type", " brotli ", "Invalid value brotli for configuration compression.type: String must be"),
        (
            "cleanup.policy",
            "delete,shred",
            "Invalid value shred for configuration cleanup.policy: String must be one of: comp",
        ),
        ("cleanup.policy", "delete,", "Invalid value  for configuration cleanup.policy: "),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("message.format.version", "9.9", "not a valid version"),
        ("leader.replication.throttled.replicas", "1:2,x", "must be the literal"),
        ("leader.replication.throttled.replicas", "*,1:2", "Invalid value [*, 1:2] for configuration"),
        ("remote.log.copy.disable", "true", "`remote.log.copy.disable` under Zookeeper's mode."),
        ("remote.log.delete.on.disable", "true", "It is invalid to set `remote.log.delete.on.disable` or `remote"),
        ("remote.storage.enable", "true", "Tiered Storage functionality is disabled in the broker."),
    ],
)
def test_impossible_values_are_refused_in_kafkas_words(name: str, text: str, complaint: str) -> None:
    with pytest.raises(InvalidConfigError, match=re.escape(complaint)):
        check_topic_config({name: text})


def test_values_that_are_possible() -> None:
    check_topic_config(
        {
            "cleanup.policy": "compact, delete",
            "compression.gzip.level": "-1",
            "message.format.version": "3.0",
            "follower.replication.throttled.replicas": "*",
            "leader.replication.throttled.replicas": "0:1,1:2,",
            "min.cleanable.dirty.ratio": "NaN",
            "preallocate": "TRUE",
            "remote.log.copy.disable": "false",
        }
    )
    with pytest.raises(InvalidConfigError, match="Unknown topic config name: colour"):
        check_topic_config({"colour": "red"})
    with pytest.raises(InvalidConfigError, match=r"min\.compaction\.lag\.ms \(5\) > max\.compaction\.lag\.ms \(4\)"):
        check_topic_config({"max.compaction.lag.ms": "4"}, BrokerSources({"log.cleaner.min.compaction.lag.ms": "5"}))


def test_of_several_reasons_against_the_settings_of_a_topic_kafkas_is_told() -> None:
    lags = {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}
    remote = {"remote.log.copy.disable": "true", "remote.storage.enable": "true"}
    with pytest.raises(InvalidConfigError, match="conflict topic config setting"):
        check_topic_config(lags | remote)
    with pytest.raises(InvalidConfigError, match="under Zookeeper's mode"):
        check_topic_config(remote)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.5, "0.5"),
        (1e-3, "0.001"),
        (-1e-4, "-1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.125, "1.23456789125E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "5.0E-324"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_written_as_java_writes_them(number: float, text: str) -> None:
    assert double_text(number) == text


def test_a_topic_takes_what_its_broker_has() -> None:
    assert topic_value("retention.ms", {}, BrokerSources()) == 168 * 3_600_000
    hours = BrokerSources({"log.retention.hours": "2"})
    assert topic_value("retention.ms", {}, hours) == 7_200_000
    minutes = BrokerSources({"log.retention.hours": "2", "log.retention.minutes": "-1"})
    assert topic_value("retention.ms", {}, minutes) == -1
    dynamic = BrokerSources(minutes.static, {"log.retention.ms": "77"})
    assert topic_value("retention.ms", {}, dynamic) == 77
    assert topic_value("retention.ms", {"retention.ms": "5"}, dynamic) == 5
    assert topic_value("flush.ms", {}, BrokerSources({"log.flush.scheduler.interval.ms": "9"})) == 9
    assert topic_value("remote.storage.enable", {}, BrokerSources()) is False


def test_synonyms_come_in_the_order_of_their_strength() -> None:
    sources = BrokerSources(
        {"log.segment.bytes": "1000", "log.retention.hours": "2"},
        {"log.segment.bytes": "2000"},
        {"log.segment.bytes": "3000"},
    )
    entries = {entry.name: entry for entry in describe_topic({"segment.bytes": "4000"}, sources)}
    entry = entries["segment.bytes"]
    assert entry.text == "4000"
    assert [(value.name, value.text, value.source.name) for value in entry.synonyms] == [
        ("segment.bytes", "4000", "DYNAMIC_TOPIC_CONFIG"),
        ("log.segment.bytes", "3000", "DYNAMIC_BROKER_CONFIG"),
        ("log.segment.bytes", "2000", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("log.segment.bytes", "1000", "STATIC_BROKER_CONFIG"),
        ("log.segment.bytes", "1073741824", "DEFAULT_CONFIG"),
    ]
    # Kafka lists nothing before the first synonym itself has a value, and then calls the source the default.
    assert (entries["retention.ms"].text, entries["retention.ms"].synonyms) == ("7200000", ())
    assert entries["retention.ms"].source is ConfigSource.DEFAULT_CONFIG


def test_what_a_broker_says_of_itself() -> None:
    static = {"log.dirs": "/d", "ssl.key.password": "x", "my.plugin": "y", "listener.name.in.ssl.keystore.type": "PEM"}
    entries = {entry.name: entry for entry in describe_broker(BrokerSources(static, {"num.io.threads": "4"}))}
    assert entries["log.dirs"].read_only
    assert entries["num.io.threads"][1:4] == ("4", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, False)
    secret = entries["ssl.key.password"]
    assert (secret.text, secret.sensitive, secret.synonyms[0].text) == (None, True, None)
    assert entries["my.plugin"].sensitive
    listener = entries["listener.name.in.ssl.keystore.type"]
    assert listener.text == "PEM"
    assert [value.name for value in listener.synonyms] == ["listener.name.in.ssl.keystore.type", "ssl.keystore.type"]
    assert "unstable.api.versions.enable" not in entries
    assert [entry.name for entry in describe_default_broker({"num.io.threads": "4"})] == ["num.io.threads"]
    assert broker_value("listener.name.in.ssl.keystore.type", BrokerSources(static)) == "PEM"


def test_a_setting_that_is_meant_for_nobody_is_told_of_where_somebody_gave_it() -> None:
    name = "log.initial.task.delay.ms"
    assert name not in {entry.name for entry in describe_broker(BrokerSources())}
    (entry,) = [entry for entry in describe_broker(BrokerSources({name: "5"})) if entry.name == name]
    assert (entry.text, entry.source, entry.read_only) == ("5", ConfigSource.STATIC_BROKER_CONFIG, True)
    assert [value.text for value in entry.synonyms] == ["5", "30000"]


NOW = BrokerSources({"log.cleaner.threads": "2", "listeners": "IN://h:1,OUT://h:2"})
NOBODY_MORE = r"ConfigException: Invalid %s 0 for configuration Invalid dynamic configuration"


def test_which_settings_of_a_broker_may_change() -> None:
    good = {
        "num.io.threads": "4",
        "listener.name.in.ssl.keystore.type": "PEM",
        "follower.replication.throttled.rate": "1",
    }
    check_broker_change(good, NOW, all_brokers=False)
    check_broker_change({"nobody.knows": "x", "listener.name.in.max.connections": "5"}, NOW, all_brokers=True)


@pytest.mark.parametrize(
    ("config", "all_brokers", "reason"),
    [
        ({"log.dirs": "/d", "broker.id": "4"}, False, r"update these configs dynamically: Set\(log.dirs, broker.id\)"),
        (
            {"ssl.keystore.type": "PEM"},
            False,
            r"only per-listener using the listener prefix: HashSet\(ssl.keystore.type\)",
        ),
        ({"listeners": "A://h:1"}, True, r"default cluster level, broker id must be specified: Set\(listeners\)"),
        ({"listener.name.in.ssl.keystore.type": "PEM"}, True, "default cluster level"),
        ({"num.io.threads": "0"}, True, "Value must be at least 1"),
        ({"leader.replication.throttled.rate": "-1"}, False, "Value must be at least 0"),
        ({"num.io.threads": "17"}, True, "should not be greater than double the current value 8 for configuration Inv"),
        ({"background.threads": "4"}, True, "should be at least half the current value 10"),
        ({"log.cleaner.threads": "5"}, True, "cannot be increased to more than double the current value 2"),
        ({"log.cleaner.threads": "0"}, True, "should be at least 1"),
        ({"log.roll.ms": "0"}, True, "requirement failed: log.roll.ms must be greater than or equal to 1"),
        ({"log.retention.ms": "0"}, True, "must be unlimited"),
        ({"log.cleaner.dedupe.buffer.size": "2097152"}, True, "at least 1MB per cleaner thread"),
        ({"max.connections.per.ip": "0"}, True, "can be set to zero only if"),
        ({"max.connections.per.ip.overrides": "one:two"}, True, '^For input string: "two"$'),
        ({"max.connections.per.ip.overrides": "a:99999999999"}, True, '^For input string: "99999999999"$'),
        ({"max.connections.per.ip.overrides": "a:1,one"}, True, "overrides': begin 0, end -1, length 3$"),
        ({"max.connections.per.ip.overrides": "a:1,,b:2"}, True, "overrides': begin 0, end -1, length 0$"),
        ({"max.connections.per.ip.overrides": "@:1,a:b"}, True, '^For input string: "b"$'),
        ({"max.connections.per.ip.overrides": "a:-1,@:1"}, True, "contains invalid addresses : @$"),
        ({"max.connections": "0"}, True, NOBODY_MORE % "max.connections"),
        ({"max.connections": "0"}, False, NOBODY_MORE % "max.connections"),
        ({"max.connection.creation.rate": "0"}, True, NOBODY_MORE % "max.connection.creation.rate"),
        ({"listener.name.in.max.connections": "0"}, True, NOBODY_MORE % "max.connections"),
        (
            {"max.connection.creation.rate": "5", "listener.name.out.max.connection.creation.rate": "0"},
            False,
            NOBODY_MORE % "max.connection.creation.rate",
        ),
    ],
)
def test_what_may_not_be_changed(config: dict[str, str], *, all_brokers: bool, reason: str) -> None:
    with pytest.raises(InvalidConfigError, match=reason):
        check_broker_change(config, NOW, all_brokers=all_brokers)


def test_no_connections_are_allowed_where_every_listener_has_its_own_number_or_has_none() -> None:
    everywhere = {"listener.name.in.max.connections": "5", "listener.name.out.max.connections": "6"}
    check_broker_change({"max.connections": "0", **everywhere}, NOW, all_brokers=True)
    check_broker_change({"listener.name.none.max.connections": "0"}, NOW, all_brokers=True)
    check_broker_change({"max.connections.per.ip.overrides": " a : 1 ,b:-1,c:+3,"}, NOW, all_brokers=True)
    # What is in the file already is not this change's.
    check_broker_change({"log.segment.bytes": "1000"}, BrokerSources({"max.connections": "0"}), all_brokers=True)


def test_a_broker_runs_without_settings_that_it_cannot_use() -> None:
    assert usable({"num.io.threads": "100", "log.dirs": "/d", "log.roll.ms": "x"}, all_brokers=True) == {
        "num.io.threads": "100"
    }


def test_incremental_changes() -> None:
    def changed(name: str, operation: AlterOperation, value: str | None, current: dict[str, str]) -> dict[str, str]:
        return with_alterations(current, [Alteration(name, operation, value)], TOPIC_CONFIGS)

    policy = "cleanup.policy"
    assert changed(policy, AlterOperation.APPEND, "compact", {}) == {policy: "delete,compact"}
    assert changed(policy, AlterOperation.APPEND, "compact", {policy: "compact"}) == {policy: "compact"}
    assert changed(policy, AlterOperation.SUBTRACT, "delete", {policy: "compact,delete"}) == {policy: "compact"}
    assert changed("segment.bytes", AlterOperation.SET, "2", {"segment.bytes": "1"}) == {"segment.bytes": "2"}
    assert changed("segment.bytes", AlterOperation.DELETE, None, {"segment.bytes": "1"}) == {}
    with pytest.raises(InvalidConfigError, match="append is not allowed for config key: "):
        changed("segment.bytes", AlterOperation.APPEND, "2", {})
    with pytest.raises(InvalidConfigError, match="Unknown config name: colour"):
        changed("colour", AlterOperation.SUBTRACT, "2", {})


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(InvalidConfigError, match="hidden"):
        raise BROKER_CONFIGS["ssl.key.password"]._invalid("secret", "no")


def test_two_names_of_one_number() -> None:
    assert static_properties({"broker.id": "3"}) == {"broker.id": "3", "node.id": "3"}
    assert static_properties({"node.id": "3"}) == {"broker.id": "3", "node.id": "3"}
    assert static_properties({}) == {}
