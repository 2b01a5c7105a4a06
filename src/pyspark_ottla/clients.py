"""Settings of Java's clients, which is what Spark's users have, for librdkafka."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.scan.settings import parse_settings

# What only a reader, or only Java, knows.
_LEFT_OUT = frozenset(
    (
        "default.api.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.records",
        "receive.buffer.bytes",
        "request.timeout.ms",
        "sasl.jaas.config",
        "send.buffer.bytes",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.keystore.location",
        "ssl.keystore.type",
    )
)


def client_settings(kafka: Mapping[str, str]) -> dict[str, str | int | bool]:
    known = parse_settings(kafka)
    made: dict[str, str | int | bool] = {name: value for name, value in kafka.items() if name not in _LEFT_OUT}
    if known.is_authenticated:
        made |= {"sasl.username": known.username, "sasl.password": known.password}
    if known.ssl_ca_location:
        made["ssl.ca.location"] = known.ssl_ca_location
    if known.ssl_certificate_location:
        made["ssl.certificate.location"] = known.ssl_certificate_location
    return made
