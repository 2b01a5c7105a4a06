"""Where every ``ottla`` command starts.

Nothing is imported before it is known to be needed. A server is started by a supervisor that waits for it, so
``ottla keeper FILE`` and ``ottla broker FILE`` in their plain forms are recognized without loading the command-line
library.
"""

from __future__ import annotations

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

    app.main(arguments, prog_name="ottla")
    sys.exit(0)
