"""An event loop of asyncio whose time is an argument: it jumps to the next deadline when nothing else is left to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Skipping(selectors.SelectSelector):
    """Waits for nothing: what would be waited for has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits, and for nothing"
        self.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now_s

    def run_in_executor(self, _executor: object, work: Callable[..., T], *args: object) -> asyncio.Future[T]:
        """Other threads would know nothing of this time: what they are to do is done at once."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(work(*args))
        except Exception as error:  # noqa: BLE001  # whoever waits for it gets it
            done.set_exception(error)
        return done


def run(story: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop, debug=False) as runner:
        return runner.run(story)


class LoopClock:
    """The clocks of a machine whose time is the loop's."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(asyncio.get_running_loop().time() * 1000)
