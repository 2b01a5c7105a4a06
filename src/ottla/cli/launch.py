"""``ottla keeper`` and ``ottla broker``: one server in this process.

Kept free of the command-line library for the sake of the start. ``plain`` understands what a supervisor writes; for
all else, ``--help`` and mistakes included, it leaves the word to the commands in ``ottla.cli``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ConfigError, Error

if TYPE_CHECKING:
    from ottla.keeper.config import KeeperConfig

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
BAD_CONFIG = 2


class ServerRequest(NamedTuple):
    """What the command line asks for."""

    file: str
    settings: Mapping[str, str] = {}
    insecure: bool = False
    verbose: bool = False
    keeper: str | None = None
    """The file of a keeper that runs in the broker's process."""


def plain(arguments: Sequence[str]) -> ServerRequest | None:
    """Read ``FILE [--set k=v]... [--keeper FILE] [--insecure] [-v]``, or give None for anything that is not that."""
    files: list[str] = []
    keeper: str | None = None
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
        elif word == "--keeper" and keeper is None:
            keeper = next(words, None)
        elif word.startswith("-"):
            return None
        else:
            files.append(word)
    if len(files) != 1:
        return None
    return ServerRequest(files[0], settings, "--insecure" in flags, bool(flags & {"-v", "--verbose"}), keeper)


def keeper(request: ServerRequest) -> int:
    """Run the keeper until it is told to stop; gives the exit code of the process."""
    _log(request)
    try:
        config = _keeper_config(request.file, request.settings, insecure=request.insecure)
    except ConfigError as error:
        print(f"ottla keeper: {request.file}: {error}", file=sys.stderr)
        return BAD_CONFIG

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
    file = request.file
    try:
        config = BrokerConfig.from_file(file, request.settings, insecure=request.insecure)
        if request.keeper is not None:
            file = request.keeper
            keeper_config = _keeper_config(file, {}, insecure=request.insecure)
    except ConfigError as error:
        print(f"ottla broker: {file}: {error}", file=sys.stderr)
        return BAD_CONFIG
    log = logging.getLogger("ottla.broker")
    for name in config.unknown:
        log.warning("%s is no setting of a broker and has no effect", name)
    for name, reason in config.inert.items():
        log.warning("%s has no effect: %s", name, reason)

    from ottla.broker.main import run

    try:
        if request.keeper is None:
            return run(config)
        from ottla.keeper.main import serving

        return run(config, beside=lambda: serving(keeper_config))
    except Error as error:
        print(f"ottla broker: {request.file}: {error}", file=sys.stderr)
        return 1


def _keeper_config(file: str, settings: Mapping[str, str], *, insecure: bool) -> KeeperConfig:
    from ottla.keeper.config import KeeperConfig

    config = KeeperConfig.from_file(file, settings, insecure=insecure)
    config.log_warnings(logging.getLogger("ottla.keeper"))
    return config


def _log(request: ServerRequest) -> None:
    logging.basicConfig(level=logging.DEBUG if request.verbose else logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
