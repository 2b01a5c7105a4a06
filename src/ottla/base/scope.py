"""Where every asyncio task lives.

    async with TaskScope("keeper") as scope:
        scope.spawn(serve(), name="serve")
        await stopped.wait()

1. Leaving the block cancels the tasks still running and waits until the last one is gone: nothing outlives its scope.
2. The first task that fails cancels the block and its siblings, and its exception leaves the ``async with`` as itself.
   Failures after the first are attached to it as notes.
3. Cancelling the task that holds the block is passed on to the children and is never swallowed, not even when it
   arrives while the scope already waits for them. A failure that it overtakes goes to the loop's exception handler.

``asyncio.TaskGroup`` differs in two points: it waits for its children where this cancels them, and it wraps every
failure in a group, so that no caller can write ``except ConfigError``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class TaskScope:
    """A set of tasks with one lifetime. See the module's theory of operation."""

    __slots__ = ("_cancelled_before", "_failure", "_interrupted", "_open", "_parent", "_tasks", "name")

    def __init__(self, name: str = "scope") -> None:
        self.name = name
        self._parent: asyncio.Task[Any] | None = None
        self._cancelled_before = 0
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in the order they came, for histories that can be repeated
        self._failure: BaseException | None = None
        self._interrupted = False  # whether a failure made us cancel the parent
        self._open = False

    def __len__(self) -> int:
        return len(self._tasks)

    async def __aenter__(self) -> Self:
        assert self._parent is None, "a scope is entered once"
        self._parent = asyncio.current_task()
        assert self._parent is not None, "a scope is entered by a task"
        self._cancelled_before = self._parent.cancelling()
        self._open = True
        return self

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run ``coroutine`` until it ends or the scope does. A scope that is closing takes no more."""
        if not self._open:
            coroutine.close()
            raise RuntimeError(f"scope {self.name!r} is not open")
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    def cancel(self) -> None:
        """Ask every child to end. The block goes on; leaving it waits for them."""
        for task in tuple(self._tasks):
            task.cancel()

    async def wait(self) -> None:
        """Wait until no child runs. A child that fails interrupts this like any other await in the block."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        parent = self._parent
        assert parent is not None
        self._open = False
        cancelled = await self._drain()
        if self._interrupted:
            parent.uncancel()  # that one was ours
        failure, self._failure = self._failure, None
        if parent.cancelling() > self._cancelled_before:
            if failure is not None:
                self._report(failure)
            if cancelled is not None:
                raise cancelled
        elif failure is not None:
            if exc is None or isinstance(exc, asyncio.CancelledError):
                raise failure
            exc.add_note(f"scope {self.name!r}: a task had failed with {failure!r}")

    async def _drain(self) -> asyncio.CancelledError | None:
        """End the children; remember, rather than obey, a cancellation that comes meanwhile."""
        cancelled = None
        self.cancel()
        while self._tasks:
            try:
                await asyncio.wait(tuple(self._tasks))
            except asyncio.CancelledError as error:
                cancelled = error
                self.cancel()
        return cancelled

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._failure is not None:
            self._failure.add_note(f"scope {self.name!r}: then {task.get_name()} failed with {error!r}")
            return
        self._failure = error
        if self._open and self._parent is not None:
            self.cancel()
            self._interrupted = True
            self._parent.cancel()

    def _report(self, failure: BaseException) -> None:
        context = {"message": f"scope {self.name!r}: a task failed while it was cancelled", "exception": failure}
        asyncio.get_running_loop().call_exception_handler(context)
