"""How much of a backlog one micro-batch takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.scan.cluster import TopicPartition
from ottla.scan.fetching import Range


def shared_out(ranges: Sequence[Range], limit: int) -> dict[TopicPartition, int]:
    """Where each range ends if all together may have ``limit`` offsets: in proportion, at least one each where there is any."""
    total = sum(len(one) for one in ranges)
    if total <= limit:
        return {one.place: one.end for one in ranges}
    return {
        one.place: one.start + min(max(len(one) * limit // total, 1), len(one)) if len(one) else one.end
        for one in ranges
    }


def shared_out_bytes(
    ranges: Sequence[Range], limit: int, record_bytes: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """Likewise by bytes, of which each offset takes about so many."""
    weights = {one.place: len(one) * record_bytes.get(one.place, 1.0) for one in ranges}
    total = sum(weights.values())
    if total <= limit:
        return {one.place: one.end for one in ranges}
    return {
        one.place: one.start + min(max(int(len(one) * limit / total), 1), len(one)) if len(one) else one.end
        for one in ranges
    }
