"""The settings of the group coordinator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupConfig:
    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    size_max: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    metadata_max: int = 4_096
    """Of a committed offset, in characters as Java counts them."""
    retention_ms: int = 10_080 * 60_000
    retention_check_ms: int = 600_000
