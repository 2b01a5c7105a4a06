"""One partition on this broker.

    high_watermark ≤ log_end_offset    what every replica in sync has; consumers see nothing behind it

The controller says who leads, in which epoch, and who is in sync. A leader appends, and its high watermark is the smallest
end offset of the replicas in sync, its own among them: alone in sync, it is the end of its log, at once.

Whoever waits (a produce for its records to be replicated, a fetch for records to arrive) is woken once for every advance,
of the high watermark or of the end of the log, and looks for itself whether that was enough.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.log import AppendInfo, Fetched, Log
from ottla.log.epochs import EpochEndOffset
from ottla.log.outcomes import FoundOffset
from ottla.metadata.ids import BrokerId, TopicId, TopicPartition
from ottla.metadata.znodes.topics import LeaderAndIsr, Replicas
from ottla.records import AppendOrigin
from ottla.replica.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderError,
    UnknownLeaderEpochError,
)

ALL = -1
"""``acks``: every replica in sync has to have it."""
NO_EPOCH = -1

Wake = Callable[[], None]


class Partition:
    """See the module. Lives as long as the replica is assigned to this broker."""

    def __init__(self, where: TopicPartition, topic_id: TopicId | None, log: Log, broker_id: BrokerId) -> None:
        self.where = where
        self.topic_id = topic_id
        self.log = log
        self.min_insync_replicas = 1
        self.leader = BrokerId(-1)
        self.leader_epoch = NO_EPOCH
        self.isr: Replicas = ()
        self.replicas: Replicas = ()
        self.partition_epoch = 0
        self._broker_id = broker_id
        self._waiting: dict[Wake, None] = {}

    @property
    def is_leader(self) -> bool:
        return self.leader == self._broker_id

    # What the controller says.

    def become(self, state: LeaderAndIsr, replicas: Replicas) -> bool:
        """Take on a newer state; False for one that is no news."""
        if (state.leader_epoch, state.partition_epoch) < (self.leader_epoch, self.partition_epoch):
            return False
        new_epoch = state.leader_epoch > self.leader_epoch
        self.leader, self.leader_epoch = state.leader, state.leader_epoch
        self.isr, self.replicas, self.partition_epoch = state.isr, replicas, state.partition_epoch
        if self.is_leader:
            if new_epoch:
                self.log.assign_epoch(state.leader_epoch)
            self._advance()
        self.wake()
        return True

    # What clients ask.

    def check_leader(self, epoch: int = NO_EPOCH) -> None:
        """Refuse what only the leader may do, and whoever knows of another epoch than this one."""
        if epoch not in (NO_EPOCH, self.leader_epoch):
            if epoch < self.leader_epoch:
                raise FencedLeaderEpochError(f"{self.where}: epoch {epoch} is over, this is {self.leader_epoch}")
            raise UnknownLeaderEpochError(f"{self.where}: epoch {epoch} is not known here, this is {self.leader_epoch}")
        if not self.is_leader:
            raise NotLeaderError(f"{self.where}: broker {self.leader} leads")

    def append(self, data: bytes, *, acks: int, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT) -> AppendInfo:
        self.check_leader()
        if acks == ALL and len(self.isr) < self.min_insync_replicas:
            raise NotEnoughReplicasError(
                f"{self.where}: {len(self.isr)} in sync, {self.min_insync_replicas} are needed"
            )
        info = self.log.append_as_leader(data, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin)
        self._advance()
        if self._waiting:
            self.wake()
        return info

    def read(self, offset: int, max_bytes: int, *, committed: bool, min_one: bool, epoch: int = NO_EPOCH) -> Fetched:
        """For a consumer: nothing behind the high watermark, or behind the last stable offset."""
        self.check_leader(epoch)
        upper = self.log.last_stable_offset if committed else self.log.high_watermark
        return self.log.read(offset, max_bytes, upper=upper, min_one=min_one)

    def end_offset_for_epoch(self, leader_epoch: int, *, epoch: int = NO_EPOCH) -> EpochEndOffset:
        self.check_leader(epoch)
        return self.log.end_offset_for_epoch(leader_epoch)

    def offset_for_timestamp(self, timestamp: int) -> FoundOffset | None:
        return self.log.offset_for_timestamp(timestamp)

    def is_replicated(self, offset: int) -> bool:
        """Everything before ``offset`` is on all replicas in sync."""
        return self.log.high_watermark >= offset

    # Waiting.

    def wait(self, wake: Wake) -> None:
        self._waiting[wake] = None

    def forget(self, wake: Wake) -> None:
        self._waiting.pop(wake, None)

    def wake(self) -> None:
        for wake in list(self._waiting):
            wake()

    def _advance(self) -> None:
        if self.isr == (self._broker_id,):
            self.log.update_high_watermark(self.log.log_end_offset)
