"""The transaction log: what a server has promised to remember, in ZooKeeper's files.

Theory of operation
-------------------
The log is a row of files ``log.<hex zxid>`` (layout in ``entries``), each named after its first entry. One thread
appends, and a worker thread syncs meanwhile:

    append(entries)   one vectored write at the end of the newest file, into the page cache; never waits for the disk
    sync()            everything appended before the call is on disk when it returns
    roll()            the next append opens a new file

``append`` and ``sync`` share only a list of files to sync, guarded by a lock that is never held across a system
call of the disk. A file that ``roll`` retired is trimmed and closed by the sync that follows. A directory entry is
synced with the first sync of its file.

Space ahead of the entries is filled with zeros a chunk at a time, in the same write as the entries that did not
fit. Overwriting blocks that exist changes no metadata, so syncing does not wait for the file system's journal.
Measured on ext4 over virtio with entries of 213 bytes, in syncs per second with 1, 16 and 256 entries a sync:

    no preallocation               4,155   3,514   1,115
    sparse, 64 MiB (ZooKeeper's)   5,875   3,995   1,312
    posix_fallocate, 64 MiB        5,522   4,425   2,208
    zeros, 256 KiB                 6,824   6,343   3,406
    zeros, 1 MiB                   6,500   5,842   3,865
    zeros, 4 MiB                   6,375   4,949   3,597
    zeros, 64 MiB                  6,320   5,906   1,471    (the sync behind each fill took 166 ms and more)

Errors
------
An append that fails takes back what it wrote, raises, and leaves the log as it was. If even that fails, or a sync
does, the log is *broken* and refuses everything from then on: after a failed fsync the kernel may drop the dirty
pages and report success next time, so nothing the process believes about the disk is true any more. Only reading the
files again, in a new process, tells.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.keeper.proto.txns import Entry
from ottla.keeper.store.durable import cut, fsync_directory, numbered, remove_in_order
from ottla.keeper.store.entries import LOG_HEADER, LOG_PREFIX, encode_entries, follows, log_name
from ottla.keeper.store.logreader import LogReader
from ottla.keeper.store.synced import Mark, SyncMark

PRE_ALLOC_SIZE_KIB: Final = 1024
_ZEROS: Final = memoryview(bytes(PRE_ALLOC_SIZE_KIB * 1024))
_MARK_SYNC_BYTES: Final = 1 << 20


class _File:
    """A log file open for appending."""

    __slots__ = ("allocated", "dirty", "end", "fd", "path", "zxid")

    def __init__(self, path: Path, zxid: int) -> None:
        self.path = path
        self.zxid = zxid
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self.end = 0
        self.allocated = 0
        self.dirty = False


class TxnLog:
    """The log of one server, opened at its end: recovery has read it, cut it and synced it.

    ``base_zxid`` is the zxid of the snapshot the log continues, ``last_zxid`` that of its last entry, or of the
    snapshot if it has none. ``pre_alloc_size`` is in KiB, as ZooKeeper's ``preAllocSize``, but never taken for more
    than the chunk that measured best, since zeros cost time where ZooKeeper's holes do not; 0 reserves nothing.
    """

    def __init__(
        self, directory: Path, *, base_zxid: int, last_zxid: int, pre_alloc_size: int = PRE_ALLOC_SIZE_KIB
    ) -> None:
        self.directory = directory
        self.base_zxid = base_zxid
        self.last_zxid = last_zxid
        self.durable_zxid = last_zxid
        self._chunk = min(pre_alloc_size, PRE_ALLOC_SIZE_KIB) * 1024
        self._file: _File | None = None
        self._open_files: set[_File] = set()
        self._state = Lock()  # guards the next two, with last_zxid and _file; held for a few instructions
        self._dirty: list[_File] = []
        self._created = False
        self._syncing = Lock()  # one sync at a time; append never takes it
        self._broken: OSError | None = None
        self._closed = False
        self._unmarked_bytes = 0
        self._mark = SyncMark(directory)
        self._marked = Mark(0, 0, 0)
        self._continue_from(last_zxid)

    def append(self, entries: Sequence[Entry]) -> int:
        """Write entries behind the last; durable only after the next ``sync``. How many bytes they are there."""
        self._check()
        last = self.last_zxid
        for zxid, _ in entries:
            assert zxid == last + 1 or follows(zxid, after=last), f"0x{zxid:x} appended behind 0x{last:x}"
            last = zxid
        if not entries:
            return 0
        data = encode_entries(entries)
        file = self._file
        if file is None:
            file = _File(self.directory / log_name(entries[0].zxid), entries[0].zxid)
            self._open_files.add(file)
            data = LOG_HEADER + data
        self._write(file, data)
        with self._state:
            if file is not self._file:
                self._file = file
                self._created = True
            file.end += len(data)
            self.last_zxid = last
            self._unmarked_bytes += len(data)
            self._make_dirty(file)
        return len(data)

    def sync(self) -> int:
        """Put everything appended so far on disk; return the zxid up to which it is. For any thread."""
        with self._syncing:
            return self._sync()

    def roll(self) -> None:
        """Let the next append open a new file."""
        with self._state:
            if self._file is not None:
                self._make_dirty(self._file)
                self._file = None

    def read(self, from_zxid: int) -> Iterator[Entry]:
        """The entries from ``from_zxid`` on, itself included, without a gap, up to the last at the time of the call.

        Where older files were purged the first may be a later one. A caller that has everything up to a zxid asks
        for that zxid and checks that it comes first: only then does what follows continue its history.
        """
        files = self._files()
        starting = [i for i, file in enumerate(files) if file[0] <= from_zxid]
        return _read(files[starting[-1] if starting else 0 :], from_zxid, self.last_zxid)

    def truncate_to(self, zxid: int) -> int:
        """Remove everything behind ``zxid`` for good; return the last zxid left, for the caller to compare.

        The sync mark is lowered; then later files go, newest first, then the tail of the file that holds ``zxid``, each
        step on disk before the next: whatever a crash leaves is a log without a hole, and not shorter than it claims.
        """
        with self._syncing:
            self.roll()
            self._sync()
            files = self._files()
            kept = [path for first, path in files if first <= zxid]
            last, end = _find_end(kept[-1], zxid) if kept else (min(self.base_zxid, zxid), 0)
            with self._breaking():
                self._lower_mark(files[len(kept) - 1][0] if kept else 0, end)
                remove_in_order(path for _, path in reversed(files[len(kept) :]))
                if kept:
                    cut(kept[-1], end)
                self._continue_from(last)
        return last

    def reset(self, zxid: int) -> None:
        """Remove the whole log for good, newest file first; the next entry follows ``zxid``."""
        with self._syncing:
            self.roll()
            self._sync()
            with self._breaking():
                self._lower_mark(0, 0)
                remove_in_order(path for _, path in reversed(self._files()))
                self.base_zxid = zxid
                self._continue_from(zxid)

    def close(self) -> None:
        """Sync, trim and close. A broken log is only closed."""
        if self._closed:
            return
        try:
            if self._broken is None:
                self.roll()
                self.sync()
                self._mark.sync()
        finally:
            self._closed = True
            for file in list(self._open_files):
                self._close_file(file)
            self._mark.close()

    def break_off(self, error: OSError) -> None:
        """Refuse everything from now on: a step that the log depends on has failed elsewhere."""
        self._broken = error

    def _sync(self) -> int:
        with self._state:
            self._check()
            files, self._dirty = self._dirty, []
            created, self._created = self._created, False
            current, last = self._file, self.last_zxid
            ends = [file.end for file in files]
            for file in files:
                file.dirty = False
        try:
            self._put_on_disk(files, ends, current, created=created)
        except OSError as error:
            self._broken = error
            raise
        self.durable_zxid = last
        return last

    def _put_on_disk(self, files: list[_File], ends: list[int], current: _File | None, *, created: bool) -> None:
        if created:
            # Before any of its pages: recovery has to know the file for ours to judge what it finds there.
            self._set_mark(self._marked._replace(newest_zxid=files[-1].zxid), durable=True)
        for file in files:
            if file is not current:
                os.ftruncate(file.fd, file.end)
            os.fdatasync(file.fd)
        if created:
            fsync_directory(self.directory)
        for file in files:
            if file is not current:
                self._close_file(file)
        if files:
            self._set_mark(Mark(files[-1].zxid, ends[-1], files[-1].zxid), durable=created)

    def _write(self, file: _File, data: bytes) -> None:
        end = file.end + len(data)
        buffers: list[bytes | memoryview] = [data]
        if end > file.allocated and self._chunk:
            buffers.append(_ZEROS[: self._chunk - end % self._chunk])
        try:
            written = os.pwritev(file.fd, buffers, file.end)
            file.allocated = max(file.allocated, file.end + written)
            while written < len(data):
                written += os.pwrite(file.fd, data[written:], file.end + written)
        except OSError:
            self._take_back(file)
            raise

    def _take_back(self, file: _File) -> None:
        """Leave nothing of a failed append: a reader must find whole entries and then the end."""
        with self._breaking():
            if file is self._file:
                os.ftruncate(file.fd, file.end)
                file.allocated = file.end
            else:
                self._close_file(file)
                file.path.unlink()

    def _close_file(self, file: _File) -> None:
        self._open_files.discard(file)
        os.close(file.fd)

    def _make_dirty(self, file: _File) -> None:
        if not file.dirty:
            file.dirty = True
            self._dirty.append(file)

    def _set_mark(self, mark: Mark, *, durable: bool) -> None:
        self._marked = mark
        self._mark.write(mark)
        if durable or self._unmarked_bytes >= _MARK_SYNC_BYTES:
            self._unmarked_bytes = 0
            self._mark.sync()

    def _lower_mark(self, file_zxid: int, offset: int) -> None:
        self._set_mark(Mark(file_zxid, offset, self._marked.newest_zxid), durable=True)

    def _continue_from(self, zxid: int) -> None:
        """Let the next entry follow ``zxid``: no file is open, and all there are have been synced."""
        self.last_zxid = self.durable_zxid = zxid
        files = self._files()
        first, size = (files[-1][0], files[-1][1].stat().st_size) if files else (0, 0)
        self._set_mark(Mark(first, size, first), durable=True)

    def _files(self) -> list[tuple[int, Path]]:
        return [(file.zxid, file.path) for file in numbered(self.directory, LOG_PREFIX)]

    def _check(self) -> None:
        assert not self._closed, "the transaction log is closed"
        if self._broken is not None:
            raise OSError(errno.EIO, f"the transaction log is out of use after: {self._broken}")

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Steps after whose failure nobody knows what is on disk."""
        try:
            yield
        except OSError as error:
            self._broken = error
            raise


def _find_end(path: Path, zxid: int) -> tuple[int, int]:
    """The last zxid of a file that is not above ``zxid``, and the offset behind that entry."""
    last = 0
    reader = LogReader(path)
    for entry in reader:
        if entry.zxid > zxid:
            break
        last = entry.zxid
    if reader.damage is not None:
        raise CorruptionError(f"{path}: offset {reader.end}: {reader.damage}")
    return last, reader.end


def _read(files: Sequence[tuple[int, Path]], from_zxid: int, last_zxid: int) -> Iterator[Entry]:
    previous: int | None = None
    for _, path in files:
        reader = LogReader(path)
        for entry in reader:
            if previous is not None and not follows(entry.zxid, after=previous):
                raise CorruptionError(f"{path}: offset {reader.end}: 0x{entry.zxid:x} behind 0x{previous:x}")
            previous = entry.zxid
            if from_zxid <= entry.zxid <= last_zxid:
                yield entry
            if entry.zxid >= last_zxid:
                return
        if reader.damage is not None:
            raise CorruptionError(f"{path}: offset {reader.end}: {reader.damage}")
