"""Ranges to tasks: as many as were asked for, none larger than it may be. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from ottla.scan.cluster import TopicPartition
from ottla.scan.fetching import Range


def split(
    ranges: Iterable[Range],
    *,
    min_parts: int | None = None,
    max_records: int | None = None,
    max_bytes: int | None = None,
    record_bytes: Mapping[TopicPartition, float] | None = None,
) -> list[Range]:
    """Parts of about equal size, in order. ``record_bytes`` is what an offset of each partition takes, about."""
    made = [one for one in ranges if len(one)]
    if max_bytes is not None:
        sizes = record_bytes or {}
        made = [part for one in made for part in cut(one, _parts(len(one) * sizes.get(one.place, 0), max_bytes))]
    if max_records is not None:
        made = [part for one in made for part in cut(one, _parts(len(one), max_records))]
    if min_parts is not None and 0 < len(made) < min_parts:
        made = _at_least(made, min_parts)
    return made


def cut(one: Range, parts: int) -> list[Range]:
    """Into so many parts, or as many as there are offsets."""
    size = len(one)
    parts = max(min(parts, size), 1)
    bounds = [one.start + size * number // parts for number in range(parts + 1)]
    return [Range(one.place, low, high) for low, high in pairwise(bounds)]


def _parts(size: float, most: int) -> int:
    return -(-int(size) // most) if size > most else 1


def _at_least(ranges: list[Range], wanted: int) -> list[Range]:
    """The largest first: each part more goes to the range whose parts are largest."""
    parts = [1] * len(ranges)
    for _ in range(wanted - len(ranges)):
        largest = max(range(len(ranges)), key=lambda number: len(ranges[number]) / parts[number])
        if len(ranges[largest]) <= parts[largest]:
            break
        parts[largest] += 1
    return [part for one, number in zip(ranges, parts, strict=True) for part in cut(one, number)]
