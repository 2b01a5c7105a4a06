"""What the leader of a partition knows of its followers during one leader epoch, and what follows from it. Pure.

Theory of operation
-------------------
Nothing is known of a follower until it fetches in this epoch. A fetch from offset n says that it has everything before n,
for it has cut off by then whatever this leader does not have.

    committed    the replicas in sync, as the controller last confirmed
    proposed     what the leader has asked the controller for, while there is no answer
    maximal      both together: the controller may have agreed already, and may elect any of them

*High watermark.* The smallest end offset among the maximal ISR, and it never moves while fewer than the minimum are in sync
(KAFKA-15583). A follower that has been at the end lately and is not in sync yet is waited for as well: otherwise the high
watermark would run away from it under load, and it could never join. Not so one whose broker is gone, or that the controller
refused: a broker that is about to stop fetches to the last, and nobody is to wait for what it will never fetch.

*Joining.* A follower may join once it has all that is committed and all of the earlier epochs: its end offset has reached
the high watermark and the offset at which this epoch began. Whether its broker still lives as the one that fetched, the
controller checks by the broker epoch that goes with the proposal.

*Leaving.* A follower that has not been at the end for ``replica.lag.time.max.ms`` leaves. One in sync that fetches from
before the high watermark has lost what it once had, whatever its clock says, and leaves at once.

*Recovering.* Who was elected uncleanly has nothing to recover but its own log, and has done so when it leads. So every proposal
is one of a leader that has recovered, as with Kafka; the controller refuses a recovering one company (KIP-704).

One proposal is on its way at a time. An answer ends it one of three ways:

    confirmed   the ISR is as the answer says
    refused     the controller did nothing and will not: the committed ISR holds, and whoever was to join is barred for a
                moment. A later proposal may fare better
    superseded  the controller has decided otherwise, and its order is on the way: both hold until it comes
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.metadata.ids import BrokerId
from ottla.metadata.znodes.topics import LeaderAndIsr, Replicas

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1
_NEVER_S: Final = float("-inf")


class Follower:
    """One follower, as its fetches show it."""

    __slots__ = (
        "broker_epoch",
        "caught_up_s",
        "fetched_s",
        "is_barred",
        "is_gone",
        "is_near",
        "leader_end_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, *, caught_up_s: float) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_EPOCH
        self.caught_up_s = caught_up_s
        """When it last had everything."""
        self.is_near = False
        """It had everything a short while ago, by a fetch of this epoch, and may join."""
        self.is_barred = False
        """The controller does not want it in the ISR."""
        self.is_gone = False
        """Its broker was not there any more when that was last told."""
        self.fetched_s = _NEVER_S
        self.leader_end_offset = UNKNOWN_OFFSET
        """Where the leader's log ended at the fetch before."""

    def fetched(self, offset: int, log_start_offset: int, *, end_offset: int, now_s: float) -> None:
        if offset >= end_offset:
            self.caught_up_s = max(self.caught_up_s, now_s)
            self.is_near = not self.is_barred
        elif offset >= self.leader_end_offset >= 0:
            # It has all that was there when it fetched before, so it was at the end then.
            self.caught_up_s = max(self.caught_up_s, self.fetched_s)
            self.is_near = not self.is_barred
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset = end_offset
        self.fetched_s = now_s


class Proposal(NamedTuple):
    """An ISR to ask the controller for, each member with the epoch of its broker as far as that is known."""

    isr: tuple[tuple[BrokerId, int], ...]
    leader_epoch: int
    partition_epoch: int


