"""What a file in ``apis`` is made of: one API, who may call it, and the function that answers.

A handler is synchronous, ``handle(ctx, request)``, and gives one of three things:

    a response   sent at once, or when those before it on the connection have been sent
    Parked       the answer comes later; nothing is kept of the request but what will complete it
    None         the client asked for no answer (a produce with acks=0)

The operation and the resource an API needs are declared with it, so that access control can act in ``dispatch``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.wire import ApiKey, Message

if TYPE_CHECKING:
    from ottla.broker.context import Context


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


class Parked:
    """An answer that is still to come. ``complete`` is called once; what comes after that is nobody's concern."""

    __slots__ = ("_on_complete", "response")

    def __init__(self) -> None:
        self.response: Message | None = None
        self._on_complete: Callable[[Message], None] | None = None

    @property
    def is_complete(self) -> bool:
        return self.response is not None

    def complete(self, response: Message) -> None:
        if self.response is not None:
            return
        self.response = response
        if self._on_complete is not None:
            self._on_complete(response)

    def when_complete(self, callback: Callable[[Message], None]) -> None:
        """For the connection that has to send the answer."""
        self._on_complete = callback
        if self.response is not None:
            callback(self.response)


Answer = Message | Parked | None
Handle = Callable[["Context", Any], Answer]


class Handler(NamedTuple):
    """One API as this broker serves it."""

    key: ApiKey
    handle: Handle
    operation: Operation
    resource: Resource
