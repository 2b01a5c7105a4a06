"""server.properties: what holds for a broker and its topics, and what is refused at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import ConfigError
from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import ListenerConfig
from ottla.peers import Setup
from ottla.records import TimestampType

NEEDED = {"broker.id": "3", "zookeeper.connect": "127.0.0.1:2181/chroot"}


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({**NEEDED, **{name.replace("_", "."): value for name, value in settings.items()}})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"broker.id": "3"}, "zookeeper.connect must be given"),
        ({"zookeeper.connect": "h", "broker.id.generation.enable": "false"}, "broker.id must be given"),
        ({**NEEDED, "broker.id": "-2"}, "-1 or greater"),
        ({**NEEDED, "broker.id": "1001"}, "above reserved.broker.max.id"),
        ({**NEEDED, "broker.id": "three"}, "Not a number of type INT"),
        ({**NEEDED, "num.partitions": "0"}, "at least 1"),
        ({**NEEDED, "offsets.topic.compression.codec": "9"}, "codec: 9 is no codec; there are 0 to 4"),
        ({**NEEDED, "listeners": "127.0.0.1:9092"}, "Unable to parse 127.0.0.1:9092 to a broker endpoint"),
        ({**NEEDED, "listeners": ""}, "There must be at least one broker advertised listener"),
        ({**NEEDED, "listeners": "PLAINTEXT://0.0.0.0:9092"}, "can be reached from other machines"),
        ({**NEEDED, "listeners": "PLAINTEXT://127.0.0.1:99999"}, "^listeners: PLAINTEXT: port out of range: 99999"),
        (
            {**NEEDED, "advertised.listeners": "PLAINTEXT://h:99999"},
            "^advertised.listeners: PLAINTEXT: port out of range",
        ),
        ({**NEEDED, "listeners": "SSL://127.0.0.1:9093"}, "does not have yet"),
    ],
)
def test_what_cannot_be_meant_is_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        BrokerConfig(settings)


def test_a_listener_without_an_address_means_loopback() -> None:
    (listener,) = config(listeners="PLAINTEXT://:9092").listeners
    assert listener == ListenerConfig("PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092, "PLAINTEXT")


def test_other_addresses_need_a_word() -> None:
    settings = {**NEEDED, "listeners": "PLAINTEXT://0.0.0.0:9092", "advertised.listeners": "PLAINTEXT://broker:19092"}
    (listener,) = BrokerConfig(settings, insecure=True).listeners
    assert (listener.host, listener.advertised_host, listener.advertised_port) == ("0.0.0.0", "broker", 19092)


def test_a_free_port_is_told_once_it_is_known() -> None:
    (listener,) = config(listeners="PLAINTEXT://127.0.0.1:0").listeners
    assert listener.endpoint(4711).port == 4711


def test_listeners_have_names_of_their_own() -> None:
    made = config(
        listeners="IN://127.0.0.1:1,OUT://127.0.0.1:2",
        listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
        inter_broker_listener_name="OUT",
    )
    assert [listener.name for listener in made.listeners] == ["IN", "OUT"]
    assert made.inter_broker_listener == "OUT"


def test_a_topic_s_settings_hold_before_the_broker_s() -> None:
    made = config(log_retention_hours="2", log_segment_bytes="1000000", log_cleanup_policy="compact")
    plain = made.log_config({})
    assert (plain.retention_ms, plain.segment_bytes, plain.cleanup_policy) == (
        7_200_000,
        1_000_000,
        frozenset({"compact"}),
    )
    own = made.log_config({"retention.ms": "5", "cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime"})
    assert (own.retention_ms, own.segment_bytes, own.cleanup_policy) == (5, 1_000_000, frozenset({"delete"}))
    assert own.message_timestamp_type is TimestampType.LOG_APPEND_TIME


def test_the_level_goes_with_the_codec() -> None:
    made = config(compression_type="gzip", compression_gzip_level="2")
    assert made.log_config({}).compression_level == 2
    assert made.log_config({"compression.type": "zstd"}).compression_level is None
    assert made.log_config({"compression.type": "zstd", "compression.zstd.level": "9"}).compression_level == 9
    assert made.log_config({"compression.type": "producer"}).compression_level is None


def test_the_limit_of_old_for_a_record_s_time_stands_in_for_both() -> None:
    own = config().log_config({"message.timestamp.difference.max.ms": "5", "message.timestamp.after.max.ms": "7"})
    assert (own.message_timestamp_before_max_ms, own.message_timestamp_after_max_ms) == (5, 7)


def test_what_is_not_known_is_named_and_does_no_harm() -> None:
    assert config(no_such_setting="1").unknown == ["no.such.setting"]


def test_from_a_file_with_settings_that_come_before_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=3\nzookeeper.connect=h\nlog.dirs=/a,/b\nnum.partitions=4\n")
    made = BrokerConfig.from_file(str(file), {"num.partitions": "7"}, insecure=False)
    assert (made.num_partitions, made.log_dirs) == (7, [Path("/a"), Path("/b")])
    with pytest.raises(ConfigError, match="cannot be read"):
        BrokerConfig.from_file(str(tmp_path / "none"), {}, insecure=False)
    (tmp_path / "latin1").write_bytes(b"broker.rack=M\xfcnchen")
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        BrokerConfig.from_file(str(tmp_path / "latin1"), {}, insecure=False)


@pytest.mark.parametrize("given", [" /a , /b ", "/a,,/b", ",/a,/b,"])
def test_log_directories_are_read_without_blanks_and_what_is_empty(given: str) -> None:
    assert config(log_dirs=given, log_dir="/c").log_dirs == [Path("/a"), Path("/b")]
    assert config(log_dir=given).log_dirs == [Path("/a"), Path("/b")]


@pytest.mark.parametrize("settings", [{"log_dirs": ""}, {"log_dirs": " , ", "log_dir": "/a"}, {"log_dir": ""}])
def test_no_log_directory_is_refused_as_kafka_does(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"At least one log directory must be defined via log\.dirs or log\.dir\."):
        config(**settings)


def test_what_is_changed_for_one_broker_is_stronger_than_what_is_changed_for_all() -> None:
    made = config(message_max_bytes="100", max_connections="7")
    assert made.log_config({}).max_message_bytes == 100
    assert made.renew(dynamic_default={"message.max.bytes": "200", "max.connections": "9"}, dynamic={})
    assert (made.log_config({}).max_message_bytes, made.connections_max) == (200, 9)
    assert made.renew(dynamic_default={"message.max.bytes": "200"}, dynamic={"message.max.bytes": "300"})
    assert (made.log_config({}).max_message_bytes, made.connections_max) == (300, 7)
    assert made.log_config({"max.message.bytes": "400"}).max_message_bytes == 400
    assert not made.renew(dynamic_default={"message.max.bytes": "200"}, dynamic={"message.max.bytes": "300"})
    assert made.renew(dynamic_default={}, dynamic={})
    assert made.log_config({}).max_message_bytes == 100


def test_a_change_that_cannot_be_is_ignored() -> None:
    made = config()
    made.renew(dynamic_default={"message.max.bytes": "many", "broker.id": "9"}, dynamic={"max.connections": "5"})
    assert made.value("message.max.bytes") == 1_048_588
    assert made.value("broker.id") == 3
    assert made.connections_max == 5


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    made = config(max_connections="7")
    assert made.listener_connections_max("PLAINTEXT") == 2**31 - 1, "that of the broker holds for all together"
    made.renew(dynamic_default={}, dynamic={"listener.name.plaintext.max.connections": "3"})
    assert made.listener_connections_max("PLAINTEXT") == 3


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("log.roll.ms", "0", "log.roll.ms must be greater"),
        ("queued.max.request.bytes", "5", "must be larger or equal to socket.request.max.bytes"),
        ("replica.lag.time.max.ms", "400", "less than or equal to replica.lag.time.max.ms"),
    ],
)
def test_settings_that_do_not_go_together(name: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        BrokerConfig({**NEEDED, name: value})


def test_how_long_other_brokers_are_waited_for() -> None:
    given = config()
    assert given.controller_timeout_s is None, "each who waits knows how long that helps"
    assert given.request_timeout_ms == 30_000
    assert given.fetch_setup() == Setup(timeout_s=10, timeout_max_s=30)
    given = config(
        **{
            "request.timeout.ms": "7000",
            "controller.socket.timeout.ms": "1500",
            "socket.connection.setup.timeout.ms": "100",
            "socket.connection.setup.timeout.max.ms": "400",
            "replica.socket.receive.buffer.bytes": "4096",
        }
    )
    assert given.controller_timeout_s == 1.5
    assert given.request_timeout_ms == 7000
    assert given.setup() == Setup(timeout_s=0.1, timeout_max_s=0.4)
    assert given.fetch_setup() == Setup(timeout_s=0.1, timeout_max_s=0.4, receive_buffer_bytes=4096)
    assert config(**{"replica.socket.receive.buffer.bytes": "-1"}).fetch_setup().receive_buffer_bytes is None


def test_the_listener_between_brokers_and_that_of_the_controller() -> None:
    listeners = {"listeners": "A://:9092,PLAINTEXT://:9093,C://:9094"}
    listeners["listener.security.protocol.map"] = "A:PLAINTEXT,PLAINTEXT:PLAINTEXT,C:PLAINTEXT"
    made = config(**listeners)
    assert made.inter_broker_listener == "PLAINTEXT", "which security.inter.broker.protocol says by default"
    assert made.control_plane_listener == "PLAINTEXT"
    made = config(**listeners, **{"inter.broker.listener.name": "A", "control.plane.listener.name": "C"})
    assert (made.inter_broker_listener, made.control_plane_listener) == ("A", "C")
    for settings, reason in (
        ({"inter.broker.listener.name": "B"}, "none of listeners: A, PLAINTEXT, C"),
        ({"inter.broker.listener.name": "A", "security.inter.broker.protocol": "PLAINTEXT"}, "Only one of"),
        ({"security.inter.broker.protocol": "SSL"}, "SSL, is none of listeners"),
        ({"control.plane.listener.name": "B"}, "B is none of listeners"),
        ({"control.plane.listener.name": "PLAINTEXT"}, "different value from the inter broker listener name"),
    ):
        with pytest.raises(ConfigError, match=reason):
            config(**listeners, **settings)


def test_old_segments_are_first_looked_for_after_a_delay() -> None:
    assert config().retention_first_ms == 30_000
    assert config(log_retention_check_interval_ms="1000").retention_first_ms == 1_000
    assert (
        config(log_initial_task_delay_ms="70000", log_retention_check_interval_ms="1000").retention_first_ms == 70_000
    )


def test_what_a_commit_waits_for_and_how_many_ask_the_ensemble_at_once() -> None:
    made = config()
    assert (made.group_runtime().acks, made.requests_in_flight_max) == (-1, None)
    made = config(offsets_commit_required_acks="1", zookeeper_max_in_flight_requests="3")
    assert (made.group_runtime().acks, made.requests_in_flight_max) == (1, 3)
