"""A learner's part, follower or observer: call the leader, become equal to it, then keep up.

    CONNECTING ──link up──► DISCOVERY ──LeaderInfo──► SYNCING ──NewLeader, all durable──► SYNCED ──UpToDate──► SERVING

Order of writes, each a bug of ZooKeeper's when done otherwise:

1. The promise of an epoch is durable before it is acknowledged.
2. Entries received while synchronising are logged but not applied: whether they are committed is known only at
   UPTODATE (ZOOKEEPER-4394, ZOOKEEPER-4785).
3. On NEWLEADER: first every entry durable, then the epoch file, then the acknowledgement (ZOOKEEPER-3911, -4643, -4646,
   -4685). With the epoch first, a crash would leave a stale history that outranks better ones in the next election.
4. An entry that does not follow the last one is never logged. The learner starts over and asks for a snapshot.

An observer does all of this too; the leader never counts it.
"""

from __future__ import annotations

from enum import Enum

from ottla.base.errors import RemoteProtocolError
from ottla.keeper.quorum.effects import Effects, RoleChange
from ottla.keeper.quorum.history import Recent
from ottla.keeper.quorum.membership import Membership, Timing
from ottla.keeper.quorum.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    CommitOnSync,
    LeaderInfo,
    LearnerInfo,
    LinkMessage,
    NewLeader,
    Ping,
    Pong,
    Propose,
    Role,
    Snapshot,
    Truncate,
    UpToDate,
)
from ottla.keeper.quorum.state import Durable


class Phase(Enum):
    CONNECTING = "connecting"
    DISCOVERY = "discovery"
    SYNCING = "syncing"
    SYNCED = "synced"
    SERVING = "serving"


