"""The members of an ensemble, as ``zoo.cfg`` names them.

    server.N = host:quorumPort:electionPort[:participant|:observer][;[clientHost:]clientPort]

An IPv6 host stands in brackets: ``[::1]:2888:3888``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from typing import Final, NamedTuple

from ottla.base.errors import ConfigError

PORT_MAX: Final = 65535
_FORM: Final = "host:quorumPort:electionPort[:participant|:observer][;[clientHost:]clientPort]"
_SERVER: Final = re.compile(
    r"(?P<host>\[[^\]]+\]|[^:;\[\]|]+):(?P<quorum>\d+):(?P<election>\d+)(?::(?P<role>\w+))?"
    r"(?:;(?:(?P<client_host>\[[^\]]+\]|[^:;\[\]|]+):)?(?P<client>\d+))?"
)


class Role(Enum):
    """Whether a server has a vote."""

    PARTICIPANT = "participant"
    OBSERVER = "observer"


class Address(NamedTuple):
    """Where something listens. An empty host means that none was given."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than localhost is not looked up, and counts as remote."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Peer:
    """One server of the ensemble, this one included."""

    id: int
    quorum: Address
    election: Address
    role: Role = Role.PARTICIPANT
    client: Address | None = None

    def __str__(self) -> str:
        """The value of its ``server.N`` line, in full."""
        host = f"[{self.quorum.host}]" if ":" in self.quorum.host else self.quorum.host
        line = f"{host}:{self.quorum.port}:{self.election.port}:{self.role.value}"
        if self.client is None:
            return line
        return f"{line};{self.client if self.client.host else self.client.port}"


def parse_peer(key: str, value: str) -> Peer:
    """Read one ``server.N`` line."""
    number = key.removeprefix("server.")
    if not number.isdecimal():
        raise ConfigError(f"{key}={value}: what follows 'server.' must be the number of the server")
    if "|" in value:
        raise ConfigError(f"{key}={value}: more than one address for a server is not supported; keep one")
    found = _SERVER.fullmatch(re.sub(r"\s", "", value))
    role = (found["role"] or "participant").lower() if found else ""
    if found is None or role not in {known.value for known in Role}:
        raise ConfigError(f"{key}={value}: must be {_FORM}")
    host, client = found["host"].strip("[]"), None
    if found["client"] is not None:
        client = Address((found["client_host"] or "").strip("[]"), _port(key, value, found["client"]))
    peer = Peer(
        id=int(number),
        quorum=Address(host, _port(key, value, found["quorum"])),
        election=Address(host, _port(key, value, found["election"])),
        role=Role(role),
        client=client,
    )
    if peer.quorum.port == peer.election.port:
        raise ConfigError(f"{key}={value}: the quorum port and the election port must differ")
    return peer


def _port(key: str, value: str, digits: str) -> int:
    if not 0 < int(digits) <= PORT_MAX:
        raise ConfigError(f"{key}={value}: a port must be a whole number from 1 to {PORT_MAX}, not {digits}")
    return int(digits)
