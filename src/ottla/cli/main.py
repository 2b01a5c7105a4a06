"""Where every ``ottla`` command starts.

Nothing is imported before it is known to be needed. A server is started by a supervisor that waits for it, so
``ottla keeper FILE`` and ``ottla broker FILE`` in their plain forms are recognized without loading the command-line
library.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn


class WithoutPandas:
    """Arrow loads pandas wherever it is installed, which takes longer than many a query, and nothing that is printed needs it."""

    def find_spec(self, fullname: str, _path: object, _target: object = None, /) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not loaded for what is printed", name=fullname)


def main() -> NoReturn:
    """Run one command and end the process with its exit code."""
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


def _tell(error: OSError) -> int:
    """Such as a disk that is full behind stdout, of a command that has no words of its own for it. Nobody who reads on is no news."""
    if not isinstance(error, BrokenPipeError):
        print(f"ottla: {': '.join(filter(None, (error.filename, error.strerror)))}", file=sys.stderr)
    return 1
