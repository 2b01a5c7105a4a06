"""One answer out of several that come at their own time, as a request that names many groups asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from ottla.broker.api import Parked
from ottla.wire import Message

P = TypeVar("P", bound=Message)


class Gathering(Generic[P]):
    def __init__(self, count: int, finish: Callable[[Sequence[P]], Message]) -> None:
        self.parked = Parked()
        self._parts: list[P | None] = [None] * count
        self._left = count
        self._finish = finish
        if not count:
            self.parked.complete(finish(()))

    def place(self, number: int) -> Callable[[Any], None]:
        """Where one of the parts goes, once."""
        return partial(self._put, number)

    def _put(self, number: int, part: P) -> None:
        assert self._parts[number] is None, "a part comes once"
        self._parts[number] = part
        self._left -= 1
        if not self._left:
            self.parked.complete(self._finish([each for each in self._parts if each is not None]))
