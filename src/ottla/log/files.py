"""The few moves on files that every write of this package is made from, and what a failed one means.

A file's bytes are safe after ``fsync`` of the file, its name after ``fsync`` of its directory, and a rename replaces a name
in one step. Small files are therefore written whole under a name that ends in ``.tmp``, synced, renamed, and the
directory synced, as Kafka does it.

When the disk refuses anything, what it holds is not known any more: a failed ``fsync`` may have dropped the pages it was
to write. So the first ``OSError`` takes the whole log directory offline (``Health``), with one line in the log; every
later call on a log in it raises ``StorageError``, until a restart has recovered what is there.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Final

from ottla.log.errors import StorageError

logger = logging.getLogger(__name__)

TEMPORARY_SUFFIX: Final = ".tmp"
DELETED_SUFFIX: Final = ".deleted"
FILE_MODE: Final = 0o644

# fallocate(2) with FALLOC_FL_KEEP_SIZE, for which Python has no name; l_type, l_whence, l_start, l_len, and what nobody reads.
_FS_IOC_RESVSP: Final = 0x40305828
_SPACE_RESV: Final = Struct("@hhqqiI4i")

_EXPLAINED: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
    errno.EIO: "the device reports an error",
    errno.EROFS: "the file system is mounted read-only",
}


class Health:
    """Whether a log directory can be trusted; shared by everything that writes into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: StorageError | None = None
        self.on_failure: Callable[[], object] | None = None
        """Hears of the first failure."""

    def check(self) -> None:
        if self.failure is not None:
            raise StorageError(f"{self.path} is offline: {self.failure}")

    def failed(self, what: str, error: OSError) -> StorageError:
        """Take the directory offline; what to raise."""
        reason = _EXPLAINED.get(error.errno or 0, os.strerror(error.errno or 0))
        storage_error = StorageError(f"{what}: {reason}")
        if self.failure is None:
            self.failure = storage_error
            logger.error("log directory %s goes offline: %s (%s)", self.path, storage_error, error)
            if self.on_failure is not None:
                self.on_failure()
        return storage_error

    @contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Around work on files: nothing is started on an offline directory, and an ``OSError`` takes it offline."""
        self.check()
        try:
            yield
        except OSError as error:
            raise self.failed(what, error) from error


class OpenFile:
    """A descriptor that lives as long as anybody refers to it: a file range outlives the deletion of its segment."""

    __slots__ = ("fd", "path")

    def __init__(self, path: Path, flags: int) -> None:
        self.fd = -1
        self.path = path
        self.fd = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

    def fileno(self) -> int:
        return self.fd

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        with suppress(OSError):
            self.close()


def write_at(fd: int, parts: Sequence[bytes | memoryview], position: int) -> int:
    """Write all of ``parts`` in one call where the kernel takes them in one; how many bytes that was."""
    total = 0
    for part in parts:
        total += len(part)
    written = os.pwrite(fd, parts[0], position) if len(parts) == 1 else os.pwritev(fd, parts, position)
    if written < total:
        # A signal or a disk that is nearly full; what follows shows which.
        rest = memoryview(b"".join(parts))
        while written < total:
            written += os.pwrite(fd, rest[written:], position + written)
    return total


def reserve(fd: int, start: int, size: int) -> None:
    """Have the file system find ``size`` bytes on the disk now. The file does not grow, and where it cannot be done nothing is lost."""
    with suppress(OSError):
        fcntl.ioctl(fd, _FS_IOC_RESVSP, _SPACE_RESV.pack(0, os.SEEK_SET, start, size, 0, 0, 0, 0, 0, 0))


def read_at(fd: int, size: int, position: int) -> bytes:
    """Up to ``size`` bytes; fewer only at the end of the file."""
    data = os.pread(fd, size, position)
    while 0 < len(data) < size:
        more = os.pread(fd, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def fsync_directory(path: Path) -> None:
    _fsync(path, os.O_RDONLY | os.O_DIRECTORY)


def _fsync(path: Path, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_whole(path: Path, data: bytes, *, synced: bool = True) -> None:
    """A file that is there with all of ``data`` or as it was, whatever happens; unless ``synced``, but for a power cut."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        write_at(fd, (data,), 0)
        if synced:
            os.fsync(fd)
    finally:
        os.close(fd)
    temporary.replace(path)
    if synced:
        fsync_directory(path.parent)


def write_all_whole(files: Mapping[Path, bytes]) -> None:
    """Many small files, step by step for all of them: the disk is waited for about as long as for one."""
    temporaries = {path: path.with_name(path.name + TEMPORARY_SUFFIX) for path in files}
    for path, data in files.items():
        temporaries[path].write_bytes(data)
    for temporary in temporaries.values():
        _fsync(temporary, os.O_RDONLY)
    for path, temporary in temporaries.items():
        temporary.replace(path)
    for folder in dict.fromkeys(path.parent for path in files):
        fsync_directory(folder)


def read_if_there(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def remove_if_there(path: Path) -> None:
    path.unlink(missing_ok=True)
