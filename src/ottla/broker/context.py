"""What a handler works with: the services of the broker, and who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.services import Services


ANONYMOUS = "ANONYMOUS"
"""Who has not said who he is."""


class Context:
    """One connection, as handlers see it; the fields of the request at hand are set before each call."""

    __slots__ = ("client_id", "listener", "peer", "services", "unsupported_version", "user", "version")

    def __init__(self, services: Services, listener: str, peer: tuple[str, int]) -> None:
        self.services = services
        self.listener = listener
        self.peer = peer
        self.user = ANONYMOUS
        self.client_id: str | None = None
        self.version = 0
        """For the few answers whose meaning, not only their form, depends on it."""
        self.unsupported_version = False

    def is_impostor(self, replica_id: int) -> bool:
        """Whether a client passes for a replica: those come through the listener between brokers (CVE-2018-1288)."""
        return replica_id >= 0 and self.listener != self.services.config.inter_broker_listener

    def kept(self) -> Context:
        """As it is now, for an answer that comes when the connection may be at another request."""
        kept = Context(self.services, self.listener, self.peer)
        kept.client_id, kept.version, kept.unsupported_version = self.client_id, self.version, self.unsupported_version
        return kept