class Leadership:
    """See the module. ``end_offset`` and ``high_watermark`` are those of the leader's own log."""

    __slots__ = (
        "_broker_id",
        "committed",
        "epoch",
        "followers",
        "partition_epoch",
        "proposed",
        "start_offset",
    )

    def __init__(
        self, broker_id: BrokerId, state: LeaderAndIsr, replicas: Replicas, *, start_offset: int, now_s: float
    ) -> None:
        self.epoch = state.leader_epoch
        self.start_offset = start_offset
        """Where the log ended when this epoch began."""
        self.partition_epoch = state.partition_epoch
        self.committed: Replicas = state.isr
        self.proposed: Replicas | None = None
        self._broker_id = broker_id
        self.followers: dict[int, Follower] = {}
        self.assign(replicas, now_s=now_s)

    # What the controller says.

    def assign(self, replicas: Replicas, *, now_s: float) -> None:
        """Replicas come and go within an epoch. Those in sync get their time to show up, the others have none to lose."""
        self.followers = {
            replica: self.followers.get(replica)
            or Follower(caught_up_s=now_s if replica in self.committed else _NEVER_S)
            for replica in replicas
            if replica != self._broker_id
        }

    def confirmed(self, isr: Replicas, *, partition_epoch: int) -> bool:
        """The ISR as the controller has it; False if that is older than what is known here."""
        if partition_epoch < self.partition_epoch:
            return False
        self.committed, self.partition_epoch, self.proposed = isr, partition_epoch, None
        return True

    def refused(self) -> None:
        """Whoever was to join is not waited for, nor proposed again before ``admit``."""
        for replica in self.proposed or ():
            follower = self.followers.get(replica)
            if follower is not None and replica not in self.committed:
                follower.is_near, follower.is_barred = False, True
        self.proposed = None

    def admit(self) -> None:
        """Who was refused may be proposed again."""
        for follower in self.followers.values():
            follower.is_barred = False

    def gone(self, replica: int) -> None:
        """The broker of a replica is not there any more: nobody waits for it, and nobody proposes it.

        Perhaps it is back already, and that it was gone is told late: then what it fetched in its new life counts, once
        that is told as well (``back``). Without an epoch the one life cannot be told from the other.
        """
        follower = self.followers.get(replica)
        if follower is not None and replica not in self.committed:
            follower.is_near, follower.is_gone = False, True
            if follower.broker_epoch == UNKNOWN_EPOCH:
                follower.log_end_offset = UNKNOWN_OFFSET

    def back(self, replica: int) -> None:
        """The broker of a replica is there again. If it has fetched since, it may have nothing more to fetch."""
        follower = self.followers.get(replica)
        if follower is not None:
            follower.is_gone = False

    # What followers show.

    def fetched(
        self, replica: int, offset: int, log_start_offset: int, *, broker_epoch: int, end_offset: int, now_s: float
    ) -> bool:
        """A follower has everything before ``offset``; False if it is none, or one that was there before the last."""
        follower = self.followers.get(replica)
        if follower is None or UNKNOWN_EPOCH < broker_epoch < follower.broker_epoch:
            return False
        follower.is_gone = False
        follower.broker_epoch = broker_epoch
        follower.fetched(offset, log_start_offset, end_offset=end_offset, now_s=now_s)
        return True

    # What follows.

    @property
    def is_alone(self) -> bool:
        """Nobody else has a replica."""
        return not self.followers

    @property
    def is_asking(self) -> bool:
        """A proposal has not been answered for good."""
        return self.proposed is not None

    @property
    def maximal(self) -> frozenset[int]:
        return frozenset(self.committed).union(self.proposed or ())

    def replicated_to(self, end_offset: int) -> int:
        """Everything before this is on all replicas that count."""
        maximal = self.maximal
        for replica, follower in self.followers.items():
            if (follower.is_near or replica in maximal) and follower.log_end_offset < end_offset:
                end_offset = follower.log_end_offset
        return end_offset

    def joins(self, replica: int, *, high_watermark: int) -> bool:
        """Whether this follower is to be proposed for the ISR."""
        follower = self.followers.get(replica)
        if follower is None or self.proposed is not None or replica in self.committed:
            return False
        if follower.is_barred or follower.is_gone:
            return False
        return follower.log_end_offset >= max(high_watermark, self.start_offset)

    def waiting(self, *, end_offset: int, high_watermark: int) -> BrokerId | None:
        """Who could have joined while another proposal was on its way, and may have nothing to fetch since.

        Only one that is at the end, or was lately: who has just left for being late has to show up again first.
        """
        for replica, follower in self.followers.items():
            is_there = follower.is_near or follower.log_end_offset == end_offset
            if is_there and self.joins(replica, high_watermark=high_watermark):
                return BrokerId(replica)
        return None

    def has_lost(self, replica: int, *, high_watermark: int) -> bool:
        """Whether a member has less than it must have."""
        follower = self.followers.get(replica)
        known = follower is not None and follower.log_end_offset >= 0
        return known and replica in self.committed and self.followers[replica].log_end_offset < high_watermark

    def lagging(self, *, end_offset: int, now_s: float, lag_s: float) -> Replicas:
        """The members that have not been at the end for too long; whoever is not near any more is not waited for."""
        late = []
        for replica, follower in self.followers.items():
            if follower.log_end_offset == end_offset:
                # A follower that has nothing to fetch says nothing new.
                follower.caught_up_s = max(follower.caught_up_s, now_s)
            if now_s - follower.caught_up_s <= lag_s:
                continue
            follower.is_near = False
            if replica in self.committed:
                late.append(BrokerId(replica))
        return tuple(late)

    def propose_joining(self, replica: BrokerId, *, broker_epoch: int) -> Proposal:
        return self._propose((*self.committed, replica), broker_epoch=broker_epoch)

    def propose_leaving(self, replicas: Replicas, *, broker_epoch: int) -> Proposal | None:
        if self.proposed is not None or not replicas:
            return None
        return self._propose(tuple(each for each in self.committed if each not in replicas), broker_epoch=broker_epoch)

    def _propose(self, isr: Replicas, *, broker_epoch: int) -> Proposal:
        """``broker_epoch`` is the leader's own."""
        self.proposed = isr
        members = tuple(
            (each, broker_epoch if each == self._broker_id else self.followers[each].broker_epoch)
            for each in isr
            if each == self._broker_id or each in self.followers
        )
        return Proposal(members, self.epoch, self.partition_epoch)
