"""Partitions on several brokers, with fetches as calls: what a follower asks and what its leader answers, without a network."""

from __future__ import annotations

from pathlib import Path

from ottla.log import LogConfig, LogDirectory, OffsetOutOfRangeError
from ottla.metadata import BrokerId, Image, LeaderAndIsr, TopicId, TopicPartition
from ottla.records import Record, build_batch
from ottla.replica.leadership import Proposal
from ottla.replica.partition import Partition
from ottla.replica.replicas import Order, Replicas

NOW_MS = 1_700_000_000_000
WHERE = TopicPartition("t", 0)
TOPIC_ID = TopicId(b"the topic's id..")


class Broker:
    """One broker with a replica of the partition. Proposals are kept, for whoever plays the controller."""

    broker_epoch = 1

    def __init__(self, folder: Path, number: int) -> None:
        self.id = BrokerId(number)
        self.proposals: list[Proposal] = []
        self._folder = folder / str(number)
        self._open()

    def _open(self) -> None:
        self.directory = LogDirectory(self._folder)
        self.directory.load(lambda _topic: LogConfig(), now_ms=NOW_MS)
        self.image = Image()
        self.replicas = Replicas(
            self.id, [self.directory], lambda _topic: LogConfig(), proposals=self, image=lambda: self.image
        )

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        assert partition.where == WHERE
        self.proposals.append(proposal)

    @property
    def partition(self) -> Partition:
        return self.replicas.partition(*WHERE)

    def order(
        self,
        leader: int,
        epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
        *,
        version: int = 0,
        recovering: bool = False,
    ) -> None:
        state = LeaderAndIsr(BrokerId(leader), epoch, tuple(map(BrokerId, isr)), 1, version, recovering)
        order = Order(WHERE, TOPIC_ID, state, tuple(map(BrokerId, replicas)))
        self.replicas.obey(order, now_ms=NOW_MS, now_s=0.0)

    def append(self, *values: str, acks: int = 1) -> None:
        for value in values:
            batch = build_batch([Record(None, value.encode(), NOW_MS)])
            self.partition.append(batch, acks=acks, now_ms=NOW_MS)

    def crash(self) -> None:
        """Ends without a word and starts again; what was written is there, as the page cache survives a process."""
        self.replicas.checkpoint()
        self.directory.abandon()
        self._open()

    def restart(self) -> None:
        """Stops in good order, so that nothing is read when it starts again."""
        self.replicas.checkpoint()
        self.directory.close(now_ms=NOW_MS)
        self._open()

    def close(self) -> None:
        self.directory.abandon()

    @property
    def end(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.partition.log.high_watermark

    def bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted((self._folder / str(WHERE)).glob("*.log")))


def fetch(follower: Broker, leader: Broker, *, now_s: float = 0.0, max_bytes: int = 1 << 20) -> bool:
    """One fetch as ``Fetcher`` makes it; whether the follower's log is another one now."""
    own, led = follower.partition, leader.partition
    offset, epoch = own.log.log_end_offset, own.leader_epoch
    before = follower.bytes()
    try:
        end = None if own.log.epochs.latest < 0 else led.divergence(own.log.epochs.latest, offset, epoch=epoch)
        if end is not None:
            own.truncate_by_epoch(end.leader_epoch, end.end_offset, now_ms=NOW_MS)
            return True
        found = led.read_for_replica(offset, max_bytes, min_one=True, epoch=epoch)
    except OffsetOutOfRangeError:
        own.fit_between(led.log.log_start_offset, led.log.log_end_offset, now_ms=NOW_MS)
        return True
    led.fetched(follower.id, offset, own.log.log_start_offset, broker_epoch=follower.broker_epoch, now_s=now_s)
    own.replicate(
        b"" if found.range is None else found.range.read(),
        high_watermark=led.log.high_watermark,
        log_start_offset=led.log.log_start_offset,
        now_ms=NOW_MS,
    )
    return follower.bytes() != before


def catch_up(follower: Broker, leader: Broker) -> int:
    """Fetches until nothing changes any more; how many it took."""
    for count in range(1, 100):
        if not fetch(follower, leader):
            return count
    raise AssertionError("the follower never gets there")
