"""Quotas: ``/zookeeper/quota/<path>/zookeeper_limits`` bounds a subtree, ``zookeeper_stats`` counts it.

Both hold text like ``count=5,bytes=1000=;byteHardLimit=2000;countHardLimit=8``; -1 means no limit. A soft limit
is only logged; a hard one, which stands in for the soft one beside it, refuses the write with QUOTA_EXCEEDED when
``enforceQuota`` is on, and is logged otherwise. The statistics are
kept by each server for itself, outside the digest and without touching the node's Stat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.keeper.proto.errors import MarshallingError

QUOTA_ROOT: Final = "/zookeeper/quota"
LIMITS_NODE: Final = "zookeeper_limits"
STATS_NODE: Final = "zookeeper_stats"
_PAIRS: Final = re.compile("[,;]+")
_PAIR: Final = re.compile("[^=]*=(-?[0-9]{1,18})?=*")


class Usage(NamedTuple):
    """What a limits or stats node says; -1 is "not set"."""

    nodes: int = -1
    size: int = -1
    nodes_hard: int = -1
    size_hard: int = -1


def limits_path(path: str) -> str:
    return f"{QUOTA_ROOT}{path}/{LIMITS_NODE}"


def stats_path(path: str) -> str:
    return f"{QUOTA_ROOT}{path}/{STATS_NODE}"


def parse(data: bytes | None) -> Usage:
    """Read what a limits or stats node holds; what cannot be read sets no limit."""
    found: dict[str, int] = {}
    for pair in _PAIRS.split((data or b"").decode(errors="replace")):
        key, _, value = pair.rstrip("=").partition("=")
        try:
            found[key] = int(value)
        except ValueError:
            continue
    return Usage(
        found.get("count", -1), found.get("bytes", -1), found.get("countHardLimit", -1), found.get("byteHardLimit", -1)
    )


def parse_strictly(data: bytes | None) -> Usage:
    """As ``parse``, where a quota is enforced: what cannot be read fails the write that it would bound."""
    if data is None:
        raise MarshallingError("a quota node without data")
    for pair in _PAIRS.split(data.decode(errors="replace")) if data else ():
        if not _PAIR.fullmatch(pair):
            raise MarshallingError(f"a quota node that holds {data!r}")
    return parse(data)


def render(count: int, size: int) -> bytes:
    return f"count={count},bytes={size}".encode()


def bounds(limits: Usage, count_diff: int, size_diff: int) -> bool:
    """True if the limits have anything to say about a change of this kind."""
    bounds_nodes = bool(count_diff) and max(limits.nodes, limits.nodes_hard) > -1
    bounds_size = bool(size_diff) and max(limits.size, limits.size_hard) > -1
    return bounds_nodes or bounds_size


class Excess(NamedTuple):
    """A limit that a change would cross."""

    what: str
    is_hard: bool


def excesses(limits: Usage, stats: Usage, count_diff: int, size_diff: int) -> Iterator[Excess]:
    """Every limit that the change would cross, in ZooKeeper's order."""
    for what, diff, used, soft, hard in (
        ("count", count_diff, stats.nodes, limits.nodes, limits.nodes_hard),
        ("bytes", size_diff, stats.size, limits.size, limits.size_hard),
    ):
        is_hard = hard > -1
        limit = hard if is_hard else soft
        if diff and -1 < limit < used + diff:
            yield Excess(f"current {what}={used + diff}, {'hard' if is_hard else 'soft'} limit={limit}", is_hard)
