"""Which leader epoch wrote which part of a log, so that replicas find the point where they diverge (KIP-101, KIP-279).

Each entry says at which offset an epoch starts; it ends where the next one starts, the last one at the end of the log.
Epochs and offsets both grow. The checkpoint is written before a record of a new epoch is, so a crash may leave an entry
too many at the end, which the loader takes away, but never one too few. An epoch in which nothing is written yet is not
worth a write: thousands of partitions may get another leader at once. It is in memory until the first record comes.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Final, NamedTuple

from ottla.log.checkpoints import read_epochs, write_epochs

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    leader_epoch: int
    end_offset: int


class LeaderEpochCache:
    """The entries of one log in memory, and its ``leader-epoch-checkpoint``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries = [EpochEntry(*pair) for pair in read_epochs(path)]
        self.is_ahead = False
        """There is an entry that is not in the checkpoint yet."""
        self.latest = _latest(self._entries)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int, *, written: bool = True) -> None:
        """``epoch`` starts at ``start_offset``; entries that contradict it go. Unless ``written``, it is for memory alone."""
        if self._entries:
            last = self._entries[-1]
            if epoch == last.epoch and start_offset >= last.start_offset:
                return
        kept = [e for e in self._entries if e.epoch < epoch and e.start_offset < start_offset]
        entries = [*kept, EpochEntry(epoch, start_offset)]
        if written:
            self._replace(entries)
        else:
            self._entries = entries
            self.is_ahead = True
            self.latest = epoch

    def write(self) -> None:
        """Bring the checkpoint up to what is in memory."""
        if self.is_ahead:
            write_epochs(self._path, self._entries)
            self.is_ahead = False

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Where the largest epoch that is not above ``epoch`` ends."""
        if epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest:
            return EpochEndOffset(epoch, log_end_offset)
        above = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        # What lies before the first entry was written under an epoch that is not known any more.
        found = self._entries[above - 1].epoch if above > 0 else epoch
        return EpochEndOffset(found, self._entries[above].start_offset)

    def epoch_for(self, offset: int) -> int:
        """The epoch under which the record at ``offset`` was written."""
        above = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[above - 1].epoch if above > 0 else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that start at ``end_offset`` or behind it."""
        self._replace([entry for entry in self._entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies before ``start_offset``; the epoch that holds it starts there now."""
        kept = [entry for entry in self._entries if entry.start_offset > start_offset]
        removed = self._entries[: len(self._entries) - len(kept)]
        if removed:
            kept.insert(0, EpochEntry(removed[-1].epoch, start_offset))
        self._replace(kept)

    def moved(self, path: Path) -> None:
        """The directory of the checkpoint was renamed."""
        self._path = path

    def clear(self) -> None:
        self._replace([])

    def _replace(self, entries: list[EpochEntry]) -> None:
        if entries != self._entries:
            write_epochs(self._path, entries)
            self._entries = entries
            self.is_ahead = False
            self.latest = _latest(entries)


def _latest(entries: list[EpochEntry]) -> int:
    return entries[-1].epoch if entries else UNDEFINED_EPOCH
