"""What has happened at least once. A green run in which nothing happened proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

EXPECTED = frozenset(
    {
        "a blank server rejoined",
        "a follower committed before its leader",
        "a write failed on its version",
        "all servers lost power at once",
        "an observer served clients",
        "client connection lost with operations outstanding",
        "container or TTL node removed by the ensemble",
        "crash inside a step",
        "ephemeral nodes removed with their session",
        "event for a watch set before a reconnection",
        "leader crashed with proposals outstanding",
        "leader crashed with nothing outstanding",
        "leader elected among five",
        "leader elected among three",
        "leader stepped down alive",
        "link reset",
        "lost an unsynced suffix",
        "multi applied",
        "multi refused",
        "old leader cut off while a new one rules",
        "one-way cut",
        "operation pipelined behind another",
        "partition into halves",
        "recovered from an older snapshot",
        "reply after a leader change",
        "session closed by its client",
        "session expired",
        "session moved to another server",
        "session reattached with another timeout",
        "session refused: the server lags behind its client",
        "snapshot written while transactions went on",
        "sync answered by a follower",
        "synchronized by DIFF",
        "synchronized by SNAP",
        "synchronized by SNAP, fuzzy",
        "synchronized by TRUNC",
        "uncommitted proposals survived their leader",
        "uncommitted proposals were truncated",
        "wall clock jumped",
        "watch event",
        "watches re-registered",
        "zxid counter used up",
    }
)


class Coverage:
    """Counts by name; a name that is not expected is a mistake in the simulation."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def hit(self, name: str) -> None:
        assert name in EXPECTED, f"nobody expects {name!r}"
        self.counts[name] += 1

    def add(self, counts: Mapping[str, int]) -> None:
        self.counts.update(counts)

    def missing(self) -> list[str]:
        return sorted(EXPECTED - self.counts.keys())
