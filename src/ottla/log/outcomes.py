"""What the operations of a log answer with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ottla.log.files import OpenFile
from ottla.log.segment import FileRange, Segment


class AppendInfo:
    """What became of an append."""

    __slots__ = ("duplicate", "first_offset", "last_offset", "log_append_time", "log_start_offset")

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time: int,
        log_start_offset: int,
        duplicate: bool = False,  # noqa: FBT002
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time = log_append_time
        """-1 where records keep the time of their creation."""
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        """It had been appended before; the offsets are those of then."""


class Fetched:
    """Where the batches from an offset on lie. The last one may be cut off; without ``range`` there are none yet."""

    __slots__ = ("_end", "_segment", "range")

    def __init__(self, range: FileRange | None, end: int, segment: Segment | None = None) -> None:  # noqa: A002
        """No record in the range has the offset ``end``; ``segment``, where the range ends before that."""
        self.range = range
        self._end = end
        self._segment = segment

    @property
    def upper_bound(self) -> int:
        """No record in the range has this offset or a larger one. Looked up when asked for: few need it."""
        if self._segment is None or self.range is None:
            return self._end
        return min(self._end, self._segment.upper_bound(self.range.position + self.range.length) or self._end)


class FoundOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class Flush:
    """What one flush has to put on disk; ``sync`` may run in any thread.

    It holds on to the files themselves, so they may be renamed, replaced or deleted by their names until then.
    """

    def __init__(self, directory: Path, files: list[OpenFile], offset: int, sealed: tuple[Segment, ...]) -> None:
        self.offset = offset
        self.sealed = sealed
        """Segments that are on disk for good then."""
        self._files = [*files, OpenFile(directory, os.O_RDONLY | os.O_DIRECTORY)]

    def sync(self) -> None:
        for file in self._files:
            os.fsync(file.fd)
