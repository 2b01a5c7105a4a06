from __future__ import annotations

import logging

import pytest
from confluent_kafka import Producer

from ottla.scan.cluster import TopicPartition
from ottla.scan.errors import OptionError
from pyspark_ottla.clients import client_settings, open_client
from pyspark_ottla.groups import commit_to_group
from pyspark_ottla.options import ReadOptions
from pyspark_ottla.sending import producer_settings

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("setting", "value", "made"),
    [
        ("max.request.size", "2000000", {"message.max.bytes": "2000000"}),
        ("max.request.size", "2147483647", {"message.max.bytes": "1000000000"}),
        ("buffer.memory", "67108864", {"queue.buffering.max.kbytes": "65536"}),
        ("buffer.memory", "1000", {"queue.buffering.max.kbytes": "1024"}),
        ("batch.size", "0", {"batch.size": "1"}),
        ("ssl.endpoint.identification.algorithm", "", {"ssl.endpoint.identification.algorithm": "none"}),
        ("ssl.truststore.password", "secret", {}),
        ("ssl.cipher.suites", "", {}),
        ("max.poll.interval.ms", "30000", {}),
    ],
)
def test_what_javas_clients_say_differently_is_translated(setting: str, value: str, made: dict[str, str]) -> None:
    assert client_settings({**NOWHERE, setting: value}) == {**NOWHERE, **made}


@pytest.mark.parametrize(
    ("setting", "value", "is_idempotent"),
    [
        ("acks", "1", False),
        ("acks", "0", False),
        ("acks", "-1", True),
        ("retries", "0", False),
        ("retries", "3", True),
        ("max.in.flight.requests.per.connection", "10", False),
        ("max.in.flight.requests.per.connection", "5", True),
        ("linger.ms", "0", True),
    ],
)
def test_idempotence_gives_way_to_what_excludes_it(setting: str, value: str, is_idempotent: bool) -> None:
    settings = producer_settings({**NOWHERE, setting: value})
    assert settings.get("enable.idempotence", False) is is_idempotent
    open_client(Producer, settings)


def test_idempotence_that_is_asked_for_excludes_the_rest() -> None:
    settings = producer_settings({**NOWHERE, "enable.idempotence": "true", "acks": "1"})
    with pytest.raises(OptionError, match="`acks` must be set to `all`"):
        open_client(Producer, settings)


def test_settings_that_java_alone_knows_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    java = {
        "max.block.ms": "1000",
        "partitioner.class": "com.example.Mine",
        "metric.reporters": "a",
        "ssl.protocol": "TLSv1.3",
    }
    with caplog.at_level(logging.WARNING):
        open_client(Producer, producer_settings({**NOWHERE, **java}))
    assert {record.args for record in caplog.records} == {(name,) for name in java}


def test_a_commit_with_settings_that_cannot_be_costs_no_stream(caplog: pytest.LogCaptureFixture) -> None:
    options = ReadOptions({**NOWHERE, "debug": "nothing"})
    with caplog.at_level(logging.WARNING):
        commit_to_group(options, "readers", {TopicPartition("clicks", 0): 1})
    assert "not committed to group readers" in caplog.text
