"""A log's part in a swap (``swap``): which one is under way, and what becomes of the row of its segments and of the old files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ottla.log.config import LogConfig
from ottla.log.retention import Doomed
from ottla.log.segment import Segment
from ottla.log.segments import LogSegments
from ottla.log.swap import CLEANED_SUFFIX, Swap, remove_cleaned


class Replacing:
    """One swap at a time. Its methods raise ``OSError``; what that means is for the log to say."""

    def __init__(self, segments: LogSegments, doomed: Doomed) -> None:
        self.swap: Swap | None = None
        self._segments = segments
        self._doomed = doomed

    def begin(self, directory: Path, bases: Sequence[int], config: LogConfig) -> Swap | None:
        """None, and what was cleaned is gone, if the segments at ``bases`` are not there as they were."""
        old = self._segments.named(bases)
        if [segment.base_offset for segment in old] != list(bases) or self._segments.active in old:
            remove_cleaned(directory)
            return None
        new = Segment.open(directory, bases[0], config, CLEANED_SUFFIX)
        new.offset_index.open_sealed()
        new.time_index.open_sealed()
        self.swap = Swap(new, old)
        self.swap.begin()
        return self.swap

    def finish(self, swap: Swap, *, due_ms: int) -> None:
        """``due_ms``: when the old files go."""
        self.swap = None
        swap.finish()
        self._segments.replace(swap.old, swap.new)
        self._doomed.add(swap.retired, due_ms=due_ms)
        for segment in swap.old:
            segment.close()
            if segment is not swap.old[0]:
                self._doomed.add_snapshot(swap.new.directory, segment.base_offset, due_ms=due_ms)

    def settle(self, *, due_ms: int) -> None:
        """The log is about to lose segments: a swap is undone, or finished if its old segments are gone already."""
        swap = self.swap
        if swap is None:
            return
        if swap.retired:
            swap.sync()
            self.finish(swap, due_ms=due_ms)
        else:
            self.swap = None
            swap.new.remove()
        swap.sync()
