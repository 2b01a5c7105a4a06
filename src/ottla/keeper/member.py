"""One keeper, whole: the quorum machine and the server it makes consistent, over seams for disk and network.

Everything here is synchronous and deterministic. The shell that owns sockets, files and a clock is ``shell``; the
simulation puts its own disk, network and clock in their place and runs the very same code.

    clients ──frames──► Frontend ──► upstream (by role) ──► Peer.step ──► Effects
                            ▲                                               │
                            └────────── commit: apply, reply ◄── execute: persist, believe, tell

``_execute`` is the contract of ``quorum.effects`` made flesh: the order of its lines is the order of its fields.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, NamedTuple, Protocol

from ottla.base.clock import Clock
from ottla.keeper.messages import (
    Forward,
    Message,
    RelayMessage,
    Revalidate,
    Revalidated,
    SyncAsk,
    SyncPoint,
    Touch,
)
from ottla.keeper.proto.txns import DIGEST_VERSION, Entry, Txn, decode_txn
from ottla.keeper.quorum.effects import (
    Effects,
    Event,
    LinkDown,
    LinkUp,
    Notified,
    Proposed,
    Received,
    RoleChange,
    Synced,
    Tick,
    Truncated,
)
from ottla.keeper.quorum.history import Recent
from ottla.keeper.quorum.leading import Leading
from ottla.keeper.quorum.learning import Learning
from ottla.keeper.quorum.membership import Membership, Timing
from ottla.keeper.quorum.messages import Ack, NewLeader, Notification, Ping, Role, Snapshot
from ottla.keeper.quorum.peer import Peer
from ottla.keeper.quorum.state import Durable
from ottla.keeper.roles import LeaderUpstream, LearnerUpstream, NotServing, ReadOnly
from ottla.keeper.server.frontend import Frontend, Settings
from ottla.keeper.server.prep import Rules
from ottla.keeper.server.stats import BATCH_MASK, Stats
from ottla.keeper.server.tree import DataTree

log = logging.getLogger(__name__)

CONTAINER_CHECK_MS: Final = 60_000
CONTAINERS_PER_MINUTE: Final = 10_000


class Disk(Protocol):
    """What a member keeps. Every call but ``append`` returns when its effect is durable."""

    def write_accepted_epoch(self, epoch: int) -> None: ...
    def write_current_epoch(self, epoch: int) -> None: ...
    def append(self, entries: list[Entry]) -> None:
        """Write, and report ``Member.on_synced`` later. No report of an earlier append follows a truncation."""

    def truncate_to(self, zxid: int) -> tuple[int, DataTree]:
        """Cut the log; where it ends now, which may be elsewhere, and the tree as of there."""

    def maybe_snapshot(self, tree: DataTree, applied: int) -> None:
        """``applied`` transactions more are in the tree; start a snapshot when it is time for one."""


class Network(Protocol):
    """The ways to other members. Links are numbered by the shell; 0 is never one."""

    def notify(self, server_id: int, notification: Notification) -> None: ...
    def connect(self, server_id: int) -> None:
        """Open a link; ``Member.on_link_up`` or ``on_link_down`` follows."""

    def send(self, link: int, message: Message) -> None: ...
    def send_snapshot(self, link: int, zxid: int, tree: DataTree) -> None:
        """Stream the tree as of now; what is sent after this arrives after it."""

    def close(self, link: int) -> None:
        """End a link of ours; no ``on_link_down`` follows."""


class Recovered(NamedTuple):
    """What a member starts from: the contents of its disk."""

    tree: DataTree
    recent: Recent
    accepted_epoch: int
    current_epoch: int


class Options(NamedTuple):
    members: Membership
    timing: Timing
    settings: Settings
    rules: Rules
    config_text: str = ""
    """What /zookeeper/config shows; empty for a lone server."""
    read_only_allowed: bool = False
    container_check_ms: int = CONTAINER_CHECK_MS
    container_never_used_ms: int = 0
    containers_per_minute: int = CONTAINERS_PER_MINUTE


class Member:
    """See the module. All methods run on one thread; none may be entered from within another's effects."""

    def __init__(
        self, options: Options, recovered: Recovered, disk: Disk, network: Network, clock: Clock, *, wake: Wake
    ) -> None:
        self.options = options
        self.disk = disk
        self.network = network
        self.clock = clock
        self.stats = Stats()
        self.stats.looking = 1
        self.halted = False
        """Set by a shell that stops: whatever still happens means nothing to this member any more."""
        self._wake = wake
        now_ms = self._now_ms()
        durable = Durable(recovered.accepted_epoch, recovered.current_epoch, recovered.recent.last_zxid)
        self.peer = Peer(options.members, options.timing, durable, recovered.recent, now_ms)
        self.frontend = Frontend(recovered.tree, NotServing(), options.settings, clock, self.stats)
        self.role = RoleChange(Role.LOOKING, None, 0, serving=False)
        self._logged: deque[Entry] = deque()
        """In the log but not in the tree: not known to be committed."""
        self._syncs: deque[SyncPoint] = deque()
        """Syncs whose point has not been reached, in order."""
        self._looking_since_ms = now_ms
        self._housekeeping_ms = now_ms
        self._containers_ms = now_ms + options.container_check_ms
        self._container_room = Room(options.containers_per_minute, now_ms)

    # What the shell reports.

    def on_notification(self, notification: Notification) -> None:
        self._step(Notified(notification))

    def on_link_up(self, link: int) -> None:
        self._step(LinkUp(link))

    def on_link_down(self, link: int) -> None:
        self._step(LinkDown(link))

    def on_synced(self, zxid: int) -> None:
        self.stats.durable(zxid, self.clock)
        self._step(Synced(zxid))

    def on_snapshot(self, link: int, zxid: int, tree: DataTree) -> None:
        """A snapshot has arrived over ``link`` and is durable."""
        if isinstance(self.peer.state, Learning):
            self._replace_tree(tree)
            self._logged.clear()
            self._step(Received(link, Snapshot(zxid)))

    def on_message(self, link: int, message: Message) -> None:
        match message:
            case Forward() | SyncAsk() | Revalidate() | Touch():
                self._on_learner_asks(link, message)
            case SyncPoint() | Revalidated():
                self._on_leader_answers(link, message)
            case _:
                if isinstance(message, Ping):
                    self._tell_touches(link)
                elif isinstance(message, Ack) and not message.zxid & BATCH_MASK:
                    self._count_ack(link, message.zxid)
                self._step(Received(link, message))

    def tick(self) -> None:
        now_ms = self._now_ms()
        self._step(Tick())
        if now_ms >= self._housekeeping_ms:
            self._housekeeping_ms = now_ms + self.options.timing.tick_ms // 2
            self._housekeep(now_ms)

    def flush(self) -> None:
        """Propose what has been prepared since the last time; the shell calls this after ``wake``."""
        upstream = self.frontend.upstream
        if isinstance(upstream, LeaderUpstream):
            proposals = upstream.take_proposals()
            if proposals:
                self.stats.proposed(proposals)
                self._step(Proposed(proposals))

    @property
    def is_serving(self) -> bool:
        return self.role.serving or self.frontend.upstream.read_only

    @property
    def pending_syncs(self) -> int:
        return len(self._syncs)

    # Effects.

    def _step(self, event: Event) -> None:
        if self.halted:
            return
        self._execute(self.peer.step(event, self._now_ms()))

    def _execute(self, effects: Effects) -> None:
        for line in effects.log:
            log.info("server %d: %s", self.options.members.server_id, line)
        if effects.accepted_epoch is not None:
            self.disk.write_accepted_epoch(effects.accepted_epoch)
        truncated = self._truncate(effects.truncate_to) if effects.truncate_to is not None else None
        if effects.append:
            started = self.clock.monotonic()
            self.disk.append(effects.append)
            self._logged += effects.append
            if self.role.serving:
                learned = self.role.role is not Role.LEADING
                self.stats.logged(effects.append, started, self.clock, learned=learned)
        if effects.current_epoch is not None:
            self.disk.write_current_epoch(effects.current_epoch)
        if effects.commit is not None:
            self._commit(effects.commit)
        if effects.role is not None:
            self._change_role(effects.role)
        for link in effects.close:
            self.network.close(link)
        if effects.connect is not None:
            self.network.connect(effects.connect)
        for link, message in effects.send:
            if isinstance(message, Snapshot):
                self.stats.syncs_snap += 1
                self.network.send_snapshot(link, message.zxid, self.frontend.tree)
            else:
                if isinstance(message, NewLeader):
                    self.stats.syncs += 1
                self.network.send(link, message)
        for server_id, notification in effects.notify:
            self.network.notify(server_id, notification)
        if truncated is not None:
            self._step(truncated)

    def _truncate(self, to_zxid: int) -> Truncated:
        zxid, tree = self.disk.truncate_to(to_zxid)
        self._replace_tree(tree)
        self._logged.clear()
        return Truncated(zxid)

    def _replace_tree(self, tree: DataTree) -> None:
        assert not self.frontend.clients, "clients never see a tree change under them"
        self.frontend.tree = tree

    def _commit(self, zxid: int) -> None:
        """Apply, in order, everything up to ``zxid``."""
        upstream = self.frontend.upstream
        leader = upstream if isinstance(upstream, LeaderUpstream) else None
        logged, applied = self._logged, 0
        oldest, started = logged[0] if logged else None, self.clock.monotonic()
        while logged and logged[0].zxid <= zxid:
            entry = logged.popleft()
            txn = leader.txns.pop(entry.zxid, None) if leader is not None else None
            if txn is None:
                txn = decode_txn(entry.raw)
            self.frontend.apply(txn)
            self._check_digest(txn)
            if leader is not None:
                leader.applied(txn)
            while self._syncs and self._syncs[0].zxid <= entry.zxid:
                self._synced(self._syncs.popleft())
            applied += 1
        self.peer.recent.applied_zxid = max(self.peer.recent.applied_zxid, zxid)
        if leader is not None:
            leader.prep.committed(zxid)
        if applied and oldest is not None:
            if self.role.serving:
                self.stats.committed(applied, oldest, started, self.clock, leads=leader is not None)
            self.disk.maybe_snapshot(self.frontend.tree, applied)

    def _check_digest(self, txn: Txn) -> None:
        tree = self.frontend.tree
        if txn.digest is None or txn.digest_version != DIGEST_VERSION or txn.zxid < tree.fuzzy_until:
            return
        if tree.digest != txn.digest:
            self.stats.digest_mismatches += 1
            if self.stats.digest_mismatches == 1:
                log.error("the tree differs from the leader's after 0x%x: a server of this ensemble is wrong", txn.zxid)

    # Roles.

    def _change_role(self, role: RoleChange) -> None:
        before, self.role = self.role, role
        frontend = self.frontend
        if before.serving or frontend.upstream.read_only:
            frontend.close_all()
        now_ms, looked = self._now_ms(), before.role is Role.LOOKING
        if role.role is Role.LOOKING and not looked:
            self.stats.looking += 1
            self._looking_since_ms = now_ms
        elif role.role is not Role.LOOKING and looked:
            self.stats.elected(now_ms - self._looking_since_ms)
        frontend.upstream = NotServing()
        frontend.touched.clear()
        self._syncs.clear()
        if not role.serving:
            return
        leads, votes = role.role is Role.LEADING, self.options.members.is_voter
        self.stats.serving(now_ms, now_ms - self._looking_since_ms, leads=leads, votes=votes)
        if self.options.config_text:
            frontend.tree.set_config(self.options.config_text.encode(), 0)
        state = self.peer.state
        if isinstance(state, Leading):
            frontend.upstream = self._lead(state)
        elif isinstance(state, Learning):
            link = state.link
            assert link is not None
            frontend.upstream = LearnerUpstream(
                self.options.members.server_id, lambda message: self.network.send(link, message)
            )
        log.info("server %d: %s in epoch %d", self.options.members.server_id, role.role.name.lower(), role.epoch)

    def _lead(self, leading: Leading) -> LeaderUpstream:
        return LeaderUpstream(
            leading,
            self.frontend.tree,
            self.options.rules,
            self.clock,
            server_id=self.options.settings.server_id,
            tick_ms=self.options.timing.tick_ms,
            stats=self.stats,
            on_sync_point=lambda session_id, cxid, zxid: self._on_sync_point(SyncPoint(session_id, cxid, zxid)),
            on_revalidated=lambda session_id, valid: self.frontend.revalidated(session_id, valid=valid),
            wake=self._wake,
        )

    def _on_sync_point(self, point: SyncPoint) -> None:
        if point.zxid <= self.frontend.tree.last_zxid:
            self._synced(point)
        else:
            self._syncs.append(point)

    def _synced(self, point: SyncPoint) -> None:
        self.frontend.synced(point.session_id, point.cxid)

    # Learners and their leader.

    def _on_learner_asks(self, link: int, message: Forward | SyncAsk | Revalidate | Touch) -> None:
        upstream = self.frontend.upstream
        if not isinstance(upstream, LeaderUpstream):
            return
        upstream.tracker.at(self._now_ms())
        match message:
            case Forward():
                upstream.submit(message.request)
            case SyncAsk():
                self.network.send(link, SyncPoint(message.session_id, message.cxid, upstream.sync_point()))
            case Revalidate():
                self.stats.learners_revalidated += 1
                valid = upstream.tracker.reattach(message.session_id, message.owner, message.timeout_ms)
                self.network.send(link, Revalidated(message.session_id, valid))
            case Touch():
                for session_id in message.session_ids:
                    upstream.tracker.touch(session_id)

    def _on_leader_answers(self, link: int, message: SyncPoint | Revalidated) -> None:
        state = self.peer.state
        if not isinstance(state, Learning) or state.link != link:
            return
        if isinstance(message, SyncPoint):
            self._on_sync_point(message)
        else:
            self.frontend.revalidated(message.session_id, valid=message.valid)

    def _count_ack(self, link: int, zxid: int) -> None:
        """How long a learner took, if its acknowledgement still counts."""
        upstream = self.frontend.upstream
        if isinstance(upstream, LeaderUpstream) and (txn := upstream.txns.get(zxid)) is not None:
            for learner in upstream.leading.learners:
                if learner.link == link:
                    self.stats.acked(learner.info.server_id, txn.time_ms, self.clock)

    def _tell_touches(self, link: int) -> None:
        touched = self.frontend.touched
        if touched and isinstance(self.frontend.upstream, LearnerUpstream):
            message: RelayMessage = Touch(tuple(sorted(touched)))
            touched.clear()
            self.network.send(link, message)

    # Time.

    def _housekeep(self, now_ms: int) -> None:
        upstream = self.frontend.upstream
        if isinstance(upstream, LeaderUpstream):
            upstream.tracker.at(now_ms)
            for session_id in self.frontend.touched:
                upstream.tracker.touch(session_id)
            self.frontend.touched.clear()
            self.stats.sessions_expired += upstream.expire_sessions(now_ms)
            if now_ms >= self._containers_ms:
                self._containers_ms = now_ms + self.options.container_check_ms
                never_used_ms, limit = self.options.container_never_used_ms, self._container_room.at(now_ms)
                self._container_room.take(upstream.remove_unused(never_used_ms=never_used_ms, limit=limit))
        elif self._may_serve_read_only(now_ms):
            log.warning("server %d: no quorum, serving read-only clients", self.options.members.server_id)
            self.frontend.upstream = ReadOnly()

    def _may_serve_read_only(self, now_ms: int) -> bool:
        waited_ms = now_ms - self._looking_since_ms
        return (
            self.options.read_only_allowed
            and self.role.role is Role.LOOKING
            and not self.frontend.upstream.read_only
            and waited_ms > max(2000, self.options.timing.tick_ms)
        )

    def _now_ms(self) -> int:
        return int(self.clock.monotonic() * 1000)


class Room:
    """How many of something there may be yet, at a rate; what was not taken keeps for a minute."""

    def __init__(self, per_minute: int, now_ms: int) -> None:
        self._per_minute = per_minute
        self._ms = 60_000.0
        """How much time the rate has not been used for."""
        self._at_ms = now_ms

    def at(self, now_ms: int) -> int:
        self._ms = min(self._ms + now_ms - self._at_ms, 60_000.0)
        self._at_ms = now_ms
        return int(self._ms * self._per_minute / 60_000)

    def take(self, count: int) -> None:
        self._ms -= count * 60_000 / self._per_minute


class Wake(Protocol):
    """Asks the shell to call ``Member.flush`` soon, once however often it is asked."""

    def __call__(self) -> None: ...
