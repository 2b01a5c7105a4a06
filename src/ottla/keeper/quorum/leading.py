"""The leader's part: one epoch, from the first learner that calls to the last commit.

Phases. Each is entered once and needs a quorum of voters, this server being one of them:

    DISCOVERY     learners say which epoch they promised last; the new one is greater than all of them
    ESTABLISHING  learners promise it and show where their history ends; none may be ahead of ours, or we step down.
                  Then each is made equal to us (below) and says so when its disk has everything
    BROADCAST     proposals are numbered, sent to every learner, and committed when a quorum has them on disk

Making a learner equal, by where its history ends:

    in our recent entries                     DIFF: send what follows
    not in them, but above the oldest         TRUNC to the newest entry we have below it, then send what follows
    older than all of them, or not to trust   SNAP: send the tree, then what follows

A learner that joins late goes the same way while proposals go on: from the moment its synchronisation starts it is
sent every new proposal, so the stream it reads has neither gap nor repetition.

Commitment is cumulative: the newest zxid that a quorum has acknowledged commits everything before it. The history we
start with is committed as a whole when a quorum has acknowledged NEWLEADER. Where one server is missing, those that
may be it are told so: the first whose disk has the entry commits it at once and answers its clients, a round trip
before it could hear of it. We learn the same from its acknowledgement.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ottla.keeper.proto.txns import Entry
from ottla.keeper.quorum.effects import Effects, RoleChange
from ottla.keeper.quorum.history import COUNTER_MAX, Recent, counter_of, first_of
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

PROPOSE_BYTES_MAX: Final = 1 << 20


class Phase(Enum):
    DISCOVERY = "discovery"
    ESTABLISHING = "establishing"
    BROADCAST = "broadcast"


class Learner:
    """One link, and how far its server has come."""

    __slots__ = (
        "acked_zxid",
        "announced_zxid",
        "epoch_ack",
        "heard_ms",
        "info",
        "link",
        "synced",
        "syncing",
        "told_zxid",
    )

    def __init__(self, link: int, info: LearnerInfo, now_ms: int) -> None:
        self.link = link
        self.info = info
        self.heard_ms = now_ms
        self.epoch_ack: AckEpoch | None = None
        self.syncing = False
        """Its synchronisation has been sent; it gets every proposal from now on."""
        self.synced = False
        """It acknowledged NEWLEADER; its acknowledgements count."""
        self.acked_zxid = 0
        self.announced_zxid = 0
        """It knows that this is committed once it has it on disk."""
        self.told_zxid = 0
        """It knows that this is committed."""


class Leading:
    """``failed`` says why this server must stop leading, once it must."""

    def __init__(self, members: Membership, timing: Timing, durable: Durable, recent: Recent, now_ms: int) -> None:
        self.members = members
        self.timing = timing
        self.durable = durable
        self.recent = recent
        self.phase = Phase.DISCOVERY
        self.epoch = 0
        self.committed_zxid = 0
        self.failed: str | None = None
        self._learners: dict[int, Learner] = {}
        self._promised: dict[int, bool] = {}
        """Servers that promised this epoch to this leader, and whether they count; a promise outlives its link."""
        self._was_blank = durable.is_blank
        self._started_ms = now_ms
        self._ping_at_ms = now_ms
        self._last_proposed = 0

    # Links.

    def on_message(self, link: int, message: LinkMessage, now_ms: int, effects: Effects) -> None:
        learner = self._learners.get(link)
        if isinstance(message, LearnerInfo):
            self._on_learner_info(link, message, now_ms, effects)
            return
        if learner is None:
            effects.close.append(link)
            return
        learner.heard_ms = now_ms
        if isinstance(message, Ack):
            self._on_ack(learner, message.zxid, effects)
        elif isinstance(message, AckEpoch):
            self._on_ack_epoch(learner, message, effects)
        elif isinstance(message, AckNewLeader):
            self._on_ack_new_leader(learner, message, effects)
        elif not isinstance(message, Pong):
            effects.log.append(f"server {learner.info.server_id} sent {type(message).__name__} to its leader")
            self._drop(link, effects)

    def on_link_down(self, link: int) -> None:
        self._learners.pop(link, None)

    def _drop(self, link: int, effects: Effects) -> None:
        self._learners.pop(link, None)
        effects.close.append(link)

    # Discovery.

    def _on_learner_info(self, link: int, info: LearnerInfo, now_ms: int, effects: Effects) -> None:
        if not self.members.knows(info.server_id) or info.server_id == self.members.server_id or link in self._learners:
            effects.log.append(f"refusing a learner that calls itself server {info.server_id}")
            effects.close.append(link)
            return
        for other in [x for x in self._learners.values() if x.info.server_id == info.server_id]:
            self._drop(other.link, effects)
        self._learners[link] = Learner(link, info, now_ms)
        if self.phase is not Phase.DISCOVERY:
            if info.accepted_epoch > self.epoch:
                # It may not follow an older epoch, now or ever. Only a newer one lets it in, and with the same promise
                # made here, the next will be newer.
                effects.accepted_epoch = self.durable.accepted_epoch = info.accepted_epoch
                self.failed = f"server {info.server_id} has promised epoch {info.accepted_epoch}"
                return
            effects.send.append((link, LeaderInfo(self.epoch)))
            return
        self.maybe_propose_epoch(effects)

    def maybe_propose_epoch(self, effects: Effects) -> None:
        if not self._suffice({x.info.server_id: self._counts(x) for x in self._learners.values()}):
            return
        promised = [x.info.accepted_epoch for x in self._learners.values()]
        self.epoch = max(self.durable.accepted_epoch, *promised, 0) + 1
        self.phase = Phase.ESTABLISHING
        effects.accepted_epoch = self.durable.accepted_epoch = self.epoch
        effects.send += [(link, LeaderInfo(self.epoch)) for link in self._learners]
        self._maybe_start_syncing(effects)

    def _counts(self, learner: Learner) -> bool:
        """A blank server may not help to make a leader of one that knows more than it: see ``election``."""
        return not learner.info.blank or self._was_blank

    def _suffice(self, counted: dict[int, bool]) -> bool:
        """True for a quorum of those that count, and for all voters together: then nobody is left who knows more."""
        me = self.members.server_id
        counting = [server_id for server_id, counts in counted.items() if counts]
        return self.members.is_quorum([me, *counting]) or self.members.voters <= {me, *counted}

    # Establishing.

    def _on_ack_epoch(self, learner: Learner, ack: AckEpoch, effects: Effects) -> None:
        if self.phase is Phase.DISCOVERY or learner.epoch_ack is not None:
            self._drop(learner.link, effects)
            return
        mine = (self.durable.current_epoch, self.recent.last_zxid)
        starting = not self._syncing_started()
        votes = learner.info.server_id in self.members.voters
        if starting and votes and ack.fresh and (ack.current_epoch, ack.last_zxid) > mine:
            self.failed = f"server {learner.info.server_id} has a longer history"
            return
        learner.epoch_ack = ack
        if ack.fresh:
            self._promised[learner.info.server_id] = self._counts(learner)
        if starting:
            self._maybe_start_syncing(effects)
        else:
            self._sync(learner, effects)

    def _syncing_started(self) -> bool:
        return self.durable.current_epoch == self.epoch

    def _maybe_start_syncing(self, effects: Effects) -> None:
        if not self._suffice(self._promised):
            return
        if self.durable.synced_zxid < self.recent.last_zxid:
            # The end of our history is not durable yet. With the epoch written first, a crash would leave a
            # shorter history that outranks longer ones.
            return
        effects.current_epoch = self.durable.current_epoch = self.epoch
        for learner in list(self._learners.values()):
            if learner.epoch_ack is not None:
                self._sync(learner, effects)
        self._maybe_establish(effects)

    def _sync(self, learner: Learner, effects: Effects) -> None:
        """Send whatever makes the learner's history ours."""
        ack = learner.epoch_ack
        assert ack is not None
        link, recent = learner.link, self.recent
        common = recent.floor(ack.last_zxid) if ack.whole else None
        missing = recent.since(common) if common is not None else None
        if common is None or missing is None:
            at = self.snapshot_zxid()
            effects.send.append((link, Snapshot(at)))
            missing = recent.since(at)
            assert missing is not None, "the tree never lags behind the recent entries"
        elif common != ack.last_zxid:
            effects.send.append((link, Truncate(common)))
        effects.send += [(link, Propose(batch)) for batch in _batches(missing)]
        effects.send.append((link, NewLeader(self.epoch)))
        learner.syncing = True

    def snapshot_zxid(self) -> int:
        """What a snapshot sent now contains: all that has been applied here."""
        return self.recent.applied_zxid

    def _on_ack_new_leader(self, learner: Learner, ack: AckNewLeader, effects: Effects) -> None:
        if not learner.syncing or ack.epoch != self.epoch:
            self._drop(learner.link, effects)
            return
        learner.synced = True
        learner.acked_zxid = ack.zxid
        if self.phase is Phase.BROADCAST:
            effects.send.append((learner.link, UpToDate(self.committed_zxid)))
            self._maybe_commit(effects)
        else:
            self._maybe_establish(effects)

    def _maybe_establish(self, effects: Effects) -> None:
        synced = [x.info.server_id for x in self._learners.values() if x.synced]
        if not self._syncing_started() or not self.members.is_quorum([self.members.server_id, *synced]):
            return
        self.phase = Phase.BROADCAST
        self.committed_zxid = self.recent.last_zxid
        self._last_proposed = first_of(self.epoch) - 1
        effects.commit = self.committed_zxid
        effects.role = RoleChange(Role.LEADING, self.members.server_id, self.epoch, serving=True)
        effects.send += [(x.link, UpToDate(self.committed_zxid)) for x in self._learners.values() if x.synced]

    # Broadcast.

    @property
    def last_proposed_zxid(self) -> int:
        """The newest zxid given in this epoch; what came before is committed, so 0 stands for it."""
        return self._last_proposed if counter_of(self._last_proposed) else 0

    def next_zxid(self) -> int:
        """The zxid of the transaction after those proposed so far."""
        return self._last_proposed + 1

    def reserve(self, zxid: int) -> None:
        """``zxid`` has been given to a transaction that will be proposed."""
        assert zxid == self._last_proposed + 1, "zxids are given in order"
        self._last_proposed = zxid
        if counter_of(zxid) == COUNTER_MAX:
            self.failed = "the counter of this epoch is used up"

    def propose(self, entries: tuple[Entry, ...], effects: Effects) -> None:
        assert self.phase is Phase.BROADCAST, "only an established leader proposes"
        self.recent.append(entries)
        effects.append += entries
        for batch in _batches(entries):
            message = Propose(batch)
            effects.send += [(x.link, message) for x in self._learners.values() if x.syncing]

    def on_synced(self, effects: Effects) -> None:
        """Our own disk is one of the quorum."""
        if self.phase is Phase.BROADCAST:
            self._maybe_commit(effects)
        elif self.phase is Phase.ESTABLISHING and not self._syncing_started():
            self._maybe_start_syncing(effects)

    def _on_ack(self, learner: Learner, zxid: int, effects: Effects) -> None:
        if not learner.synced:
            self._drop(learner.link, effects)
        elif zxid > learner.acked_zxid:
            learner.acked_zxid = zxid
            if self.phase is Phase.BROADCAST and zxid > self.committed_zxid:
                self._maybe_commit(effects)

    def _maybe_commit(self, effects: Effects) -> None:
        learners = [x for x in self._learners.values() if x.synced]
        voters = [x for x in learners if x.info.server_id in self.members.voters]
        held = sorted([self.durable.synced_zxid, *(x.acked_zxid for x in voters)], reverse=True)
        needed = len(self.members.voters) // 2  # beside one more
        if len(held) > needed and (zxid := min(held[needed], self.recent.last_zxid)) > self.committed_zxid:
            self.committed_zxid = effects.commit = zxid
            self._tell_commit([x for x in learners if x.announced_zxid < zxid], effects)
        if 0 < needed <= len(held) and (zxid := min(held[needed - 1], self.recent.last_zxid)) > self.committed_zxid:
            self._announce(zxid, voters, effects)

    def _tell_commit(self, learners: list[Learner], effects: Effects) -> None:
        message = Commit(self.committed_zxid)
        for learner in learners:
            learner.told_zxid = message.zxid
            effects.send.append((learner.link, message))

    def _announce(self, zxid: int, voters: list[Learner], effects: Effects) -> None:
        """One more server and ``zxid`` is committed: a follower that comes to hold it need not ask us whether it is."""
        message = CommitOnSync(zxid)
        for learner in voters:
            if max(learner.acked_zxid, learner.announced_zxid) < zxid:
                learner.announced_zxid = zxid
                effects.send.append((learner.link, message))

    # Time.

    def tick(self, now_ms: int, effects: Effects) -> None:
        if self.phase is not Phase.BROADCAST and now_ms - self._started_ms > self.timing.init_ms:
            self.failed = f"no quorum within {self.timing.init_ms} ms"
            return
        # Whoever was announced a commit finds it out from its own disk, unless that is slow.
        learners = [x for x in self._learners.values() if x.synced]
        self._tell_commit([x for x in learners if max(x.told_zxid, x.acked_zxid) < self.committed_zxid], effects)
        if now_ms < self._ping_at_ms:
            return
        self._ping_at_ms = now_ms + self.timing.tick_ms // 2
        for learner in list(self._learners.values()):
            silent_ms = now_ms - learner.heard_ms
            if silent_ms > (self.timing.sync_ms if learner.synced else self.timing.init_ms):
                effects.log.append(f"server {learner.info.server_id} has been silent for {silent_ms} ms")
                self._drop(learner.link, effects)
            else:
                effects.send.append((learner.link, Ping()))
        if self.phase is Phase.BROADCAST:
            alive = [x.info.server_id for x in self._learners.values() if x.synced]
            if not self.members.is_quorum([self.members.server_id, *alive]):
                self.failed = "no quorum of followers left"

    def next_ms(self) -> int:
        return self._ping_at_ms

    @property
    def learners(self) -> list[Learner]:
        return list(self._learners.values())


def _batches(entries: list[Entry] | tuple[Entry, ...]) -> list[tuple[Entry, ...]]:
    """Cut a run of entries into messages of bounded size."""
    batches: list[tuple[Entry, ...]] = []
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if batch and size + len(entry.raw) > PROPOSE_BYTES_MAX:
            batches.append(tuple(batch))
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.raw)
    if batch:
        batches.append(tuple(batch))
    return batches
