"""What is collected into which topic: from the command line, or for several topics from a file of TOML.

    [[source]]
    topic = "logs"
    files = ["/var/log/*.log"]

    [[source]]
    topic = "clicks"
    http = "8080"
    key = "visitor"

The keys are those of the options, with an underscore for a dash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ottla.base.errors import ConfigError
from ottla.base.toml import Section, load_toml

LOOPBACK = "127.0.0.1"
_LOOPBACK_PREFIXES = ("127.", "::1", "localhost")
_PORT_MAX = 65535
LINE_BYTES, LINE_BYTES_LEAST, LINE_BYTES_MOST = 900_000, 64, 64 << 20
BODY_BYTES, BODY_BYTES_MOST = 1 << 20, 64 << 20
STARTS = ("start", "end")
FORMS = ("raw", "json")
SYSLOG_UDP, SYSLOG_TCP, HTTP = "syslog-udp", "syslog-tcp", "http"
PORTS = (SYSLOG_UDP, SYSLOG_TCP, HTTP)


class Address(NamedTuple):
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return self.host.startswith(_LOOPBACK_PREFIXES)


def parse_address(text: str) -> Address:
    """``PORT``, ``HOST:PORT`` or ``[HOST]:PORT``."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > _PORT_MAX:
        raise ConfigError(f"{text!r} is not of the form PORT or HOST:PORT")
    return Address(host.strip("[]") or LOOPBACK, int(port))


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes to one topic."""

    topic: str
    files: tuple[str, ...] = ()
    """Patterns, from the root on."""
    stdin: bool = False
    ports: Mapping[str, Address] = field(default_factory=dict)
    """Where to listen, by one of ``PORTS``."""
    origins: tuple[str, ...] = ("*",)
    """Pages that may send beacons."""
    from_end: bool = False
    compressed: bool = False
    is_enveloped: bool = False
    key: tuple[str, ...] = ()
    line_bytes: int = LINE_BYTES
    body_bytes: int = BODY_BYTES


def load_plans(path: Path) -> tuple[Plan, ...]:
    """Relative patterns are meant from where the file is."""
    return parse_plans(load_toml(path), base=path.absolute().parent)


def parse_plans(given: Mapping[str, Any], *, base: Path) -> tuple[Plan, ...]:
    top = Section("", given)
    plans = tuple(_plan(section, base) for section in top.sections("source"))
    top.done()
    if not plans:
        raise ConfigError("there is no [[source]]")
    followed = [plan.topic for plan in plans if plan.files]
    for topic in followed:
        if followed.count(topic) > 1:
            raise ConfigError(f"two sources have files for {topic}: give all of them to one, as files = [...]")
    if sum(plan.stdin for plan in plans) > 1:
        raise ConfigError("two sources read standard input, of which there is one")
    return plans


def _plan(given: Section, base: Path) -> Plan:
    topic = given.text("topic", "")
    if not topic:
        raise ConfigError(f"{given.at('topic')}: give the topic that it goes to")
    addresses = {name: given.text(name.replace("-", "_"), "") for name in PORTS}
    plan = Plan(
        topic,
        files=tuple(str(base / pattern) for pattern in given.names("files")),
        stdin=given.flag("stdin", default=False),
        ports={name: _address(given, name, text) for name, text in addresses.items() if text},
        origins=given.names("cors_origins") or ("*",),
        from_end=given.choice("from", STARTS, STARTS[0]) == STARTS[1],
        compressed=given.flag("compressed", default=False),
        is_enveloped=given.choice("format", FORMS, FORMS[0]) == FORMS[1],
        key=parse_key(given.text("key", "")),
        line_bytes=given.number("line_bytes", LINE_BYTES, least=LINE_BYTES_LEAST, most=LINE_BYTES_MOST),
        body_bytes=given.number("body_bytes", BODY_BYTES, least=1, most=BODY_BYTES_MOST),
    )
    given.done()
    if not (plan.files or plan.stdin or plan.ports):
        raise ConfigError(f"{given.at('topic')}: {topic} has no files, stdin, syslog_udp, syslog_tcp or http")
    return plan


def parse_key(text: str) -> tuple[str, ...]:
    return tuple(text.split(".")) if text else ()


def _address(given: Section, name: str, text: str) -> Address:
    try:
        return parse_address(text)
    except ConfigError as error:
        raise ConfigError(f"{given.at(name.replace('-', '_'))}: {error}") from None
