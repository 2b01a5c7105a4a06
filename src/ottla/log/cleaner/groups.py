"""Which segments are written into one: as many as fit, by their sizes before anything was taken out of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_RELATIVE_OFFSET_MAX = (1 << 31) - 1


class Extent(NamedTuple):
    """A segment, as far as grouping is concerned."""

    base_offset: int
    next_base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int


def group_segments(segments: Sequence[Extent], *, segment_bytes: int, index_bytes: int) -> list[list[Extent]]:
    groups: list[list[Extent]] = []
    for segment in segments:
        group = [*groups[-1], segment] if groups else [segment]
        fits = (
            sum(each.size for each in group) <= segment_bytes
            and sum(each.index_bytes for each in group) <= index_bytes
            and sum(each.time_index_bytes for each in group) <= index_bytes
            # An empty one adds no offsets; else one would be left behind for every 2³¹ of them.
            and (segment.size == 0 or segment.next_base_offset - 1 - group[0].base_offset <= _RELATIVE_OFFSET_MAX)
        )
        if groups and fits:
            groups[-1] = group
        else:
            groups.append([segment])
    return groups
