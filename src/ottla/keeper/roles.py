"""How a server's requests reach the leader, by role.

    role                      submit                sync                      revalidate
    leader, lone server       prepare and propose   behind all it proposed    ask the tracker
    follower, observer        forward               ask the leader            ask the leader
    read-only                 refused               refused                   by the tree it has
    looking                   no clients            no clients                no clients

The front end does not know which of these it has.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.base.clock import Clock
from ottla.keeper.messages import Forward, RelayMessage, Revalidate, SyncAsk
from ottla.keeper.proto.errors import ErrorCode
from ottla.keeper.proto.opcodes import OpCode
from ottla.keeper.proto.txns import Entry, ErrorTxn, Txn, encode_txn
from ottla.keeper.quorum.leading import Leading
from ottla.keeper.server.prep import Prep, Rules, Submitted
from ottla.keeper.server.sessions import NOBODY, SessionTracker
from ottla.keeper.server.stats import Stats
from ottla.keeper.server.tree import CONTAINER_OWNER, DataTree, is_ttl, ttl_of


class NotServing:
    """No leader is known: there is no way upstream, and no client is let in."""

    read_only = False

    def submit(self, request: Submitted) -> None:
        raise AssertionError("no client is connected while there is no leader")

    def sync(self, session_id: int, cxid: int) -> None:
        raise AssertionError("no client is connected while there is no leader")

    def revalidate(self, session_id: int, timeout_ms: int) -> None:
        raise AssertionError("no client is connected while there is no leader")


class ReadOnly(NotServing):
    """Cut off from the quorum, but allowed to show what it has. The front end refuses writes by itself."""

    read_only = True


class LearnerUpstream:
    """Follower or observer: everything that needs deciding goes to the leader."""

    read_only = False

    def __init__(self, server_id: int, send: Callable[[RelayMessage], None]) -> None:
        self._server_id = server_id
        self._send = send

    def submit(self, request: Submitted) -> None:
        self._send(Forward(request))

    def sync(self, session_id: int, cxid: int) -> None:
        self._send(SyncAsk(session_id, cxid))

    def revalidate(self, session_id: int, timeout_ms: int) -> None:
        self._send(Revalidate(session_id, self._server_id, timeout_ms))


class LeaderUpstream:
    """The leader's own stages: prepare, number, propose; and the sessions of the whole ensemble."""

    read_only = False

    def __init__(
        self,
        leading: Leading,
        tree: DataTree,
        rules: Rules,
        clock: Clock,
        *,
        server_id: int,
        tick_ms: int,
        stats: Stats,
        on_sync_point: Callable[[int, int, int], None],
        on_revalidated: Callable[[int, bool], None],
        wake: Callable[[], None],
    ) -> None:
        self.leading = leading
        self.tracker = SessionTracker(tree.sessions, tick_ms, int(clock.monotonic() * 1000))
        self.prep = Prep(tree, self.tracker, rules)
        self.txns: dict[int, Txn] = {}
        """Proposed and not yet applied; keeps the leader from decoding its own transactions."""
        self._server_id = server_id
        self._clock = clock
        self._stats = stats
        self._on_sync_point = on_sync_point
        self._on_revalidated = on_revalidated
        self._wake = wake
        self._proposals: list[Entry] = []

    def submit(self, request: Submitted) -> None:
        if self.leading.failed is not None:
            # The counter of the epoch is used up and the next step is down; the client will find its connection closed.
            return
        zxid = self.leading.next_zxid()
        self.leading.reserve(zxid)
        self.tracker.at(int(self._clock.monotonic() * 1000))
        timed = self._stats.prepare_time
        started = self._clock.monotonic() if timed.wanted() else 0.0
        txn = self.prep.prepare(request, zxid, self._clock.wall_ms())
        if started:
            timed.show((self._clock.monotonic() - started) * 1000)
        if isinstance(txn.body, ErrorTxn) and txn.body.err == ErrorCode.QUOTA_EXCEEDED:
            self._stats.over_quota(request.body)
        self.txns[zxid] = txn
        if not self._proposals:
            self._wake()
        self._proposals.append(Entry(zxid, encode_txn(txn)))

    def take_proposals(self) -> tuple[Entry, ...]:
        """What was prepared since the last call, to be proposed as one batch."""
        proposals, self._proposals = tuple(self._proposals), []
        return proposals

    def sync(self, session_id: int, cxid: int) -> None:
        self._on_sync_point(session_id, cxid, self.sync_point())

    def sync_point(self) -> int:
        """The zxid that a sync asked now stands behind: whatever is committed by now is not above it."""
        return self.leading.last_proposed_zxid

    def revalidate(self, session_id: int, timeout_ms: int) -> None:
        self.tracker.at(int(self._clock.monotonic() * 1000))
        self._on_revalidated(session_id, self.tracker.reattach(session_id, self._server_id, timeout_ms))

    def applied(self, txn: Txn) -> None:
        if txn.type == OpCode.CLOSE_SESSION:
            self.tracker.closed(txn.session_id)

    def expire_sessions(self, now_ms: int) -> int:
        """End every session whose time is up, each by one transaction; how many there were."""
        expired = list(self.tracker.expired(now_ms))
        for session_id in expired:
            self.submit(Submitted(session_id, 0, OpCode.CLOSE_SESSION, b"", (), NOBODY))
        return len(expired)

    def remove_unused(self, *, never_used_ms: int, limit: int) -> int:
        """Containers that have had children and have none, and TTL nodes left alone for their time; how many."""
        unused = self._unused(self.prep.tree, self._clock.wall_ms(), never_used_ms)[:limit]
        for path in unused:
            raw = path.encode()
            body = len(raw).to_bytes(4, "big") + raw
            self.submit(Submitted(0, 0, OpCode.DELETE_CONTAINER, body, (), NOBODY))
        return len(unused)

    @staticmethod
    def _unused(tree: DataTree, now_ms: int, never_used_ms: int) -> list[str]:
        unused = []
        for path in [*tree.containers, *tree.ttls]:
            node = tree.nodes[path]
            idle_ms = now_ms - node.mtime
            if node.children:
                continue
            if node.ephemeral_owner == CONTAINER_OWNER:
                if node.cversion > 0 or 0 < never_used_ms < idle_ms:
                    unused.append(path)
            elif is_ttl(node.ephemeral_owner) and idle_ms > ttl_of(node.ephemeral_owner):
                unused.append(path)
        return sorted(unused)
