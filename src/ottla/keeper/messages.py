"""What servers tell each other on behalf of clients, over the same links as the quorum's own messages.

A sync is answered at once with the point it stands for in the order of transactions; the server that asked waits until
it has come that far, and so keeps the sync between the same two writes everywhere.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from ottla.keeper.proto.values import Value
from ottla.keeper.quorum.messages import LinkMessage
from ottla.keeper.server.prep import Submitted


class Forward(Value):
    """A learner's client wants to write."""

    _fields: ClassVar[tuple[str, ...]] = ("request",)

    def __init__(self, request: Submitted) -> None:
        self.request = request


class SyncAsk(NamedTuple):
    session_id: int
    cxid: int


class SyncPoint(NamedTuple):
    """The answer to a sync: it is done where everything up to ``zxid`` has been applied."""

    session_id: int
    cxid: int
    zxid: int


class Revalidate(NamedTuple):
    """A client came back with its session: is it alive? Then it moves here."""

    session_id: int
    owner: int
    timeout_ms: int
    """What the server and the client have agreed on this time."""


class Revalidated(NamedTuple):
    session_id: int
    valid: bool


class Touch(NamedTuple):
    """Sessions that a learner heard from since it last said so."""

    session_ids: tuple[int, ...]


RelayMessage = Forward | SyncAsk | SyncPoint | Revalidate | Revalidated | Touch
Message = LinkMessage | RelayMessage
