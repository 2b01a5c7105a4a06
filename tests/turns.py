"""Tests run two at a time (``make test``), but for those with the marker ``alone``: what they see is a matter of time.

Each worker takes a turn for each test: a place in a room that many may share, or the room to itself. Whoever wants it alone
keeps the door shut while waiting, so that nobody slips in meanwhile. Both are locks on files, which end with their holder.
"""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


class Turns:
    def __init__(self, run_id: str) -> None:
        folder = Path(tempfile.gettempdir()) / f"ottla-tests-{run_id}"
        folder.mkdir(exist_ok=True)
        self._door = (folder / "door").open("w")
        self._room = (folder / "room").open("w")

    @contextmanager
    def turn(self, *, alone: bool) -> Iterator[None]:
        with _locked(self._door, fcntl.LOCK_EX):
            fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)


@contextmanager
def _locked(file: IO[str], how: int) -> Iterator[None]:
    fcntl.flock(file, how)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
