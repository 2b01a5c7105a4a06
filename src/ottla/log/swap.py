"""A cleaned segment takes the place of those it was made from, in one step for whoever reads, whatever ends the process.

    BASE.log.cleaned    being written, or written; of no account yet
    BASE.log.swap       complete and on disk: it counts, and the old segments do not
    BASE.log            in its place
    *.log.deleted       old; removed ``file.delete.delay.ms`` later

with the indexes beside it under the same endings. ``begin`` makes ``.swap`` out of ``.cleaned``, ``retire`` marks the old ones
deleted, ``finish`` gives the new one its name. Between them the directory is synced, or a power cut might bring back one
of the old segments beside the new. Reads are served from the old files until ``finish``.

``settle_directory`` is what the next start makes of it: ``.cleaned`` goes, ``.swap`` is finished. A ``.swap`` that is not below every
``.cleaned`` belongs to a segment that Kafka was splitting in two, and not all parts were there: it goes as well.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.log.batches import scan
from ottla.log.files import DELETED_SUFFIX, TEMPORARY_SUFFIX, OpenFile, fsync_directory, remove_if_there
from ottla.log.segment import LOG_SUFFIX, SUFFIXES, Segment

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"


class Swap:
    """One of them, from ``begin`` on. The log does the steps, in its own thread; ``sync`` may run in any."""

    def __init__(self, new: Segment, old: Sequence[Segment]) -> None:
        self.new = new
        self.old = old
        self.retired: list[Path] = []
        """The old files, once they are marked deleted."""

    def begin(self) -> None:
        self.new.rename(SWAP_SUFFIX)

    def retire(self) -> None:
        for segment in self.old:
            segment.hold()
            self.retired += segment.rename(DELETED_SUFFIX)

    def finish(self) -> None:
        self.new.rename("")

    def sync(self) -> None:
        fsync_directory(self.new.directory)


def remove_cleaned(directory: Path) -> None:
    """What a cleaner has left unfinished goes."""
    for path in directory.glob(f"*{CLEANED_SUFFIX}"):
        remove_if_there(path)


def settle_directory(directory: Path) -> None:
    """Finish or undo what was begun when a process ended."""
    names = sorted(path.name for path in directory.iterdir())
    cleaned = [_base_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    partial = [name for name in swaps if cleaned and _base_offset(name) >= min(cleaned)]
    gone = [name for name in names if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX))]
    # The swaps go first: without the cleaned files, they would count.
    for name in (*partial, *gone):
        remove_if_there(directory / name)
    swaps = [name for name in swaps if name not in partial]
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_replaced(directory / name)
    if swaps:
        fsync_directory(directory)
        for name in swaps:
            (directory / name).replace(directory / name.removesuffix(SWAP_SUFFIX))
        fsync_directory(directory)


def _base_offset(name: str) -> int:
    return int(name.partition(".")[0])


def _remove_replaced(swap: Path) -> None:
    """The segments that a cleaned one was made from lie within its offsets; of others, nothing was left to keep."""
    base_offset = _base_offset(swap.name)
    last_offset = base_offset
    for located in scan(OpenFile(swap, os.O_RDONLY), 0, swap.stat().st_size):
        last_offset = located.header.last_offset
    for path in sorted(swap.parent.glob(f"*{LOG_SUFFIX}"), reverse=True):
        if base_offset <= int(path.stem) <= last_offset:
            for suffix in SUFFIXES:
                remove_if_there(path.with_suffix(suffix))
