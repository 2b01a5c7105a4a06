"""What a collector has done, in numbers and in a line."""

from __future__ import annotations

from typing import NamedTuple


class Counters:
    """Added to where it happens, read where it is shown."""

    __slots__ = ("collected", "collected_bytes", "delivered", "delivered_bytes", "errors", "refused", "rejected")

    def __init__(self) -> None:
        self.collected = 0
        """Records that are in the spool, or were."""
        self.collected_bytes = 0
        self.delivered = 0
        self.delivered_bytes = 0
        self.rejected = 0
        """Records that no broker takes."""
        self.refused = 0
        """Beacons that were answered with 503."""
        self.errors = 0


class State(NamedTuple):
    """At one moment."""

    collected: int = 0
    collected_bytes: int = 0
    delivered: int = 0
    rejected: int = 0
    refused: int = 0
    errors: int = 0
    waiting: int = 0
    """Batches in the spool."""
    spool_bytes: int = 0
    files: int = 0
    lag_bytes: int = 0


def line(before: State, now: State, seconds: float) -> str:
    """For a terminal or a log: what came and went since ``before``, and how it stands."""
    rate = (now.collected - before.collected) / seconds if seconds > 0 else 0.0
    parts = [
        f"{now.collected} records, {in_bytes(now.collected_bytes)}",
        f"{rate:.0f}/s",
        f"{now.delivered} delivered",
        f"spool {in_bytes(now.spool_bytes if now.waiting else 0)}",
    ]
    if now.files:
        parts.append(f"{now.files} files, {in_bytes(now.lag_bytes)} behind")
    for count, what in ((now.refused, "refused"), (now.rejected, "rejected"), (now.errors, "errors")):
        if count:
            parts.append(f"{count} {what}")
    return "  ".join(parts)


def summary(now: State) -> str:
    parts = [f"{now.collected} collected", f"{now.delivered} delivered"]
    parts += [f"{now.rejected} rejected"] if now.rejected else []
    if now.waiting:
        parts.append(f"{in_bytes(now.spool_bytes)} stay in the spool until next time")
    return ", ".join(parts)


def in_bytes(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    for unit, size in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if count < size * 1000:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e12:.1f} TB"