class Learning:
    """``failed`` says why this server must look for a leader again, once it must."""

    def __init__(
        self,
        members: Membership,
        timing: Timing,
        durable: Durable,
        recent: Recent,
        leader: int,
        now_ms: int,
    ) -> None:
        self.members = members
        self.timing = timing
        self.durable = durable
        self.recent = recent
        self.leader = leader
        self.phase = Phase.CONNECTING
        self.epoch = 0
        self.failed: str | None = None
        self._link: int | None = None
        self._new_leader: NewLeader | None = None
        self._serving = False
        self._truncating: int | None = None
        self._acked_zxid = 0
        self._commit_on_sync_zxid = 0
        self._committed_zxid = 0
        self._heard_ms = now_ms
        self._started_ms = now_ms

    @property
    def role(self) -> Role:
        return Role.FOLLOWING if self.members.is_voter else Role.OBSERVING

    @property
    def link(self) -> int | None:
        """The link to the leader, once it is up."""
        return self._link

    def on_link_up(self, link: int, now_ms: int, effects: Effects) -> None:
        if self._link is not None:
            effects.close.append(link)
            return
        self._link = link
        self._heard_ms = now_ms
        self.phase = Phase.DISCOVERY
        info = LearnerInfo(self.members.server_id, self.durable.accepted_epoch, self.durable.is_blank)
        effects.send.append((link, info))

    def on_link_down(self, link: int) -> None:
        if link == self._link or self._link is None:
            self.failed = "the link to the leader is gone"

    def on_message(self, link: int, message: LinkMessage, now_ms: int, effects: Effects) -> None:
        if link != self._link:
            effects.close.append(link)
            return
        self._heard_ms = now_ms
        if isinstance(message, Propose):
            self._on_propose(message, effects)
        elif isinstance(message, Commit):
            self._on_commit(message.zxid, effects)
        elif isinstance(message, CommitOnSync):
            self._on_commit_on_sync(message.zxid, effects)
        elif isinstance(message, Ping):
            effects.send.append((link, Pong()))
        elif isinstance(message, LeaderInfo):
            self._on_leader_info(message, effects)
        elif isinstance(message, Truncate):
            self._on_truncate(message, effects)
        elif isinstance(message, Snapshot):
            self._on_snapshot(message)
        elif isinstance(message, NewLeader):
            self._new_leader = message
            self._maybe_ack_new_leader(effects)
        elif isinstance(message, UpToDate):
            self._on_up_to_date(message, effects)
        else:
            self.failed = f"the leader sent {type(message).__name__}"

    def _on_leader_info(self, message: LeaderInfo, effects: Effects) -> None:
        promised = self.durable.accepted_epoch
        if self.phase is not Phase.DISCOVERY or message.epoch < promised:
            self.failed = f"server {self.leader} leads epoch {message.epoch}, but {promised} was promised"
            return
        self.epoch = message.epoch
        self.phase = Phase.SYNCING
        fresh = message.epoch > promised
        if fresh:
            effects.accepted_epoch = self.durable.accepted_epoch = message.epoch
        ack = AckEpoch(fresh, self.durable.current_epoch, self.recent.last_zxid, self.durable.whole)
        self._send(ack, effects)

    def _on_truncate(self, message: Truncate, effects: Effects) -> None:
        if self.phase is not Phase.SYNCING:
            self.failed = "the leader truncates outside of synchronisation"
            return
        self._truncating = message.zxid
        effects.truncate_to = message.zxid

    def on_truncated(self, zxid: int) -> None:
        self.recent.truncate_to(zxid)
        self.recent.applied_zxid = self.durable.synced_zxid = zxid
        if zxid != self._truncating:
            # We never had the entry the leader took for common ground, so what follows it would leave a hole. If the
            # history is shorter now, it ends where both may agree: try again from there. If it is not, only a snapshot
            # helps.
            asked = self._truncating or 0
            self.durable.whole = self.durable.whole and zxid < asked
            self.failed = f"asked to end at 0x{asked:x}, the history ends at 0x{zxid:x}"
        self._truncating = None

    def _on_snapshot(self, message: Snapshot) -> None:
        if self.phase is not Phase.SYNCING:
            self.failed = "the leader sends a snapshot outside of synchronisation"
            return
        self.recent.reset(message.zxid)
        self.durable.synced_zxid = message.zxid
        self.durable.whole = True

    def _on_propose(self, message: Propose, effects: Effects) -> None:
        if self.phase in (Phase.CONNECTING, Phase.DISCOVERY):
            self.failed = "the leader proposes before it has an epoch"
            return
        try:
            self.recent.append(message.entries)
        except RemoteProtocolError as e:
            self.durable.whole = False
            self.failed = str(e)
            return
        effects.append += message.entries

    def on_synced(self, effects: Effects) -> None:
        if self.phase is Phase.SYNCING:
            self._maybe_ack_new_leader(effects)
        elif self.phase in (Phase.SYNCED, Phase.SERVING) and self.durable.synced_zxid > self._acked_zxid:
            self._acked_zxid = self.durable.synced_zxid
            self._send(Ack(self._acked_zxid), effects)
            self._maybe_commit(effects)

    def _maybe_ack_new_leader(self, effects: Effects) -> None:
        if self._new_leader is None or self.phase is not Phase.SYNCING:
            return
        if self._new_leader.epoch != self.epoch:
            self.failed = f"NEWLEADER of epoch {self._new_leader.epoch} in epoch {self.epoch}"
            return
        if self.durable.synced_zxid < self.recent.last_zxid:
            return
        effects.current_epoch = self.durable.current_epoch = self.epoch
        self.phase = Phase.SYNCED
        self._acked_zxid = self.recent.last_zxid
        self._send(AckNewLeader(self.epoch, self._acked_zxid), effects)

    def _on_up_to_date(self, message: UpToDate, effects: Effects) -> None:
        if self.phase is not Phase.SYNCED:
            self.failed = "UPTODATE before NEWLEADER was acknowledged"
            return
        self.phase = Phase.SERVING
        self._on_commit(message.zxid, effects)

    def _on_commit(self, zxid: int, effects: Effects) -> None:
        if self.phase is not Phase.SERVING or zxid > self.recent.last_zxid:
            self.failed = f"a commit of 0x{zxid:x}, which was never proposed here"
            return
        self._commit(zxid, effects)

    def _on_commit_on_sync(self, zxid: int, effects: Effects) -> None:
        if self.phase is not Phase.SERVING or zxid > self.recent.last_zxid:
            self.failed = f"0x{zxid:x} is to be committed, but was never proposed here"
            return
        self._commit_on_sync_zxid = zxid
        self._maybe_commit(effects)

    def _maybe_commit(self, effects: Effects) -> None:
        """With ours, a quorum has what the leader announced; it will find out from our acknowledgement."""
        zxid = min(self._commit_on_sync_zxid, self.durable.synced_zxid)
        if zxid > self._committed_zxid:
            self._commit(zxid, effects)

    def _commit(self, zxid: int, effects: Effects) -> None:
        effects.commit = self._committed_zxid = zxid
        if not self._serving and zxid >= self.recent.applied_zxid:
            # Not before: a tree rebuilt from the log shows all of it, also what is not committed yet.
            self._serving = True
            effects.role = RoleChange(self.role, self.leader, self.epoch, serving=True)

    def _send(self, message: LinkMessage, effects: Effects) -> None:
        assert self._link is not None
        effects.send.append((self._link, message))

    def tick(self, now_ms: int) -> None:
        if self.phase is Phase.SERVING:
            if now_ms - self._heard_ms > self.timing.sync_ms:
                self.failed = f"the leader has been silent for {now_ms - self._heard_ms} ms"
        elif now_ms - self._started_ms > self.timing.init_ms:
            self.failed = f"not synchronised within {self.timing.init_ms} ms"

    def next_ms(self) -> int:
        if self.phase is Phase.SERVING:
            return self._heard_ms + self.timing.sync_ms + 1
        return self._started_ms + self.timing.init_ms + 1
