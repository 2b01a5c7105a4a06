from __future__ import annotations

import json

import pytest

from ottla.scan.cluster import TopicPartition
from ottla.scan.errors import OptionError
from pyspark_ottla.clients import client_settings
from pyspark_ottla.options import ReadOptions, matches, parse_read_options

GIVEN = {"kafka.bootstrap.servers": "one:1,two", "subscribe": "a, b,a"}


def parsed(streaming: bool = False, /, **options: str) -> ReadOptions:
    return parse_read_options({**GIVEN, **options}, streaming=streaming)


def test_options_mean_what_they_mean_in_sparks_connector() -> None:
    found = parsed(
        MINPARTITIONS="4", failOnDataLoss="FALSE", includeHeaders="true", **{"kafka.isolation.level": "read_committed"}
    )
    assert found.topics == ("a", "b")
    assert found.settings.bootstrap == (("one", 1), ("two", 9092))
    assert (found.min_partitions, found.fail_on_data_loss, found.include_headers) == (4, False, True)
    assert found.read_committed
    assert (found.start.named, found.end.named) == ("earliest", "latest")
    assert parsed(True).start.named == "latest"


def test_starts_and_ends_have_their_precedence() -> None:
    offsets = json.dumps({"a": {"0": 23, "1": -2}})
    assert parsed(startingOffsets=offsets).start.offsets == {TopicPartition("a", 0): 23, TopicPartition("a", 1): -2}
    assert parsed(startingOffsets=offsets, startingTimestamp="5").start.timestamp == 5
    both = parsed(startingOffsets=offsets, startingOffsetsByTimestamp='{"a": {"0": 7}}')
    assert both.start.by_timestamp == {TopicPartition("a", 0): 7}
    assert both.start.offsets is None
    assert parsed(startingOffsets="-10m").start.relative_ms == 600_000
    assert parsed(startingOffsets="-1000").start.relative_records == 1000


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"assign": '{"a": [0]}'}, "exactly one of subscribe"),
        ({"startingOffsets": "latest"}, "only a stream"),
        ({"startingOffsets": "yesterday"}, "startingOffsets"),
        ({"startingOffsets": '{"a": [1]}'}, "startingOffsets"),
        ({"endingOffsets": "earliest"}, "nothing lies before it"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "-2"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "only a stream may start there"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "no offset is less than -2"),
        ({"endingOffsets": '{"a": {"0": -3}}'}, "no offset is less than -2"),
        ({"endingOffsets": '{"a": {"0": 1.5}}'}, "endingOffsets"),
        ({"startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, "milliseconds since 1970"),
        ({"kafka.isolation.level": "bogus"}, "read_uncommitted or read_committed"),
        ({"kafka.fetch.max.bytes": "abc"}, "fetch.max.bytes=abc: give a number"),
        ({"startingTimestamp": "noon"}, "startingTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        ({"minPartitions": "0"}, "minPartitions"),
        ({"maxBytesPerTrigger": "a lot"}, "maxBytesPerTrigger"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({"readMode": "magic"}, "readMode"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit"),
        ({"kafka.security.protocol": "TELNET"}, "security.protocol"),
        ({"deadLetterTopic": "b", "valueFormat": "json"}, "come back for ever"),
        ({"deadLetterTopic": "c"}, "without valueFormat"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is more than"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({"subscribe": " , "}, "no topic"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        _ = parsed(**options).settings


def test_a_partition_that_is_assigned_twice_is_read_once() -> None:
    servers = {"kafka.bootstrap.servers": "one:1"}
    found = parse_read_options({**servers, "assign": '{"a": [1, 0, 1]}'}, streaming=False)
    assert found.assigned == (TopicPartition("a", 1), TopicPartition("a", 0))
    for text in ('{"a": "0"}', '{"a": ["0"]}', '{"a": [true]}', '{"a": 0}'):
        with pytest.raises(OptionError, match="assign="):
            parse_read_options({**servers, "assign": text}, streaming=False)


def test_a_stream_may_start_at_the_latest_offset_of_a_partition() -> None:
    assert parsed(True, startingOffsets='{"a": {"0": -1}}').start.offsets == {TopicPartition("a", 0): -1}


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="has no end"):
        parsed(True, endingOffsets="latest")


def test_brokers_and_a_topic_have_to_be_named() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing"):
        parse_read_options({"subscribe": "a"}, streaming=False)
    with pytest.raises(OptionError, match="exactly one of subscribe"):
        parse_read_options({"kafka.bootstrap.servers": "one:1"}, streaming=False)
    with pytest.raises(OptionError, match="subscribePattern"):
        parse_read_options({"kafka.bootstrap.servers": "one:1", "subscribePattern": "("}, streaming=False)
    assert matches("a.*", "abc")
    assert not matches("a", "abc")


def test_sizes_and_durations_have_units() -> None:
    found = parsed(maxBytesPerTrigger="16m", maxBytesPerPartition="64kb", fetchBytes="1024", maxTriggerDelay="2h")
    assert (found.max_bytes_per_trigger, found.max_bytes_per_partition, found.fetch_bytes) == (16 << 20, 64 << 10, 1024)
    assert found.max_trigger_delay_ms == 7_200_000
    assert parsed(maxTriggerDelay="500").max_trigger_delay_ms == 500


def test_settings_of_java_become_those_of_librdkafka() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\"b";'
    made = client_settings(
        {
            "bootstrap.servers": "one:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": jaas,
            "max.poll.records": "5",
            "compression.type": "lz4",
        }
    )
    assert made == {
        "bootstrap.servers": "one:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": 'a"b',
        "compression.type": "lz4",
    }
