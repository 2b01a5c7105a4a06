"""What was collected and is not yet with the brokers, on disk.

Everything goes through here: a batch is taken once it is in the spool, and leaves it when the brokers have acknowledged it. So
the brokers may be away, and the collector may be killed at any moment; what was taken is sent, in the order it was taken.

    00000000000000000042.spool      batches from number 42 on, each as below
    checkpoint.json                 how many batches are done, and how far files were read with them
    lock                            held by the collector that uses this folder

    u32 length of the batch   u32 CRC-32C of number and batch   u64 number   batch

A crash of the machine may tear the end of the last segment, where it was not synced. It is cut off there, and what is cut off is kept
in a file beside it. Damage anywhere else is none that a crash explains: the spool is not opened.

The folder has a limit. At the limit ``append`` takes nothing, whoever asked waits, and nothing that was taken is ever thrown out.
Segments go as a whole, once all their batches are done and the checkpoint says so.

``append`` is called by one thread, ``commit`` and ``Reader`` by another, ``sync`` by any.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import IO

from ottla.base.checksums import crc32c
from ottla.base.errors import CorruptionError, Error
from ottla.collect.batches import Positions, positions_of

log = logging.getLogger(__name__)

SUFFIX = ".spool"
SEGMENT_BYTES_MAX = 16 << 20
SEGMENTS_MIN = 8
"""How many parts the limit has at least: room comes back in parts."""
BATCH_BYTES_MAX = 256 << 20
"""Sources keep to far less; a length beyond this is none that was written here."""
_HEAD = Struct(">IIQ")
_NUMBER = Struct(">Q")
_CHECKPOINT = "checkpoint.json"


class SpoolError(Error):
    """A folder that cannot be the spool."""


class Segment:
    __slots__ = ("first", "path", "size")

    def __init__(self, path: Path, first: int, size: int = 0) -> None:
        self.path = path
        self.first = first
        self.size = size


class Spool:
    def __init__(self, folder: Path, *, limit_bytes: int) -> None:
        self.folder = folder
        self._limit = limit_bytes
        self._segment_bytes = max(1, min(SEGMENT_BYTES_MAX, limit_bytes // SEGMENTS_MIN))
        self._guard = threading.Lock()
        self._retired: list[int] = []
        self._new_names = True
        self._file = -1
        self._is_refused = False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _locked(folder / "lock")
        try:
            self.committed, self._positions = _read_checkpoint(folder / _CHECKPOINT)
            self.segments = [Segment(path, int(path.stem), path.stat().st_size) for path in _found(folder)]
            self.end = self._recover()
        except BaseException:
            self._lock.close()
            raise
        self.synced = self.end
        self.used = sum(segment.size for segment in self.segments)

    def append(self, batch: bytes) -> int | None:
        """The number of the batch, or None where there is no room for it. It survives this process, and after ``sync`` the machine."""
        frame_bytes = _HEAD.size + len(batch)
        with self._guard:
            # While nothing waits there is room for one, however large: what is done goes with the next checkpoint.
            if self.used + frame_bytes > self._limit and self.committed < self.end:
                return None
            last = self.segments[-1]
            if last.size and last.size + frame_bytes > self._segment_bytes:
                if not self._rolled():
                    return None
                last = self.segments[-1]
            number = self.end
            covered = _NUMBER.pack(number) + batch
            if not self._write(last, _HEAD.pack(len(batch), crc32c(covered), number) + batch):
                return None
            last.size += frame_bytes
            self.used += frame_bytes
            self.end = number + 1
            return number

    def sync(self) -> None:
        """On disk is what was appended before this was called."""
        with self._guard:
            end, files, self._retired = self.end, self._retired, []
            files.append(os.dup(self._file))
            new_names, self._new_names = self._new_names, False
        try:
            for file in files:
                os.fsync(file)
        finally:
            for file in files:
                os.close(file)
        if new_names:
            _sync_folder(self.folder)
        self.synced = max(self.synced, end)

    def commit(self, number: int, positions: Positions) -> None:
        """Everything before ``number`` is done, and this is how far files were read with it."""
        _apply(self._positions, positions)
        self.committed = number

    def checkpoint(self) -> bool:
        """Write down what is done, and let go of it. Whether there is more room now."""
        try:
            _write_checkpoint(self.folder / _CHECKPOINT, self.committed, self._positions)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # What is done makes room for it.
            with self._guard:
                self._drop_done()
            _write_checkpoint(self.folder / _CHECKPOINT, self.committed, self._positions)
        with self._guard:
            if self.committed == self.end and self.segments[-1].size > self._segment_bytes // 2:
                self._rolled()
            return self._drop_done()

    def positions(self) -> dict[str, Mapping[str, object]]:
        """How far files were read with everything that is in the spool or has left it."""
        found = dict(self._positions)
        for _, batch in Reader(self, self.committed):
            _apply(found, positions_of(batch))
        return found

    @property
    def waiting(self) -> int:
        """Batches that are not done."""
        return self.end - self.committed

    def close(self) -> None:
        self.sync()
        self.checkpoint()
        os.close(self._file)
        self._lock.close()

    def _drop_done(self) -> bool:
        done = 0
        while done + 1 < len(self.segments) and self.segments[done + 1].first <= self.committed:
            self.segments[done].path.unlink(missing_ok=True)
            self.used -= self.segments[done].size
            done += 1
        if done:
            self.segments = self.segments[done:]
        return bool(done)

    def _write(self, segment: Segment, frame: bytes) -> bool:
        try:
            written = os.pwrite(self._file, frame, segment.size)
        except OSError as error:
            self._tell_refused(segment.path, error)
            written = -1
        if written != len(frame):
            os.ftruncate(self._file, segment.size)
        self._is_refused = written != len(frame)
        return not self._is_refused

    def _rolled(self) -> bool:
        """Whether there is a new segment. A disk that has no room for one may have it later."""
        segment = Segment(self.folder / f"{self.end:020d}{SUFFIX}", self.end)
        try:
            file = _open(segment.path)
        except OSError as error:
            self._tell_refused(segment.path, error)
            self._is_refused = True
            return False
        self._retired.append(self._file)
        self.segments.append(segment)
        self._file = file
        self._new_names = True
        return True

    def _tell_refused(self, path: Path, error: OSError) -> None:
        if not self._is_refused:
            log.error("cannot write to %s: %s", path, error.strerror)

    def _recover(self) -> int:
        """Opens the last segment behind its last whole batch, whose number is returned, plus one."""
        if not self.segments:
            self.segments.append(Segment(self.folder / f"{self.committed:020d}{SUFFIX}", self.committed))
            self._file = _open(self.segments[0].path)
            return self.committed
        last = self.segments[-1]
        end, sound = last.first, 0
        for number, size in _walk(last.path, last.first):
            end, sound = number + 1, sound + size
        self._file = _open(last.path)
        if sound < last.size:
            torn = last.path.with_suffix(".torn")
            log.warning(
                "%s: %d bytes at its end are not whole; they are kept in %s", last.path, last.size - sound, torn
            )
            torn.write_bytes(os.pread(self._file, last.size - sound, sound))
            os.ftruncate(self._file, sound)
            last.size = sound
        self.committed = min(max(self.committed, self.segments[0].first), end)
        return end


class Reader:
    """Batches from a number on, up to the end of now. A batch that is not what was written raises CorruptionError."""

    def __init__(self, spool: Spool, number: int) -> None:
        self._spool = spool
        self.number = max(number, spool.segments[0].first)
        self._segment: Segment | None = None
        self._file: IO[bytes] | None = None
        self._at = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        try:
            while (found := self.next()) is not None:
                yield found
        finally:
            self.close()

    def next(self) -> tuple[int, bytes] | None:
        if self.number >= self._spool.end:
            return None
        self._seek()
        assert self._segment is not None
        assert self._file is not None
        batch = _frame(self._file.fileno(), self._at, self.number)
        if batch is None and self._at == self._segment.size and self._segment is not self._spool.segments[-1]:
            self._pass_gap()
            return self.next()
        if batch is None:
            raise CorruptionError(
                f"{self._segment.path} is damaged at byte {self._at}; with that file moved elsewhere, what is in it is not sent"
            )
        self._at += _HEAD.size + len(batch)
        self.number += 1
        return self.number - 1, batch

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _pass_gap(self) -> None:
        """A segment was taken away; whoever did that was told what it means."""
        behind = next(each.first for each in self._spool.segments if each.first > self.number)
        log.warning("batches %d to %d are not in %s any more", self.number, behind - 1, self._spool.folder)
        self.number = behind

    def _seek(self) -> None:
        segment = next(each for each in reversed(self._spool.segments) if each.first <= self.number)
        if segment is self._segment:
            return
        self.close()
        self._file = segment.path.open("rb")
        self._segment, self._at = segment, 0
        for _ in range(segment.first, self.number):
            head = os.pread(self._file.fileno(), _HEAD.size, self._at)
            if len(head) < _HEAD.size:
                raise CorruptionError(f"{segment.path} ends before batch {self.number}")
            self._at += _HEAD.size + _HEAD.unpack(head)[0]


def _walk(path: Path, first: int) -> Iterator[tuple[int, int]]:
    """Number and size of each sound batch from the beginning of a file."""
    with path.open("rb") as file:
        at = 0
        while (batch := _frame(file.fileno(), at, first)) is not None:
            size = _HEAD.size + len(batch)
            yield first, size
            at += size
            first += 1
        if _sound_behind(file.fileno(), at, first):
            raise CorruptionError(
                f"{path} is damaged at byte {at}, and sound behind it; move it elsewhere to go on without it"
            )


def _frame(file: int, at: int, number: int) -> bytes | None:
    """The batch at a place, if it is there and what it was."""
    head = os.pread(file, _HEAD.size, at)
    if len(head) < _HEAD.size:
        return None
    length, checksum, found = _HEAD.unpack(head)
    if length > BATCH_BYTES_MAX or found != number:
        return None
    batch = os.pread(file, length, at + _HEAD.size)
    return batch if len(batch) == length and crc32c(head[8:] + batch) == checksum else None


def _sound_behind(file: int, at: int, number: int) -> bool:
    """Whether a batch that is not sound has a sound one behind it, which a write that was broken off has not."""
    head = os.pread(file, _HEAD.size, at)
    if len(head) < _HEAD.size or (length := _HEAD.unpack(head)[0]) > BATCH_BYTES_MAX:
        return False
    return _frame(file, at + _HEAD.size + length, number + 1) is not None


def _found(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal())


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _apply(known: dict[str, Mapping[str, object]], news: Positions) -> None:
    for name, position in news.items():
        if position is None:
            known.pop(name, None)
        else:
            known[name] = position


def _locked(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise SpoolError(f"another collector uses {path.parent}; --spool names another folder") from None
    return file


def _read_checkpoint(path: Path) -> tuple[int, dict[str, Mapping[str, object]]]:
    try:
        found = json.loads(path.read_text())
        return int(found["committed"]), dict(found["positions"])
    except FileNotFoundError:
        return 0, {}
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"{path} is damaged ({error}); without it, what was sent is sent again") from None


def _write_checkpoint(path: Path, committed: int, positions: Mapping[str, Mapping[str, object]]) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("w") as file:
        json.dump({"version": 1, "committed": committed, "positions": dict(positions)}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
