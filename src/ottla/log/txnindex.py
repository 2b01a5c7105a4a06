"""The aborted transactions that end in a segment: what a read_committed consumer has to leave out.

An entry of ``.txnindex``, all big-endian::

    version i16 (0), producer_id i64, first_offset i64, last_offset i64, last_stable_offset i64

The file appears with its first entry. Entries are in the order of ``last_offset``; ``last_stable_offset`` is how far
everything was decided once this transaction was, so a search for what a fetch up to there needs may end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ottla.base.errors import CorruptionError
from ottla.log.files import OpenFile, read_if_there, write_at

_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Read from its file whenever it is asked: aborted transactions are rare, and so are those who ask."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, aborted: AbortedTxn) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            write_at(fd, (_ENTRY.pack(_VERSION, *aborted),), os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def all(self) -> list[AbortedTxn]:
        return list(self._entries(read_if_there(self.path) or b""))

    def truncate_to(self, offset: int) -> None:
        """Forget the transactions that end at ``offset`` or behind it."""
        entries = self.all()
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) < len(entries):
            self._cut(len(kept) * _ENTRY.size)

    def reset(self) -> None:
        if self.path.exists():
            self._cut(0)

    def files(self) -> list[OpenFile]:
        """The file, if there is one, for whoever syncs it."""
        return [OpenFile(self.path, os.O_RDONLY)] if self.path.exists() else []

    def moved(self, path: Path) -> None:
        self.path = path

    def _cut(self, size: int) -> None:
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.ftruncate(fd, size)
        finally:
            os.close(fd)

    def _entries(self, data: bytes) -> Iterator[AbortedTxn]:
        if len(data) % _ENTRY.size:
            raise CorruptionError(f"{self.path}: {len(data)} bytes are no whole number of entries")
        for version, *fields in _ENTRY.iter_unpack(data):
            if version != _VERSION:
                raise CorruptionError(f"{self.path}: version {version} is not known")
            yield AbortedTxn(*fields)
