"""The loggers of this process and their levels, as settings under log4j's names."""

from __future__ import annotations

import logging
from typing import Final

ROOT: Final = "root"
LEVELS: Final = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}
CHOICES: Final = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
"""Those that can be set; in the order in which errors list them."""
_WORDS: Final = {level: word for word, level in LEVELS.items()}


def levels() -> dict[str, str]:
    """Every logger with the level that holds for it."""
    known = sorted(
        name for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger)
    )
    found = {}
    for name in (ROOT, *known):
        level = _logger(name).getEffectiveLevel()
        found[name] = _WORDS.get(level) or logging.getLevelName(level)
    return found


def exists(name: str) -> bool:
    return name == ROOT or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)


def set_level(name: str, word: str) -> None:
    _logger(name).setLevel(LEVELS[word])


def unset_level(name: str) -> None:
    """From here on the level of the logger above holds."""
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
