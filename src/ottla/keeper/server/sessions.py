"""Sessions as the leader tracks them, and the password that proves one.

A session is created by one transaction and ended by one. Between the two it lives while somebody touches it: its
client through any server, whose touches the leader learns with each pong. Only the leader decides that one has
expired, by monotonic time, at the first tick boundary after its timeout, so never early and at most a tick late.
A new leader gives every session its whole timeout again.

A session is attached to one server at a time, its *owner*. A request that reaches the leader through another one
came over a connection the client has left, and gets SESSION_MOVED. Whoever attaches it agrees on a timeout with its
client anew, which holds from then on; a new leader begins with those that the sessions were created with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.base.timers import ExpiryQueue
from ottla.keeper.proto.errors import ErrorCode, KeeperError

NOBODY: Final = -1
"""The owner of requests that the ensemble makes for itself."""
_SECRET: Final = 0xB3415C00
_LCG_MULTIPLIER: Final = 0x5DEECE66D
_LCG_MASK: Final = (1 << 48) - 1


def password_of(session_id: int) -> bytes:
    """The password of a session: the bytes ZooKeeper itself derives, so that sessions outlive a change of server.

    It is java.util.Random seeded with the id and a constant: it proves that a client once heard it from a
    server, not more, exactly as in ZooKeeper.
    """
    state = ((session_id ^ _SECRET) ^ _LCG_MULTIPLIER) & _LCG_MASK
    out = bytearray()
    for _ in range(4):
        state = (state * _LCG_MULTIPLIER + 0xB) & _LCG_MASK
        out += (state >> 16).to_bytes(4, "little")
    return bytes(out)


def first_session_id(server_id: int, wall_ms: int) -> int:
    """Where a server starts counting session ids: its own id on top, then the time, so that no two collide."""
    return _signed(((wall_ms << 24) & ((1 << 64) - 1)) >> 8 | (server_id & 0xFF) << 56)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


class SessionTracker:
    """The leader's table. Times are milliseconds of the monotonic clock."""

    def __init__(self, sessions: dict[int, int], tick_ms: int, now_ms: int) -> None:
        self._timeouts: dict[int, int] = {}
        self._owners: dict[int, int] = {}
        self._closing: set[int] = set()
        self._expiry: ExpiryQueue[int] = ExpiryQueue(tick_ms)
        self._now_ms = now_ms
        for session_id, timeout_ms in sessions.items():
            self._track(session_id, timeout_ms)

    def __len__(self) -> int:
        return len(self._timeouts)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._timeouts

    def _track(self, session_id: int, timeout_ms: int) -> None:
        self._timeouts[session_id] = timeout_ms
        self._expiry.update(session_id, timeout_ms, self._now_ms)

    def at(self, now_ms: int) -> None:
        """Tell the time; whatever follows happens then."""
        self._now_ms = now_ms

    def touch(self, session_id: int) -> bool:
        timeout_ms = self._timeouts.get(session_id)
        if timeout_ms is None or session_id in self._closing:
            return False
        self._expiry.update(session_id, timeout_ms, self._now_ms)
        return True

    def reattach(self, session_id: int, owner: int, timeout_ms: int) -> bool:
        """A client came back through ``owner``, with this timeout from now on; False if its session is no more."""
        if session_id not in self._timeouts or session_id in self._closing:
            return False
        self._track(session_id, timeout_ms)
        self._owners[session_id] = owner
        return True

    def check(self, session_id: int, owner: int) -> None:
        if owner == NOBODY:
            return
        if session_id not in self._timeouts or session_id in self._closing:
            raise KeeperError(ErrorCode.SESSION_EXPIRED)
        known = self._owners.setdefault(session_id, owner)
        if known != owner:
            raise KeeperError(ErrorCode.SESSION_MOVED)

    def opened(self, session_id: int, timeout_ms: int, owner: int) -> None:
        self._track(session_id, timeout_ms)
        self._owners[session_id] = owner

    def closing(self, session_id: int) -> None:
        self._closing.add(session_id)

    def closed(self, session_id: int) -> None:
        """The transaction that ends the session has been applied."""
        self._timeouts.pop(session_id, None)
        self._owners.pop(session_id, None)
        self._closing.discard(session_id)
        self._expiry.remove(session_id)

    def expired(self, now_ms: int) -> Iterable[int]:
        """Sessions whose time is up and that are not being closed already; each is named once."""
        self._now_ms = now_ms
        return [session_id for session_id in self._expiry.poll(now_ms) if session_id not in self._closing]
