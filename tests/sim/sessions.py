"""Z9: sessions end by the leader's word alone, never early and never much too late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.keeper.proto.jute import INT
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.txns import TXN_HEADER, Entry
from ottla.keeper.roles import LeaderUpstream
from tests.sim.loop import Violation

if TYPE_CHECKING:
    from tests.sim.server import Server

LATE_SLACK_MS = 130
"""How much later than its time a server's tick may come, twice."""


class Term:
    """One leader's time in office, and when it last heard of each session by its own clock."""

    def __init__(self, epoch: int, now_ms: int, timeouts: dict[int, int]) -> None:
        self.epoch = epoch
        self.timeouts = dict(timeouts)
        self.heard_ms = dict.fromkeys(timeouts, now_ms)
        self.resumed_ms = now_ms


class SessionChecks:
    def __init__(self, tick_ms: int, hit: Callable[[str], None]) -> None:
        self._tick_ms = tick_ms
        self._hit = hit
        self._terms: dict[int, Term] = {}
        self.closing: set[int] = set()
        """Sessions whose end some leader has decided, whether it comes to that or not."""

    def leads(self, server: Server, epoch: int) -> None:
        sessions = server.member.frontend.tree.sessions
        self._terms[server.server_id] = Term(epoch, server.clock.true_ms(), sessions)

    def left(self, server: Server) -> None:
        self._terms.pop(server.server_id, None)

    def resumed(self, server: Server) -> None:
        term = self._terms.get(server.server_id)
        if term is not None:
            term.resumed_ms = server.clock.true_ms()

    def heard(self, server: Server, session_id: int, agreed_ms: int | None) -> None:
        term = self._terms.get(server.server_id)
        upstream = server.member.frontend.upstream
        if term is None or session_id not in term.heard_ms:
            return
        if isinstance(upstream, LeaderUpstream) and session_id not in upstream.tracker._closing:
            term.heard_ms[session_id] = server.clock.true_ms()
            if agreed_ms not in (None, term.timeouts[session_id]):
                self._hit("session reattached with another timeout")
                term.timeouts[session_id] = agreed_ms

    def stepped(self, server: Server) -> None:
        upstream = server.member.frontend.upstream
        if isinstance(upstream, LeaderUpstream) and upstream.tracker._closing:
            self.closing |= upstream.tracker._closing

    def proposed(self, server: Server, entries: Sequence[Entry]) -> None:
        """The leader made these transactions just now."""
        for _, raw in entries:
            session_id, cxid, zxid, _, type_ = TXN_HEADER.unpack_from(raw)
            term = self._terms.get(server.server_id)
            if term is None:
                raise Violation(f"Z13: server {server.server_id} proposes 0x{zxid:x} and leads nobody")
            if type_ == OpCode.CREATE_SESSION:
                term.timeouts[session_id] = INT.unpack_from(raw, TXN_HEADER.size)[0]
                term.heard_ms[session_id] = server.clock.true_ms()
            elif type_ == OpCode.CLOSE_SESSION:
                heard_ms = term.heard_ms.pop(session_id, None)
                if cxid == 0 and heard_ms is not None:
                    self._hit("session expired")
                    self._expired(session_id, term.timeouts[session_id], server.clock.true_ms() - heard_ms)

    def _expired(self, session_id: int, timeout_ms: int, silent_ms: int) -> None:
        if silent_ms < timeout_ms - 1:
            raise Violation(f"Z9: session 0x{session_id:x} of {timeout_ms} ms expired after {silent_ms} ms")

    def ticked(self, server: Server) -> None:
        """By now the leader has had the chance to expire whatever is due."""
        term = self._terms.get(server.server_id)
        if term is None:
            return
        now_ms = server.clock.true_ms()
        for session_id, heard_ms in term.heard_ms.items():
            late_ms = now_ms - max(heard_ms, term.resumed_ms) - term.timeouts[session_id] - 2 * self._tick_ms
            if late_ms > LATE_SLACK_MS:
                raise Violation(f"Z9: session 0x{session_id:x} should have expired {late_ms} ms ago")
