"""What a shard decides: records to be written, then whom to tell what, and when to be woken.

A handler of a shard takes a request and the time, and returns an ``Outcome``. It reads the state that the log stands for and
leaves it as it is: ``replay`` changes that, once the records are in the log. What no log restores (who waits for an answer,
whose session runs) is changed at once.

The order of the acts is the order of the fields: write, replay, set timers, tell. ``replies`` go out when the records are on
every replica in sync. If they cannot be written, or not in time, ``refused`` says what to tell instead; where there is no
``refused``, nobody waits for the records, and the replies go out all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ottla.wire import ErrorCode, Message

R = TypeVar("R")

Reply = Callable[[Message], None]
"""Where an answer goes. A shard keeps it, returns it with the answer, and never calls it."""
TimerKey = Hashable


class Outcome(Generic[R]):
    """See the module. A handler adds to it as it goes."""

    __slots__ = ("after_log", "records", "refused", "replies", "timers")

    def __init__(self) -> None:
        self.records: list[R] = []
        self.timers: dict[TimerKey, int | None] = {}
        """Milliseconds from now; None takes a timer back. Setting one that runs starts it anew."""
        self.replies: list[tuple[Reply, Message]] = []
        self.after_log = False
        """The replies tell what is in the log, so they wait until all of it is replicated, with or without new records."""
        self.refused: Callable[[ErrorCode], Outcome[R]] | None = None

    def reply(self, to: Reply | None, response: Message) -> None:
        if to is not None:
            self.replies.append((to, response))


def answered(to: Reply, response: Message) -> Outcome[R]:
    """Nothing but an answer."""
    outcome: Outcome[R] = Outcome()
    outcome.replies.append((to, response))
    return outcome
