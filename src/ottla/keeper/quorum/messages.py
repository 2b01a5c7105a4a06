"""What keepers say to each other.

*Notifications* travel between any two servers, like datagrams: each may be lost, repeated or late. Everything else
travels over a *link*, a connection from a learner to the server it takes for the leader: in order, or not at all.

    learner                                  leader
      LearnerInfo  ──────────────────────►            who I am, the newest epoch I have promised
                   ◄──────────────────────  LeaderInfo      the epoch I am to lead
      AckEpoch     ──────────────────────►            promised; this is where my history ends
                   ◄──────────────────────  Truncate? Snapshot? Propose*      make your history mine
                   ◄──────────────────────  NewLeader
      AckNewLeader ──────────────────────►            all of it is on my disk
                   ◄──────────────────────  UpToDate        a quorum has it: serve
                   ◄──────────────────────  Propose, CommitOnSync, Commit, Ping
      Ack, Pong    ──────────────────────►
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, NamedTuple

from ottla.keeper.proto.txns import Entry
from ottla.keeper.proto.values import Value


class Role(IntEnum):
    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2
    OBSERVING = 3


class Vote(NamedTuple):
    """Whom a server would follow. Compared as tuples: highest epoch, then zxid, then server id."""

    epoch: int
    zxid: int
    leader: int


class Notification(NamedTuple):
    sender: int
    role: Role
    round: int
    vote: Vote
    blank: bool
    """The sender holds nothing and has promised nothing: a new server, or one that lost its disk."""


class LearnerInfo(NamedTuple):
    server_id: int
    accepted_epoch: int
    blank: bool


class LeaderInfo(NamedTuple):
    epoch: int


class AckEpoch(NamedTuple):
    fresh: bool
    """False if the epoch had been promised before, perhaps to another: then it must not count again."""
    current_epoch: int
    last_zxid: int
    whole: bool
    """The history is known to be good. If not, only a snapshot can mend it."""


class Truncate(NamedTuple):
    zxid: int


class Snapshot(NamedTuple):
    """Sent: stream the tree. Received: the tree has been installed, durably, and ends at ``zxid``."""

    zxid: int


class Propose(Value):
    _fields: ClassVar[tuple[str, ...]] = ("entries",)

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries


class NewLeader(NamedTuple):
    epoch: int


class AckNewLeader(NamedTuple):
    epoch: int
    zxid: int


class UpToDate(NamedTuple):
    zxid: int


class Ack(Value):
    _fields: ClassVar[tuple[str, ...]] = ("zxid",)

    def __init__(self, zxid: int) -> None:
        self.zxid = zxid


class Commit(Value):
    _fields: ClassVar[tuple[str, ...]] = ("zxid",)

    def __init__(self, zxid: int) -> None:
        self.zxid = zxid


class CommitOnSync(Value):
    """Committed as soon as the learner this is sent to has it on disk: every other server it takes has it already."""

    _fields: ClassVar[tuple[str, ...]] = ("zxid",)

    def __init__(self, zxid: int) -> None:
        self.zxid = zxid


class Ping(NamedTuple):
    pass


class Pong(NamedTuple):
    pass


LinkMessage = (
    LearnerInfo
    | LeaderInfo
    | AckEpoch
    | Truncate
    | Snapshot
    | Propose
    | NewLeader
    | AckNewLeader
    | UpToDate
    | Ack
    | Commit
    | CommitOnSync
    | Ping
    | Pong
)
