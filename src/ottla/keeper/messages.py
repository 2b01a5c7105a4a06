"""What servers tell each other on behalf of clients, over the same links as the quorum's own messages.

Because a link keeps its order, a ``SyncDone`` that the leader sends behind a ``Commit`` arrives behind it.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.keeper.quorum.messages import LinkMessage
from ottla.keeper.server.prep import Submitted


class Forward(NamedTuple):
    """A learner's client wants to write."""

    request: Submitted


class SyncAsk(NamedTuple):
    session_id: int
    cxid: int


class SyncDone(NamedTuple):
    session_id: int
    cxid: int


class Revalidate(NamedTuple):
    """A client came back with its session: is it alive, and may it move here?"""

    session_id: int
    owner: int


class Revalidated(NamedTuple):
    session_id: int
    valid: bool


class Touch(NamedTuple):
    """Sessions that a learner heard from since it last said so."""

    session_ids: tuple[int, ...]


RelayMessage = Forward | SyncAsk | SyncDone | Revalidate | Revalidated | Touch
Message = LinkMessage | RelayMessage
