"""How dirty a log is, and up to where it may be cleaned.

    log_start_offset ─ clean ─ first_dirty_offset ─ dirty ─ first_uncleanable_offset ─ not yet ─ log_end_offset

Nothing is cleaned in the active segment, behind the last stable offset, or that is younger than ``min.compaction.lag.ms``: the
segment where one of these begins stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from ottla.log.log import Log
from ottla.log.segment import Segment

_FOREVER = (1 << 63) - 1


class Filth(NamedTuple):
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool
    """Something lies in it for longer than ``max.compaction.lag.ms``."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def filth(log: Log, *, now_ms: int) -> Filth:
    first_dirty = log.log_start_offset
    if log.cleaned_to is not None and first_dirty <= log.cleaned_to <= log.log_end_offset:
        first_dirty = log.cleaned_to
    sealed = log.segments[:-1]
    until = min(log.last_stable_offset, log.active.base_offset)
    min_lag_ms = log.config.min_compaction_lag_ms
    if min_lag_ms > 0:
        young = (s.base_offset for s in _from(log, first_dirty) if s.largest.timestamp > now_ms - min_lag_ms)
        until = min(until, next(young, until))
    until = max(until, first_dirty)
    first_uncleanable = log.active.base_offset
    if until < first_uncleanable:
        first_uncleanable = max(s.base_offset for s in sealed if s.base_offset <= until)
    return Filth(
        first_dirty,
        first_uncleanable,
        sum(s.size for s in sealed if s.base_offset < first_dirty),
        sum(s.size for s in _from(log, first_dirty) if s.base_offset < first_uncleanable),
        _is_overdue(log, first_dirty, now_ms),
    )


def needs_cleaning(log: Log, found: Filth) -> bool:
    return found.cleanable_bytes > 0 and (found.is_overdue or found.ratio > log.config.min_cleanable_dirty_ratio)


def filthiest(logs: Iterable[Log], *, now_ms: int) -> tuple[Log, Filth] | None:
    """Of those that need cleaning, the one with the largest share of dirt."""
    judged = ((log, filth(log, now_ms=now_ms)) for log in logs if log.config.compacts)
    needy = [(log, found) for log, found in judged if needs_cleaning(log, found)]
    return max(needy, key=lambda each: each[1].ratio, default=None)


def _from(log: Log, offset: int) -> list[Segment]:
    """The sealed segments that reach ``offset`` or lie behind it."""
    segments = log.segments
    return [s for s, behind in pairwise(segments) if behind.base_offset > offset]


def _is_overdue(log: Log, first_dirty: int, now_ms: int) -> bool:
    max_lag_ms = log.config.max_compaction_lag_ms
    if max_lag_ms >= _FOREVER:
        return False
    firsts = [s.first_timestamp for s in _from(log, first_dirty)]
    return min((first for first in firsts if first > 0), default=now_ms) < now_ms - max_lag_ms
