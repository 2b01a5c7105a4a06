"""``ottla keeper`` and ``ottla broker``: one server in this process.

Kept free of the command-line library for the sake of the start. ``plain`` understands what a supervisor writes; for
all else, ``--help`` and mistakes included, it leaves the word to the commands in ``ottla.cli``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.base.errors import ConfigError, Error

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
BAD_CONFIG = 2
log = logging.getLogger("ottla.keeper")


class ServerRequest(NamedTuple):
    """What the command line asks for."""

    file: str
    settings: Mapping[str, str] = {}
    insecure: bool = False
    verbose: bool = False


def plain(arguments: Sequence[str]) -> ServerRequest | None:
    """Read ``FILE [--set k=v]... [--insecure] [-v]``, or give None for anything that is not exactly that."""
    files: list[str] = []
    settings: dict[str, str] = {}
    flags: set[str] = set()
    words = iter(arguments)
    for word in words:
        if word in ("--insecure", "-v", "--verbose"):
            flags.add(word)
        elif word == "--set":
            key, separator, value = next(words, "").partition("=")
            if not (key and separator):
                return None
            settings[key] = value
        elif word.startswith("-"):
            return None
        else:
            files.append(word)
    if len(files) != 1:
        return None
    return ServerRequest(files[0], settings, "--insecure" in flags, bool(flags & {"-v", "--verbose"}))


def keeper(request: ServerRequest) -> int:
    """Run the keeper until it is told to stop; gives the exit code of the process."""
    from ottla.keeper.config import KeeperConfig

    _log(request)
    try:
        config = KeeperConfig.from_file(request.file, request.settings, insecure=request.insecure)
    except ConfigError as error:
        print(f"ottla keeper: {request.file}: {error}", file=sys.stderr)
        return BAD_CONFIG
    config.log_warnings(log)

    from ottla.keeper.main import run

    try:
        return run(config)
    except Error as error:
        print(f"ottla keeper: {request.file}: {error}", file=sys.stderr)
        return 1


def broker(request: ServerRequest) -> int:
    """Run the broker until it is told to stop; gives the exit code of the process."""
    from ottla.broker.config import BrokerConfig

    _log(request)
    logging.getLogger("ottla.registry.kazoostore").setLevel(logging.WARNING)  # kazoo tells of every connection
    try:
        config = BrokerConfig.from_file(request.file, request.settings, insecure=request.insecure)
    except ConfigError as error:
        print(f"ottla broker: {request.file}: {error}", file=sys.stderr)
        return BAD_CONFIG
    for name in config.unknown:
        logging.getLogger("ottla.broker").warning("%s is no setting of a broker and has no effect", name)

    from ottla.broker.main import run

    try:
        return run(config)
    except Error as error:
        print(f"ottla broker: {request.file}: {error}", file=sys.stderr)
        return 1


def _log(request: ServerRequest) -> None:
    logging.basicConfig(level=logging.DEBUG if request.verbose else logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
