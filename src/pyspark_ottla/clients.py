"""Settings of Java's clients, which is what Spark's users have, for librdkafka.

What both know is handed on, what they call by different names or write differently is translated, and what librdkafka has never heard of
is left out with a warning, as Java's clients do with what they do not know.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ottla.scan.errors import OptionError
from ottla.scan.settings import parse_settings

C = TypeVar("C")
ClientSettings = dict[str, str | int | bool]

logger = logging.getLogger(__name__)

# What only a reader, or only Java, knows.
_LEFT_OUT = frozenset(
    (
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "request.timeout.ms",
        "sasl.jaas.config",
        "send.buffer.bytes",
        "session.timeout.ms",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
    )
)
_UNKNOWN = re.compile(r'No such configuration property: "([^"]+)"')
_MESSAGE_BYTES_MAX = 1_000_000_000
_QUEUE_KBYTES_MIN = 1024
"""A record that is larger than the queue would wait for room in it for ever."""


def client_settings(kafka: Mapping[str, str]) -> ClientSettings:
    known = parse_settings(kafka)
    given = (_translated(name, value) for name, value in kafka.items() if name not in _LEFT_OUT)
    # Nothing is what Java's clients have by default where librdkafka wants to be left alone.
    made: ClientSettings = {name: value for name, value in given if value}
    if known.is_authenticated:
        made |= {"sasl.username": known.username, "sasl.password": known.password}
    if known.ssl_ca_location:
        made["ssl.ca.location"] = known.ssl_ca_location
    if known.ssl_certificate_location:
        made["ssl.certificate.location"] = known.ssl_certificate_location
    return made


def open_client(kind: Callable[[dict[str, Any]], C], settings: Mapping[str, str | int | bool]) -> C:
    """A client of librdkafka's with as much of these settings as it knows."""
    from confluent_kafka import KafkaException

    taken = dict(settings)
    while True:
        try:
            return kind(taken)
        except KafkaException as error:
            told = error.args[0].str().strip()
            unknown = _UNKNOWN.search(told)
            if unknown is None or unknown[1] not in taken:
                raise OptionError(f"kafka settings: {told}") from None
            del taken[unknown[1]]
            logger.warning("kafka.%s is not known to this client and has no effect", unknown[1])


def _translated(name: str, value: str) -> tuple[str, str]:
    match name:
        case "max.request.size":
            return "message.max.bytes", str(min(_number(name, value), _MESSAGE_BYTES_MAX))
        case "buffer.memory":
            return "queue.buffering.max.kbytes", str(max(_number(name, value) >> 10, _QUEUE_KBYTES_MIN))
        case "batch.size" if value == "0":
            return name, "1"
        case "ssl.endpoint.identification.algorithm" if not value:
            return name, "none"
    return name, value


def _number(name: str, value: str) -> int:
    if not value.strip().isdigit():
        raise OptionError(f"kafka.{name}={value}: give bytes")
    return int(value)
