"""The end of a turn of the loop, shared by the connections of one server.

A callback of the loop reads what has arrived and writes answers; several of them make up a turn. What a turn has
gathered is dealt with once, at its end, in this order:

    before    make messages of what was gathered (a leader proposes what was prepared)
    flush     what was written leaves
    after     what may wait for that (the log is written and synced)
    flush     whatever came of it leaves as well
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol


class Flushed(Protocol):
    def flush(self) -> None: ...


class Turn:
    def __init__(self, loop: AbstractEventLoop, *, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._loop = loop
        self._before = before
        self._after = after
        self._dirty: list[Flushed] = []
        self._asked = False
        self._ending = False

    def ask(self) -> None:
        """There is something to be done at the end of this turn."""
        if not self._asked:
            self._asked = True
            self._loop.call_soon(self._end)

    def wrote(self, connection: Flushed) -> None:
        """``connection`` has something to send; it says so once until it is flushed."""
        self._dirty.append(connection)
        if not self._ending:
            self.ask()

    def _end(self) -> None:
        self._ending = True
        self._before()
        self._flush()
        self._asked = False  # from here on whatever is asked for belongs to the next turn
        self._after()
        self._flush()
        self._ending = False

    def _flush(self) -> None:
        while self._dirty:
            dirty, self._dirty = self._dirty, []
            for connection in dirty:
                connection.flush()
