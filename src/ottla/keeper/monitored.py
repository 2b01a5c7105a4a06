"""What four-letter words and metrics need to see of a running keeper."""

from __future__ import annotations

from typing import Protocol

from ottla.base.clock import Clock
from ottla.keeper.config import KeeperConfig
from ottla.keeper.member import Member
from ottla.keeper.quorum.messages import Role


class Monitored(Protocol):
    """A keeper at work: its member, and what only the shell around it knows."""

    @property
    def member(self) -> Member: ...
    @property
    def config(self) -> KeeperConfig: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def started_ms(self) -> int:
        """When the server began, in milliseconds of the monotonic clock."""

    @property
    def connections(self) -> int:
        """Open client connections."""

    @property
    def rejected(self) -> int:
        """Client connections that were turned away because there were too many."""

    @property
    def client_port(self) -> int:
        """Where clients are served, known once the port is open."""


def mode_of(server: Monitored) -> str:
    """What ZooKeeper calls the part a server plays: ``Mode`` in ``srvr``, ``zk_server_state`` in ``mntr``."""
    if server.member.frontend.upstream.read_only:
        return "read-only"
    if server.config.is_standalone:
        return "standalone"
    return _MODES[server.member.role.role]


_MODES = {Role.LOOKING: "looking", Role.LEADING: "leader", Role.FOLLOWING: "follower", Role.OBSERVING: "observer"}
