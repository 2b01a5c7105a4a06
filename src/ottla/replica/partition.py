"""One partition on this broker.

    high_watermark ≤ log_end_offset    what every replica in sync has; consumers see nothing behind it

The controller says who leads, in which epoch, and who is in sync. A leader appends, and what it knows of its followers
(``leadership``) says how far the high watermark goes: alone, to the end of its log, at once. A follower appends what it has
fetched (``following``), and its high watermark is what the leader says, as far as its own log reaches.

Whoever waits is woken once for every advance, of the high watermark (a produce, a consumer) or of the end of the log (a
follower), and looks for itself whether that was enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ottla.log import AppendInfo, Fetched, Log, OffsetOutOfRangeError
from ottla.log.epochs import UNDEFINED_EPOCH, EpochEndOffset
from ottla.metadata.ids import NO_LEADER, BrokerId, TopicId, TopicPartition
from ottla.metadata.names import is_internal
from ottla.metadata.znodes.topics import LeaderAndIsr, Replicas
from ottla.records import AppendOrigin
from ottla.records.validate import Vetted
from ottla.replica.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderError,
    OffsetNotAvailableError,
    PolicyViolationError,
    UnknownLeaderEpochError,
)
from ottla.replica.leadership import Leadership, Proposal
from ottla.replica.throttle import Throttle
from ottla.replica.truncation import truncation_offset

ALL: Final = -1
"""``acks``: every replica in sync has to have it."""
NO_EPOCH: Final = -1
HIGH_WATERMARK: Final = -1
"""Of the records to be deleted: as many as may be."""

Wake = Callable[[], None]
Watch = Callable[[bool], None]
"""Hears of what happens, for as long as it likes: with True if the log has grown or is led by somebody else."""


class Proposals(Protocol):
    """Where a leader turns with an ISR it would like to have."""

    @property
    def broker_epoch(self) -> int:
        """Of this broker."""
        ...

    def propose(self, partition: Partition, proposal: Proposal) -> None: ...


class Partition:
    """See the module. Lives as long as the replica is assigned to this broker."""

    def __init__(
        self,
        where: TopicPartition,
        topic_id: TopicId | None,
        log: Log,
        broker_id: BrokerId,
        proposals: Proposals | None = None,
    ) -> None:
        self.where = where
        self.is_internal = is_internal(where.topic)
        """Brokers keep their own state in it, and clients have no business to write there."""
        self.topic_id = topic_id
        self.log = log
        self.min_insync_replicas = 1
        self.leader_throttle: Throttle | None = None
        """Holds back what is sent to replicas out of sync."""
        self.follower_throttle: Throttle | None = None
        """Holds back what is fetched."""
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.isr: Replicas = ()
        self.replicas: Replicas = ()
        self.partition_epoch = 0
        self.leadership: Leadership | None = None
        self.is_stopped = False
        """Whoever leads it now, this broker has yet to be told so again."""
        self._broker_id = broker_id
        self._proposals = proposals
        self._is_alone = False
        self._waiting: dict[Wake, None] = {}
        self._watches: dict[Watch, None] = {}
        self._waiting_for_start: dict[Wake, None] = {}

    @property
    def is_leader(self) -> bool:
        return self.leader == self._broker_id

    @property
    def others_have_it(self) -> bool:
        """All that is committed is on another broker, too: on another one that is in sync, or on the one that leads."""
        if self.is_leader:
            return len(self.isr) > 1
        return self.leader != NO_LEADER

    # What the controller says.

    def become(self, state: LeaderAndIsr, replicas: Replicas, *, now_s: float = 0.0) -> bool:
        """Take on a newer state; False for one that is no news."""
        if (state.leader_epoch, state.partition_epoch) < (self.leader_epoch, self.partition_epoch):
            return False
        if state.leader == self._broker_id:
            self._lead(state, replicas, now_s)
        else:
            self.leadership = None
        self.leader, self.leader_epoch = state.leader, state.leader_epoch
        self.isr, self.replicas, self.partition_epoch = state.isr, replicas, state.partition_epoch
        self.is_stopped = False
        self._advance()
        self.wake()
        return True

    def _lead(self, state: LeaderAndIsr, replicas: Replicas, now_s: float) -> None:
        if self.leadership is not None and self.leadership.epoch == state.leader_epoch:
            self.leadership.confirmed(state.isr, partition_epoch=state.partition_epoch)
            self.leadership.assign(replicas, now_s=now_s)
        else:
            if state.leader_epoch > self.leader_epoch:
                self.log.assign_epoch(state.leader_epoch)
            end = self.log.log_end_offset
            self.leadership = Leadership(self._broker_id, state, replicas, start_offset=end, now_s=now_s)
        self._is_alone = self.leadership.is_alone and state.isr == (self._broker_id,)

    def resign(self) -> None:
        """Neither lead nor follow: the replica is stopped, or this broker may not be what it was."""
        self.leader = NO_LEADER
        self.leadership = None
        self.is_stopped = True
        self.wake()

    # What clients ask.

    def check_leader(self, epoch: int = NO_EPOCH) -> None:
        """Refuse what only the leader may do, and whoever knows of another epoch than this one."""
        self.check_epoch(epoch)
        if not self.is_leader:
            raise NotLeaderError(f"{self.where}: broker {self.leader} leads")

    def check_epoch(self, epoch: int) -> None:
        if epoch >= 0 and epoch != self.leader_epoch:  # a negative one says that it is not known, as with Kafka
            if epoch < self.leader_epoch:
                raise FencedLeaderEpochError(f"{self.where}: epoch {epoch} is over, this is {self.leader_epoch}")
            raise UnknownLeaderEpochError(f"{self.where}: epoch {epoch} is not known here, this is {self.leader_epoch}")

    def append(
        self,
        data: bytes | Vetted,
        *,
        acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        later: bool = False,
    ) -> AppendInfo:
        """``later``: others follow at once; ``Log.finish_append`` writes them, and then ``appended`` is due."""
        self.check_leader()
        if acks == ALL and self.is_under_min_isr:
            raise NotEnoughReplicasError(
                f"{self.where}: {len(self.isr)} in sync, {self.min_insync_replicas} are needed"
            )
        epoch = self.leader_epoch
        info = self.log.append_as_leader(data, leader_epoch=epoch, now_ms=now_ms, origin=origin, later=later)
        if not later:
            self.appended()
        return info

    def appended(self) -> None:
        """Those who wait for more are told."""
        if self._is_alone:
            self.log.update_high_watermark(self.log.log_end_offset)
            if self._waiting:
                _wake(self._waiting)
        else:
            for watch in self._watches:
                watch(True)
            self._advance()

    @property
    def is_under_min_isr(self) -> bool:
        # More than there are cannot be asked for, as with Kafka.
        return len(self.isr) < min(self.min_insync_replicas, len(self.replicas))

    def check_readable(self, epoch: int) -> None:
        """Refuse a reader that does not mind who leads, but has to know the right epoch (KIP-392)."""
        self.check_epoch(epoch)
        if self.is_stopped:
            raise NotLeaderError(f"{self.where}: this replica is neither led nor followed here")

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        committed: bool,
        min_one: bool,
        epoch: int = NO_EPOCH,
        any_replica: bool = False,
    ) -> Fetched:
        """For a consumer: nothing behind the high watermark, or behind the last stable offset."""
        if any_replica:
            self.check_readable(epoch)
        else:
            self.check_leader(epoch)
        upper = self.log.last_stable_offset if committed else self.log.high_watermark
        return self.log.read(offset, max_bytes, upper=upper, min_one=min_one)

    def delete_records(self, before: int) -> int:
        """Give up the records before an offset, -1 for the high watermark; which offset that is."""
        self.check_leader()
        if not self.log.config.deletes:
            raise PolicyViolationError(f"{self.where}: records of a topic that is compacted only cannot be deleted")
        before = self.log.high_watermark if before == HIGH_WATERMARK else before
        if before < 0:
            raise OffsetOutOfRangeError(f"{self.where}: {before} is no offset")
        self.log.increment_log_start_offset(before)
        return before

    @property
    def low_watermark(self) -> int:
        """Before it, no replica in sync has records any more."""
        start = self.log.log_start_offset
        if self.leadership is not None:
            for replica, follower in self.leadership.followers.items():
                if replica in self.leadership.committed:
                    start = min(start, follower.log_start_offset)
        return start

    def end_offset_for_epoch(self, leader_epoch: int, *, epoch: int = NO_EPOCH) -> EpochEndOffset:
        self.check_leader(epoch)
        return self.log.end_offset_for_epoch(leader_epoch)

    def divergence(self, last_epoch: int, offset: int, *, epoch: int) -> EpochEndOffset | None:
        """Where a reader's last epoch ends in this log, if that is before what it has read already (KIP-595)."""
        self.check_readable(epoch)
        end = self.log.end_offset_for_epoch(last_epoch)
        if UNDEFINED_EPOCH in end or offset < self.log.log_start_offset:
            raise OffsetOutOfRangeError(f"{self.where}: nothing is known of offset {offset} in epoch {last_epoch}")
        return end if end.leader_epoch < last_epoch or end.end_offset < offset else None

    def check_offsets_known(self) -> None:
        """A new leader may not know yet how far its predecessor had come: consumers would see the end go back (KIP-207)."""
        if self.leadership is not None and self.log.high_watermark < self.leadership.start_offset:
            raise OffsetNotAvailableError(f"{self.where}: the new leader does not know yet how much is committed")

    def is_replicated(self, offset: int) -> bool:
        """Everything before ``offset`` is on all replicas in sync."""
        return self.log.high_watermark >= offset

    # What followers ask.

    def read_for_replica(self, offset: int, max_bytes: int, *, min_one: bool, epoch: int) -> Fetched:
        """For a follower: everything."""
        self.check_leader(epoch)
        return self.log.read(offset, max_bytes, min_one=min_one)

    def fetched(self, replica: int, offset: int, log_start_offset: int, *, broker_epoch: int, now_s: float) -> None:
        """A follower has fetched from ``offset``, so it has what lies before."""
        leadership = self.leadership
        end = self.log.log_end_offset
        if leadership is None or not leadership.fetched(
            replica, offset, log_start_offset, broker_epoch=broker_epoch, end_offset=end, now_s=now_s
        ):
            raise NotLeaderError(f"{self.where}: broker {replica} has no replica here")
        self._advance()
        if self._waiting_for_start:
            _wake(self._waiting_for_start)
        high_watermark = self.log.high_watermark
        if leadership.joins(replica, high_watermark=high_watermark):
            self._propose(leadership.propose_joining(BrokerId(replica), broker_epoch=self._broker_epoch()))
        elif leadership.has_lost(replica, high_watermark=high_watermark):
            self._propose(leadership.propose_leaving((BrokerId(replica),), broker_epoch=self._broker_epoch()))

    # What a follower does.

    def begin_to_follow(self, *, now_ms: int) -> None:
        """Records of the oldest formats have no epochs to be compared by: of those only what is committed stays."""
        if self.log.epochs.latest == UNDEFINED_EPOCH:
            self.log.truncate_to(self.log.high_watermark, now_ms=now_ms)

    def replicate(self, data: bytes, *, high_watermark: int, log_start_offset: int, now_ms: int) -> None:
        """Append what the leader sent, and learn how far it has come at either end."""
        log = self.log
        if data:
            log.append_as_follower(data, now_ms=now_ms)
        high_watermark = min(high_watermark, log.log_end_offset)
        if high_watermark > log.high_watermark:
            log.update_high_watermark(high_watermark)
            _wake(self._waiting)
        start = min(log_start_offset, log.high_watermark)
        if start > log.log_start_offset:
            log.increment_log_start_offset(start)

    def truncate_by_epoch(self, epoch: int, end_offset: int, *, now_ms: int) -> None:
        """Cut off what the leader does not have: its log of ``epoch`` ends at ``end_offset``."""
        log = self.log
        own = log.end_offset_for_epoch(epoch)
        offset = truncation_offset(EpochEndOffset(epoch, end_offset), own, log_end_offset=log.log_end_offset)
        log.truncate_to(offset, now_ms=now_ms)

    def fit_between(self, start: int, end: int, *, now_ms: int) -> None:
        """The leader has nothing that follows this log: make it end where the leader's does, or begin where that begins."""
        log = self.log
        if end < log.log_end_offset:
            log.truncate_to(end, now_ms=now_ms)
        elif start > log.log_end_offset:
            log.truncate_fully_and_start_at(start, now_ms=now_ms)

    # The ISR.

    def check_lag(self, *, now_s: float, lag_s: float) -> None:
        """Whoever has fallen behind for too long leaves the ISR, if the controller agrees."""
        if self.leadership is None:
            return
        late = self.leadership.lagging(end_offset=self.log.log_end_offset, now_s=now_s, lag_s=lag_s)
        self._propose(self.leadership.propose_leaving(late, broker_epoch=self._broker_epoch()))
        self._propose_next()
        self._advance()

    def isr_confirmed(self, leader_epoch: int, isr: Replicas, *, partition_epoch: int) -> None:
        """The controller's answer to a proposal."""
        leadership = self.leadership
        if leadership is None or leadership.epoch != leader_epoch:
            return
        if leadership.confirmed(isr, partition_epoch=partition_epoch):
            self.isr, self.partition_epoch = isr, partition_epoch
            if not self._advance():
                _wake(self._waiting)  # whether enough are in sync may be another answer now
            _wake(self._waiting_for_start)
            self._propose_next()

    def isr_refused(self, leader_epoch: int) -> None:
        if self.leadership is not None and self.leadership.epoch == leader_epoch:
            self.leadership.refused()
            self._advance()
            self._propose_next()

    def isr_open_again(self, leader_epoch: int) -> None:
        """A while after a refusal, whoever was refused may be proposed again."""
        if self.leadership is not None and self.leadership.epoch == leader_epoch:
            self.leadership.admit()
            self._propose_next()

    def broker_gone(self, broker_id: BrokerId) -> None:
        """A broker that may hold a replica is not there any more."""
        if self.leadership is not None:
            self.leadership.gone(broker_id)
            self._advance()

    def broker_back(self, broker_id: BrokerId) -> None:
        """A broker that may hold a replica is there again."""
        if self.leadership is not None:
            self.leadership.back(broker_id)
            self._propose_next()

    def _propose_next(self) -> None:
        leadership = self.leadership
        assert leadership is not None
        joining = leadership.waiting(end_offset=self.log.log_end_offset, high_watermark=self.log.high_watermark)
        if joining is not None:
            self._propose(leadership.propose_joining(joining, broker_epoch=self._broker_epoch()))

    def _broker_epoch(self) -> int:
        return NO_EPOCH if self._proposals is None else self._proposals.broker_epoch

    def _propose(self, proposal: Proposal | None) -> None:
        if proposal is not None and self._proposals is not None:
            self._proposals.propose(self, proposal)

    def _advance(self) -> bool:
        """Move the high watermark as far as may be, and wake who waits for it; whether it moved."""
        leadership = self.leadership
        if leadership is None or self.is_under_min_isr:
            return False
        offset = leadership.replicated_to(self.log.log_end_offset)
        if offset <= self.log.high_watermark:
            return False
        self.log.update_high_watermark(offset)
        for watch in self._watches:
            watch(False)
        if self._waiting:
            _wake(self._waiting)
        return True

    # Waiting.

    def wait(self, wake: Wake) -> None:
        """Until the high watermark moves, or this broker is no longer what it was."""
        self._waiting[wake] = None

    def wait_for_start(self, wake: Wake) -> None:
        """Likewise, until followers may have given up records."""
        self._waiting_for_start[wake] = None

    def forget(self, wake: Wake) -> None:
        self._waiting.pop(wake, None)
        self._waiting_for_start.pop(wake, None)

    def wake(self) -> None:
        _wake(self._waiting)
        _wake(self._waiting_for_start)
        for watch in list(self._watches):
            watch(True)

    def watch(self, watch: Watch) -> None:
        """Until ``unwatch``, and not only once. It may not change anything here."""
        self._watches[watch] = None

    def unwatch(self, watch: Watch) -> None:
        self._watches.pop(watch, None)


def _wake(waiting: dict[Wake, None]) -> None:
    for wake in list(waiting):
        wake()
