"""What goes into the machine and what comes out.

The fields of ``Effects`` stand in the order a shell must act on them: persist, then believe, then tell. What is *told*
may promise only what was persisted before; that order is the whole defence against losing what was acknowledged:

    accepted_epoch   durable before any message that follows     (a promise once made must survive)
    truncate_to      durable; then report ``Truncated``
    append           write, start to sync, go on; report ``Synced`` when it is durable
    current_epoch    durable; emitted only when every entry of that epoch's start is (ZOOKEEPER-4643)
    commit           apply every entry up to it, fire watches, answer clients
    role             what this server is from now on
    close, connect   links
    send             messages, in order
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from ottla.keeper.proto.txns import Entry
from ottla.keeper.proto.values import Value
from ottla.keeper.quorum.messages import LinkMessage, Notification, Role


class LinkUp(NamedTuple):
    """A link this server asked for is open."""

    link: int


class LinkDown(NamedTuple):
    link: int


class Received(Value):
    _fields: ClassVar[tuple[str, ...]] = ("link", "message")

    def __init__(self, link: int, message: LinkMessage) -> None:
        self.link = link
        self.message = message


class Notified(NamedTuple):
    notification: Notification


class Synced(Value):
    """Everything appended up to ``zxid`` is durable."""

    _fields: ClassVar[tuple[str, ...]] = ("zxid",)

    def __init__(self, zxid: int) -> None:
        self.zxid = zxid


class Truncated(NamedTuple):
    """The log has been cut and now ends at ``zxid``."""

    zxid: int


class Proposed(Value):
    """The leader's own server made transactions; they carry the zxids ``next_zxid`` gave."""

    _fields: ClassVar[tuple[str, ...]] = ("entries",)

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries


class Tick(NamedTuple):
    pass


Event = LinkUp | LinkDown | Received | Notified | Synced | Truncated | Proposed | Tick


class RoleChange(NamedTuple):
    role: Role
    leader: int | None
    epoch: int
    serving: bool
    """True once this server may answer clients: the history it holds is a quorum's."""


class Effects:
    """Mutable while a step runs; a shell reads it once and drops it."""

    __slots__ = (
        "accepted_epoch", "append", "close", "commit", "connect", "current_epoch", "log", "notify", "role", "send",
        "truncate_to",
    )  # fmt: skip

    def __init__(self) -> None:
        self.accepted_epoch: int | None = None
        self.truncate_to: int | None = None
        self.append: list[Entry] = []
        self.current_epoch: int | None = None
        self.commit: int | None = None
        self.role: RoleChange | None = None
        self.close: list[int] = []
        self.connect: int | None = None
        self.send: list[tuple[int, LinkMessage]] = []
        self.notify: list[tuple[int, Notification]] = []
        self.log: list[str] = []
        """What an operator should be able to read about this step."""
