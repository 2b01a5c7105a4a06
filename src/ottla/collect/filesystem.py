"""The files that are followed, behind a seam: the machine that follows them asks, and what answers may be a model."""

from __future__ import annotations

import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, cast

_MODULES = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
COMPRESSED = tuple(_MODULES)
PACKED_SUFFIXES = (*COMPRESSED, ".zst", ".lz4", ".zip")


class Stat(NamedTuple):
    device: int
    inode: int
    size: int
    changed: int
    """Grows when the content changes; in no unit that means anything."""

    @property
    def identity(self) -> str:
        return f"{self.device}:{self.inode}"


class FileSystem(Protocol):
    def glob(self, patterns: Sequence[str]) -> list[str]: ...

    def beside(self, path: str) -> list[str]:
        """Files of the same folder, this one too."""
        ...

    def stat(self, path: str) -> Stat | None:
        """None for what is not there, and for what is no file."""
        ...

    def open(self, path: str) -> int | None: ...

    def fstat(self, file: int) -> Stat: ...

    def pread(self, file: int, size: int, offset: int) -> bytes: ...

    def close(self, file: int) -> None: ...


class RealFileSystem:
    """The machine's own. A compressed file is one whose content is what it unpacks to."""

    def __init__(self) -> None:
        self._packed: dict[int, Stat] = {}

    def glob(self, patterns: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(path for pattern in patterns for path in _glob(pattern)))

    def beside(self, path: str) -> list[str]:
        folder = os.path.dirname(path)  # noqa: PTH120  what comes back must begin as the path does
        try:
            return [os.path.join(folder, name) for name in os.listdir(folder or ".")]  # noqa: PTH118, PTH208
        except OSError:
            return []

    def stat(self, path: str) -> Stat | None:
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError:
            return None
        return _stat(found) if stat.S_ISREG(found.st_mode) else None

    def open(self, path: str) -> int | None:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            return None
        return self._unpacked(path, file) if path.endswith(COMPRESSED) else file

    def fstat(self, file: int) -> Stat:
        return self._packed.get(file) or _stat(os.fstat(file))

    def pread(self, file: int, size: int, offset: int) -> bytes:
        return os.pread(file, size, offset)

    def close(self, file: int) -> None:
        self._packed.pop(file, None)
        os.close(file)

    def _unpacked(self, path: str, file: int) -> int | None:
        """Its content in a file without a name, which goes when it is closed."""
        found = os.fstat(file)
        try:
            with (
                os.fdopen(file, "rb") as raw,
                _unpacking(path, raw) as packed,
                tempfile.TemporaryFile() as content,
            ):
                shutil.copyfileobj(packed, content, 1 << 20)
                content.flush()
                made = os.dup(content.fileno())
        except (OSError, EOFError):
            return None  # it is still being written, or is not what its name says
        self._packed[made] = _stat(found)._replace(size=os.fstat(made).st_size)
        return made


def _unpacking(path: str, raw: IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    opened: Any = import_module(_MODULES[Path(path).suffix]).open(raw)
    return cast("AbstractContextManager[IO[bytes]]", opened)


def _glob(pattern: str) -> list[str]:
    return glob.glob(pattern, recursive=True)  # noqa: PTH207  what comes back must begin as the pattern does


def _stat(found: os.stat_result) -> Stat:
    return Stat(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
