"""What the settings of a broker may not be at the same time, each of them being allowed by itself.

The words are those of Kafka's own checks, at its start as well as for a change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ottla.metadata.configs.definition import INT_MAX
from ottla.metadata.configs.effective import BrokerSources, broker_value
from ottla.metadata.errors import InvalidConfigError

_HOST: Final = re.compile(r"([0-9a-zA-Z\-%._:]*)")
_COUNT: Final = re.compile(r"[+-]?[0-9]+")
_MEGABYTE: Final = 1024 * 1024


def check_together(sources: BrokerSources) -> None:
    """Raise the first reason against these settings."""
    for reason in _objections(sources):
        raise InvalidConfigError(f"requirement failed: {reason}")
    connection_overrides(sources)


def connection_overrides(sources: BrokerSources) -> dict[str, int]:
    """``max.connections.per.ip.overrides``: how many connections some addresses may have."""
    text = str(broker_value("max.connections.per.ip.overrides", sources) or "")
    overrides = {}
    for pair in _pairs(text):
        host, colon, count = pair.rpartition(":")
        if not colon:
            # What Java says when it looks for the colon.
            why = f"begin 0, end -1, length {len(pair)}"
            raise InvalidConfigError(f"Error parsing configuration property 'max.connections.per.ip.overrides': {why}")
        overrides[host.strip()] = _count(count.strip())
    for host in overrides:
        if not _HOST.fullmatch(host):
            raise InvalidConfigError(f"max.connections.per.ip.overrides contains invalid addresses : {host}")
    return overrides


def _pairs(text: str) -> list[str]:
    """Empty ones at the end do not count."""
    pairs = [pair.strip() for pair in text.split(",")]
    while pairs and not pairs[-1]:
        del pairs[-1]
    return pairs


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text) or not -INT_MAX - 1 <= int(text) <= INT_MAX:
        raise InvalidConfigError(f'For input string: "{text}"')
    return int(text)


def _objections(sources: BrokerSources) -> Iterator[str]:
    def number(name: str) -> float:
        value = broker_value(name, sources)
        assert isinstance(value, (int, float)), name
        return value

    roll_ms, jitter_ms = broker_value("log.roll.ms", sources), broker_value("log.roll.jitter.ms", sources)
    if isinstance(roll_ms, int) and roll_ms < 1:
        yield "log.roll.ms must be greater than or equal to 1"
    if isinstance(jitter_ms, int) and jitter_ms < 0:
        yield "log.roll.jitter.ms must be greater than or equal to 0"
    if _retention(sources) == 0:
        yield "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    if number("log.cleaner.dedupe.buffer.size") / max(number("log.cleaner.threads"), 1) <= _MEGABYTE:
        yield "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    if number("replica.fetch.wait.max.ms") > number("replica.socket.timeout.ms"):
        yield (
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary "
            "socket timeouts"
        )
    if number("replica.fetch.wait.max.ms") > number("replica.lag.time.max.ms"):
        yield (
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent "
            "frequent changes in ISR"
        )
    if not -1 <= number("offsets.commit.required.acks") <= number("offsets.topic.replication.factor"):
        yield (
            "offsets.commit.required.acks must be greater or equal -1 and less or equal to "
            "offsets.topic.replication.factor"
        )
    if 0 < number("queued.max.request.bytes") < number("socket.request.max.bytes"):
        yield "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    if number("max.connections.per.ip") == 0 and not broker_value("max.connections.per.ip.overrides", sources):
        yield "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    idle_ms = number("connections.max.idle.ms")
    if 0 <= idle_ms <= number("connection.failed.authentication.delay.ms"):
        yield (
            f"connection.failed.authentication.delay.ms={number('connection.failed.authentication.delay.ms')} should "
            f"always be less than connections.max.idle.ms={idle_ms} to prevent failed authentication responses from "
            "timing out"
        )


def _retention(sources: BrokerSources) -> int | None:
    """The time that holds, in whatever unit: for 0 and for no limit it is the same in all of them."""
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        value = broker_value(name, sources)
        if isinstance(value, int):
            return value
    return None
