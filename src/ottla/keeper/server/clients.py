"""One client connection, as the server keeps it."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, Protocol

from ottla.keeper.proto.opcodes import Perms
from ottla.keeper.proto.records import ACL, OPEN_ACL_UNSAFE, Id
from ottla.keeper.server.acl import allowed, host_address

_READ: Final = Perms.READ.value


class Outlet(Protocol):
    """Where a client's replies go. The real one is a socket; tests and the simulation have their own."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None:
        """Send what was written, then end the connection."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class State(Enum):
    NEW = "new"  # nothing received
    CONNECTING = "connecting"  # the session is being created or validated; frames wait
    OPEN = "open"
    CLOSED = "closed"


class Waiting:
    """A request that cannot be answered yet: a write on its way, or anything behind one."""

    __slots__ = ("frame", "since_ms", "submitted", "type", "xid")

    def __init__(self, xid: int, type_: int, frame: bytes, since_ms: int, *, submitted: bool) -> None:
        self.xid = xid
        self.type = type_
        self.frame = frame
        self.since_ms = since_ms
        self.submitted = submitted
        """Sent to the leader, whose answer it waits for; otherwise it only waits for its turn."""


class Client:
    """Compared by identity; holds no logic beyond what its own state decides."""

    __slots__ = (
        "address", "backlog", "ids", "last_cxid", "last_latency_ms", "last_op", "last_response_ms", "last_zxid",
        "latency_count", "latency_max_ms", "latency_min_ms", "latency_total_ms", "opened_ms", "outlet", "paused",
        "port", "received", "sent", "session_id", "skip_acl", "state", "timeout_ms", "waiting", "with_read_only",
    )  # fmt: skip

    def __init__(self, outlet: Outlet, address: str, port: int, opened_ms: int, *, skip_acl: bool = False) -> None:
        self.outlet = outlet
        self.address = host_address(address)
        self.port = port
        self.ids: tuple[Id, ...] = (Id("ip", self.address),)
        self.skip_acl = skip_acl
        self.state = State.NEW
        self.session_id = 0
        self.timeout_ms = 0
        self.with_read_only = True
        self.waiting: deque[Waiting] = deque()
        self.backlog: list[bytes] = []
        self.paused = False
        self.opened_ms = opened_ms
        self.reset_counters()

    def reset_counters(self) -> None:
        self.received = 0
        self.sent = 0
        self.last_op = "NA"
        self.last_cxid = -1
        self.last_zxid = -1
        self.last_response_ms = 0
        self.last_latency_ms = 0
        self.latency_min_ms = 0
        self.latency_max_ms = 0
        self.latency_total_ms = 0
        self.latency_count = 0

    def may_read(self, acl: tuple[ACL, ...]) -> bool:
        return acl is OPEN_ACL_UNSAFE or self.skip_acl or allowed(acl, _READ, self.ids)

    def notify(self, frame: bytes) -> None:
        self.sent += 1
        self.outlet.write(frame)
