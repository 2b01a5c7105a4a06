"""What the operations of a log answer with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ottla.log.files import OpenFile, fsync_directory
from ottla.log.segment import FileRange


class AppendInfo(NamedTuple):
    """What became of an append."""

    first_offset: int
    last_offset: int
    log_append_time: int
    """-1 where records keep the time of their creation."""
    log_start_offset: int
    duplicate: bool = False
    """It had been appended before; the offsets are those of then."""


class Fetched(NamedTuple):
    """Where the batches from an offset on lie. The last one may be cut off; without ``range`` there are none yet."""

    range: FileRange | None
    upper_bound: int
    """No record in the range has this offset or a larger one."""


class FoundOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class Flush:
    """What one flush has to put on disk; ``sync`` may run in any thread."""

    def __init__(self, directory: Path, files: list[OpenFile], offset: int, count: int) -> None:
        self.offset = offset
        self.segment_count = count
        self._directory = directory
        self._files = files

    def sync(self) -> None:
        for file in self._files:
            os.fsync(file.fd)
        fsync_directory(self._directory)
