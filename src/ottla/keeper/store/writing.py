"""Snapshots on their way to disk, chunk by chunk: one of our own tree, or one received from a leader.

Both collect their chunks in a file under a temporary name and end with ``commit``, which hands the file to the
``DataDir`` that began them, or with ``abort``. As context managers they abort what was not committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

from ottla.keeper.server.tree import DataTree
from ottla.keeper.store.durable import AtomicFile
from ottla.keeper.store.recovery import read_snapshot


class _Collecting:
    def __init__(self, file: AtomicFile) -> None:
        self._file = file

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)

    def abort(self) -> None:
        """Discard the file; does nothing after ``commit``."""
        self._file.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()


class SnapshotWriting(_Collecting):
    """A fuzzy snapshot. ``chunks`` is for the thread that changes the tree, the rest for any."""

    def __init__(self, file: AtomicFile, chunks: Iterator[bytes], publish: Callable[[AtomicFile], bool]) -> None:
        super().__init__(file)
        self.chunks = chunks
        self._publish = publish

    def commit(self) -> bool:
        """Give the file its name; False if the history it belongs to was replaced meanwhile, and it is not wanted."""
        self._file.flush()
        return self._publish(self._file)


class Installation(_Collecting):
    """A snapshot that is to replace the history."""

    def __init__(self, file: AtomicFile, zxid: int, install: Callable[[AtomicFile, int], None]) -> None:
        super().__init__(file)
        self.zxid = zxid
        self._install = install

    def commit(self) -> tuple[int, DataTree]:
        """The new zxid and tree; or ``CorruptionError``, and the old history stands."""
        with self:
            self._file.flush()
            tree = read_snapshot(self._file.temporary, self.zxid).tree
            self._install(self._file, self.zxid)
        return self.zxid, tree
