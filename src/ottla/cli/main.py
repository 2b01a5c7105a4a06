"""Where every ``ottla`` command starts.

Nothing is imported before it is known to be needed. A server is started by a supervisor that waits for it, so
``ottla keeper FILE`` and ``ottla broker FILE`` in their plain forms are recognized without loading the command-line
library.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run one command and end the process with its exit code."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["keeper"], ["broker"]):
        from ottla.cli import launch

        if (request := launch.plain(arguments[1:])) is not None:
            sys.exit(launch.keeper(request) if arguments[0] == "keeper" else launch.broker(request))
    from ottla.cli.app import app

    app.main(arguments, prog_name="ottla")
    sys.exit(0)
