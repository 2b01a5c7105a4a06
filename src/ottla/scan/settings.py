"""How to reach a cluster: the properties of a Kafka client, by the names of Java's or librdkafka's.

Only what concerns the connection is looked at here; whatever else a client may be given is none of a reader's business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.scan.errors import OptionError

_JAAS = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PORT = 9092


@dataclass(frozen=True, slots=True)
class Settings:
    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "ottla"
    timeout_s: float = 60.0
    """How long anything is tried before it counts as failed."""
    security_protocol: str = "PLAINTEXT"
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: str | None = None
    check_hostname: bool = True
    sasl_mechanism: str = "PLAIN"
    username: str = ""
    password: str = ""

    @property
    def is_encrypted(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def is_authenticated(self) -> bool:
        return self.security_protocol.startswith("SASL")


def parse_settings(given: Mapping[str, str]) -> Settings:
    """From client properties without the ``kafka.`` that Spark puts in front of them."""
    servers = given.get("bootstrap.servers")
    if not servers:
        raise OptionError("bootstrap.servers is missing: give the brokers to start from, as HOST:PORT,...")
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise OptionError(f"security.protocol={protocol}: give one of {', '.join(_PROTOCOLS)}")
    jaas = {name: re.sub(r"\\(.)", r"\1", text) for name, text in _JAAS.findall(given.get("sasl.jaas.config", ""))}
    return Settings(
        bootstrap=tuple(_address(server) for server in servers.split(",") if server.strip()),
        client_id=given.get("client.id", "ottla"),
        timeout_s=_milliseconds(given, "default.api.timeout.ms", 60_000) / 1000,
        security_protocol=protocol,
        ssl_ca_location=given.get("ssl.ca.location") or _pem(given, "ssl.truststore"),
        ssl_certificate_location=given.get("ssl.certificate.location") or _pem(given, "ssl.keystore"),
        ssl_key_location=given.get("ssl.key.location"),
        ssl_key_password=given.get("ssl.key.password"),
        check_hostname=given.get("ssl.endpoint.identification.algorithm", "https").lower() == "https",
        sasl_mechanism=given.get("sasl.mechanism", given.get("sasl.mechanisms", "PLAIN")).upper(),
        username=given.get("sasl.username", jaas.get("username", "")),
        password=given.get("sasl.password", jaas.get("password", "")),
    )


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        return text.strip(), _PORT
    if not (port.isascii() and port.isdigit()):
        raise OptionError(f"bootstrap.servers: {text.strip()!r} is no HOST:PORT")
    return host.strip("[]"), int(port)


def _milliseconds(given: Mapping[str, str], key: str, default: int) -> int:
    text = str(given.get(key, default))
    if not text.isdigit():
        raise OptionError(f"{key}={text}: give milliseconds")
    return int(text)


def _pem(given: Mapping[str, str], store: str) -> str | None:
    """Java's stores, where they are in the one format that OpenSSL reads, too."""
    location = given.get(f"{store}.location")
    if location and given.get(f"{store}.type", "JKS").upper() != "PEM":
        raise OptionError(
            f"{store}.location: only {store}.type=PEM can be read here; ssl.ca.location takes a PEM file, too"
        )
    return location
