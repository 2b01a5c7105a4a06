"""A disk that fails on purpose: at the n-th call the process dies, or the power goes and unsynced bytes with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from stat import S_ISDIR
from typing import Any

import pytest

from ottla.keeper.store import DataDir

CHANGING = ("open", "write", "pwrite", "pwritev", "ftruncate", "fsync", "fdatasync", "replace", "unlink", "mkdir")
SECTOR_BYTES = 512


class CrashError(BaseException):
    """The process is dead. Not an ``Exception``, so that no handler of the code under test survives it."""


@contextmanager
def dying_at(call: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Let the ``call``-th change of the disk, counted from 0, and all after it raise; yields how many were made."""
    made = 0

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            if made >= call:
                raise CrashError
            made += 1
            return real(*args, **kwargs)

        return wrapped

    with monkeypatch.context() as patch:
        for name in CHANGING:
            patch.setattr(os, name, wrap(getattr(os, name)))
        yield lambda: made


def kill(store: DataDir) -> None:
    """What the kernel does for a dead process: give up its locks and descriptors."""
    while store._locks:
        os.close(store._locks.pop())
    if store._log is not None:
        for file in store._log._open_files:
            os.close(file.fd)
        store._log._mark.close()


class PowerLoss:
    """Watches what has been synced below some directories, and can take everything else away.

    A file's bytes count as safe once the file was synced, its name once the directory was.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._files: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        self._pins: list[int] = []
        for directory in self._directories():
            self._names[directory] = self._listed(directory)
            for name, inode in self._names[directory].items():
                self._files[inode] = (directory / name).read_bytes()
        self._watch(monkeypatch)

    def power_off(self, luck: Random | None = None) -> None:
        """Leave what was synced; with ``luck``, also an arbitrary part of what was not."""
        images = {}
        for directory in self._directories():
            now = self._listed(directory)
            names = self._names.get(directory, {})
            if luck is not None and luck.random() < 0.5:
                names = now
            contents = {inode: (directory / name).read_bytes() for name, inode in now.items()}
            images[directory] = {
                name: self._torn(self._files.get(inode, b""), contents.get(inode, b""), luck)
                for name, inode in names.items()
            }
        for directory, files in images.items():
            for path in directory.iterdir():
                if path.is_file():
                    path.unlink()
            for name, content in files.items():
                (directory / name).write_bytes(content)
        self.release()

    def release(self) -> None:
        while self._pins:
            os.close(self._pins.pop())

    def _torn(self, safe: bytes, written: bytes, luck: Random | None) -> bytes:
        if luck is None or safe == written:
            return safe
        size = luck.choice((len(safe), len(written)))
        image = bytearray(safe[:size].ljust(size, b"\0"))
        keeping = luck.choice((0.1, 0.5, 0.9))
        for start in range(0, size, SECTOR_BYTES):
            if luck.random() < keeping:
                sector = written[start : start + SECTOR_BYTES][: size - start]
                image[start : start + len(sector)] = sector
        return bytes(image)

    def _directories(self) -> list[Path]:
        return [self.root, *(path for path in self.root.rglob("*") if path.is_dir())]

    @staticmethod
    def _listed(directory: Path) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in directory.iterdir() if path.is_file()}

    def _watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real_open, real_unlink, real_replace = os.open, os.unlink, os.replace

        def pin(path: Any) -> None:
            # An inode number must not be used twice, or one file's bytes would be taken for another's.
            if Path(path).exists():
                self._pins.append(real_open(path, os.O_RDONLY))

        def unlink(path: Any, **kwargs: Any) -> None:
            pin(path)
            real_unlink(path, **kwargs)

        def replace(source: Any, target: Any, **kwargs: Any) -> None:
            pin(target)
            real_replace(source, target, **kwargs)

        monkeypatch.setattr(os, "unlink", unlink)
        monkeypatch.setattr(os, "replace", replace)
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._syncing(getattr(os, name)))

    def _syncing(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(fd: int) -> None:
            real(fd)
            info = os.fstat(fd)
            if S_ISDIR(info.st_mode):
                for directory in self._directories():
                    if directory.stat().st_ino == info.st_ino:
                        self._names[directory] = self._listed(directory)
            else:
                self._files[info.st_ino] = Path(f"/proc/self/fd/{fd}").read_bytes()

        return sync
