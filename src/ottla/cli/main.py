"""Where every ``ottla`` command starts.

Nothing is imported before it is known to be needed. A server is started by a supervisor that waits for it, so
``ottla keeper FILE`` in its plain form is recognized without loading the command-line library.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run one command and end the process with its exit code."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["keeper"]:
        from ottla.cli import launch

        if (request := launch.plain(arguments[1:])) is not None:
            sys.exit(launch.keeper(request))
    from ottla.cli.app import app

    app.main(arguments, prog_name="ottla")
    sys.exit(0)
