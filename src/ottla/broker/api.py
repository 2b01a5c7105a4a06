"""What a file in ``apis`` is made of: one API, who may call it, and the function that answers.

A handler is synchronous, ``handle(ctx, request)``, and gives one of three things:

    a response   sent at once, or when those before it on the connection have been sent
    Parked       the answer comes later; nothing is kept of the request but what will complete it
    None         the client asked for no answer (a produce with acks=0)

The operation and the resource an API needs are declared with it, so that access control can act in ``dispatch``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.base.errors import RemoteProtocolError
from ottla.base.scope import TaskScope
from ottla.wire import ApiKey, Message

if TYPE_CHECKING:
    from ottla.broker.context import Context

T = TypeVar("T")

log = logging.getLogger(__name__)


class Operation(Enum):
    """What is done to a resource, in Kafka's words."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster action"
    DESCRIBE_CONFIGS = "describe configs"
    ALTER_CONFIGS = "alter configs"
    IDEMPOTENT_WRITE = "idempotent write"


class Resource(Enum):
    """What it is done to. ``TOPICS`` and the like mean those that the request names."""

    NOTHING = "nothing"
    CLUSTER = "cluster"
    TOPICS = "topics"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"


Reply = Message | RemoteProtocolError | None
"""None: it is done, and there is nothing to say. An error ends the connection."""


class Parked:
    """An answer that is still to come. ``complete`` is called once; what comes after that is nobody's concern.

    ``on_abandoned`` is called if the client is gone before that: whatever waits on its behalf is to stop waiting.
    """

    __slots__ = ("_on_complete", "holds", "is_complete", "on_abandoned", "response")

    def __init__(self, on_abandoned: Callable[[], None] | None = None, *, holds: bool = False) -> None:
        self.response: Reply = None
        self.on_abandoned = on_abandoned
        self.holds = holds
        """What the client sent behind this request has to wait for the answer, or it would overtake."""
        self.is_complete = False
        self._on_complete: Callable[[Reply], None] | None = None

    def complete(self, response: Reply) -> None:
        if self.is_complete:
            return
        self.is_complete = True
        # Whoever waits for this refers to it, and it to them: let go, or all of that stays until somebody looks for cycles.
        callback, self._on_complete, self.on_abandoned = self._on_complete, None, None
        if callback is None:
            self.response = response
        else:
            callback(response)

    def answer(self) -> Answer:
        """For a handler: what was decided at once is answered at once."""
        if not self.is_complete:
            return self
        if isinstance(self.response, RemoteProtocolError):
            raise self.response
        return self.response

    def follow(self, answer: Answer | RemoteProtocolError) -> None:
        """Be complete with ``answer``: now, or when that is."""
        if isinstance(answer, Parked):
            self.on_abandoned = answer.on_abandoned
            answer.when_complete(self.complete)
        else:
            self.complete(answer)

    def when_complete(self, callback: Callable[[Reply], None]) -> None:
        """For the connection that has to send the answer."""
        if self.is_complete:
            callback(self.response)
        else:
            self._on_complete = callback


def later(scope: TaskScope, deed: Coroutine[Any, Any, Answer], *, name: str) -> Parked:
    """The answer to a request that takes a task of its own, one that keeps what the sender sends behind it waiting."""
    parked = Parked(holds=True)

    def done(task: asyncio.Task[Answer | RemoteProtocolError]) -> None:
        if task.cancelled():
            deed.close()  # which has not begun where the scope ended in the same turn
        else:
            parked.follow(task.result())

    try:
        scope.spawn(_unfailing(deed, name), name=name).add_done_callback(done)
    except RuntimeError:
        deed.close()
        raise
    return parked


def tend(scope: TaskScope, work: Callable[[], Coroutine[Any, Any, None]], parked: Parked, *, name: str) -> None:
    """Have a task do what completes ``parked``, be it with an error."""

    async def unfailing() -> None:
        error = await _unfailing(work(), name)
        if error is not None:
            parked.complete(error)

    scope.spawn(unfailing(), name=name)


async def _unfailing(deed: Coroutine[Any, Any, T], name: str) -> T | RemoteProtocolError:
    """A request nobody foresaw costs its sender the connection, and no one else anything."""
    try:
        return await deed
    except Exception:
        log.exception("%s could not be done", name)
        return RemoteProtocolError(f"{name} could not be done")


Answer = Message | Parked | None
Handle = Callable[["Context", Any], Answer]
Together = Callable[["Context", list[Any]], list[Answer | RemoteProtocolError]]
"""Answers to the first of several requests that came in one go, at least one. An error ends the connection in its turn."""


class Handler(NamedTuple):
    """One API as this broker serves it."""

    key: ApiKey
    handle: Handle
    operation: Operation
    resource: Resource
    together: Together | None = None
    """Where requests are better handled with those that came behind them."""
