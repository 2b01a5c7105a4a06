"""Files that survive a power cut: the few moves from which every write of this package is made.

Three facts shape them. A file's bytes are safe only after ``fsync`` of the file; its *name* is safe only after
``fsync`` of the directory; and a rename replaces a name in one step. So a whole file is always written under a
temporary name, synced, renamed and the directory synced, and whoever reads the final name finds all of it or
none of it.

Temporary names begin with ``tmp.``. A suffix would not do: ZooKeeper reads ``snapshot.2a.tmp`` as snapshot 2a.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from ottla.base.errors import ConfigError

LOCK_NAME = "ottla.lock"
TEMPORARY_PREFIX = "tmp."
_FILE_MODE = 0o644


class Numbered(NamedTuple):
    """A file whose name ends in a zxid in hexadecimal; sorts by zxid."""

    zxid: int
    path: Path
    compression: str
    """``gz`` or ``snappy`` where a ZooKeeper wrote a compressed snapshot, else empty."""


def fsync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Create ``path`` and what is missing above it, each name synced into its parent."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    fsync_directory(path.parent)


def lock_directory(path: Path) -> int:
    """Take a directory for this process alone; the lock ends with the descriptor that is returned."""
    fd = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.read(fd, 32).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise ConfigError(f"{path}: in use by another server, process {owner}; every server needs its own") from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


def write_all(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def remove(path: Path) -> None:
    """Delete one file for good. A missing one is fine: the deletion may be repeated after a crash."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    fsync_directory(path.parent)


def remove_in_order(paths: Iterable[Path]) -> None:
    """Delete files one by one, each deletion on disk before the next: a crash leaves a suffix of ``paths``."""
    for path in paths:
        remove(path)


def cut(path: Path, size: int) -> None:
    """Shorten a file for good."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)


def fsync_file(path: Path) -> None:
    """Make safe what a dead process left in the page cache."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def rename(source: Path, target: Path) -> None:
    source.replace(target)
    fsync_directory(target.parent)


def write_atomically(path: Path, data: bytes) -> None:
    with AtomicFile(path) as file:
        file.write(data)
        file.commit()


def numbered(directory: Path, prefix: str) -> list[Numbered]:
    """The files ``prefix.<hex zxid>`` of a directory in the order of their zxids."""
    pattern = re.compile(rf"{prefix}\.([0-9a-fA-F]{{1,16}})(?:\.(gz|snappy))?")
    matches = [(pattern.fullmatch(path.name), path) for path in directory.iterdir()]
    return sorted(Numbered(int(match[1], 16), path, match[2] or "") for match, path in matches if match)


def remove_temporaries(directory: Path) -> None:
    """Clear away what a crash left half written; nothing refers to such files, so no sync is needed."""
    for path in list(directory.iterdir()):
        if path.name.startswith(TEMPORARY_PREFIX):
            path.unlink()


class AtomicFile:
    """A file that appears under its name all at once, at ``commit``; without one, leaving the block discards it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.temporary = path.parent / f"{TEMPORARY_PREFIX}{path.name}"
        self._fd = os.open(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
        self._open = True

    def write(self, chunk: bytes) -> None:
        write_all(self._fd, chunk)

    def flush(self) -> None:
        """Put on disk what was written so far, still under the temporary name."""
        os.fsync(self._fd)

    def commit(self) -> None:
        self.flush()
        self._close()
        rename(self.temporary, self.path)

    def abort(self) -> None:
        """Discard the file; does nothing after ``commit``."""
        if self._open:
            self._close()
            self.temporary.unlink()

    def _close(self) -> None:
        self._open = False
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.abort()
