"""What a handler works with: the services of the broker, and who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.services import Services


class Context:
    """One connection, as handlers see it; the fields of the request at hand are set before each call."""

    __slots__ = ("client_id", "fetch_sessions", "listener", "peer", "services", "unsupported_version", "version")

    def __init__(self, services: Services, listener: str, peer: tuple[str, int]) -> None:
        self.services = services
        self.listener = listener
        self.peer = peer
        self.client_id: str | None = None
        self.version = 0
        """For the few answers whose meaning, not only their form, depends on it."""
        self.unsupported_version = False
