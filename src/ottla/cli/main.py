"""Where every ``ottla`` command starts.

Nothing is imported before it is known to be needed. A server is started by a supervisor that waits for it, so
``ottla keeper FILE`` and ``ottla broker FILE`` in their plain forms are recognized without loading the command-line
library.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer, WriteableBuffer


class WithoutPandas:
    """Arrow loads pandas wherever it is installed, which takes longer than many a query, and nothing that is printed needs it."""

    def find_spec(self, fullname: str, _path: object, _target: object = None, /) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not loaded for what is printed", name=fullname)


class Closed(io.RawIOBase):
    """Stands where standard input or output was closed by the caller: an error to who needs it, and to nobody else.

    What it opens has the number of what was closed, which no socket gets then, and cannot be read from, or not be written to.
    """

    def __init__(self, what: str, flags: int) -> None:
        self._what = what
        self._fd = os.open(os.devnull, flags)

    def fileno(self) -> int:
        return self._fd

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        return self._attempt(lambda: os.readv(self._fd, [buffer]))

    def write(self, data: ReadableBuffer, /) -> int:
        return self._attempt(lambda: os.write(self._fd, data))

    def _attempt(self, call: Callable[[], int]) -> int:
        try:
            return call()
        except OSError as error:
            raise OSError(error.errno, f"{self._what} is closed") from None


def main() -> NoReturn:
    """Run one command and end the process with its exit code."""
    _replace_closed()
    arguments = sys.argv[1:]
    if arguments[:1] in (["keeper"], ["broker"]):
        from ottla.cli import launch

        if (request := launch.plain(arguments[1:])) is not None:
            sys.exit(launch.keeper(request) if arguments[0] == "keeper" else launch.broker(request))
    if arguments[:1] == ["sql"]:
        sys.meta_path.insert(0, WithoutPandas())
    from ottla.cli.app import app

    code: int | str | None = 0
    try:
        app.main(arguments, prog_name="ottla")
    except SystemExit as end:
        code = end.code
    except OSError as error:
        code = _tell(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        # What could not be written would be tried again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or _tell(error)
    sys.exit(code)


def _replace_closed() -> None:
    """Python has None for what is closed, in the order of their numbers."""
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(Closed("standard input", os.O_WRONLY)), "utf-8")
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(Closed("standard output", os.O_RDONLY)), "utf-8")
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(os.devnull, "w")), "utf-8")


def _tell(error: OSError) -> int:
    """Such as a disk that is full behind stdout, of a command that has no words of its own for it. Nobody who reads on is no news."""
    if not isinstance(error, BrokenPipeError):
        print(f"ottla: {': '.join(filter(None, (error.filename, error.strerror)))}", file=sys.stderr)
    return 1
