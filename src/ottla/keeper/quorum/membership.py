"""Who is in the ensemble, and what makes a quorum of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Membership(NamedTuple):
    server_id: int
    voters: frozenset[int]
    observers: frozenset[int] = frozenset()

    @property
    def is_voter(self) -> bool:
        return self.server_id in self.voters

    @property
    def others(self) -> list[int]:
        """Everybody else, in an order that is the same on every run."""
        return sorted((self.voters | self.observers) - {self.server_id})

    def is_quorum(self, servers: Collection[int]) -> bool:
        """True if ``servers`` hold more than half of the votes. Observers have none."""
        return 2 * len(self.voters.intersection(servers)) > len(self.voters)

    def knows(self, server_id: int) -> bool:
        return server_id in self.voters or server_id in self.observers


class Timing(NamedTuple):
    """Milliseconds. The defaults are those of tickTime 2000, initLimit 10, syncLimit 5."""

    tick_ms: int = 2000
    init_ms: int = 20_000
    sync_ms: int = 10_000
    finalize_ms: int = 100
    """How long a server that has a quorum of votes waits for a better candidate."""
    resend_ms: int = 200
    """How soon an unanswered notification is sent again; doubled each time, up to a tick."""
