"""Znode paths: which are valid, and where a path's parent is."""

from __future__ import annotations

import re
from typing import Final

from ottla.keeper.proto.errors import ErrorCode, KeeperError

# ZooKeeper checks UTF-16 units: control characters, surrogates (so everything beyond the BMP), private use
# and the specials block are not for names.
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_RELATIVE: Final = re.compile(r"/\.\.?(/|$)")


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"


def name_of(path: str) -> str:
    return path[path.rindex("/") + 1 :]


def is_valid(path: str) -> bool:
    if path == "/":
        return True
    return (
        path.startswith("/")
        and not path.endswith("/")
        and "//" not in path
        and ((path.isascii() and path.isprintable()) or _FORBIDDEN.search(path) is None)
        and ("/." not in path or _RELATIVE.search(path) is None)
    )


def require_valid(path: str) -> None:
    if not is_valid(path):
        raise KeeperError(ErrorCode.BAD_ARGUMENTS, f"invalid path {path!r}")


def require_parent(path: str) -> str:
    """The parent of a path that is only known to be a string; the root has none."""
    if "/" not in path or "\0" in path:
        raise KeeperError(ErrorCode.BAD_ARGUMENTS, f"invalid path {path!r}")
    return path[: path.rindex("/")] or "/"
