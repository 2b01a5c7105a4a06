"""Designs that Kafka had and gave up, or that its proposals warn of, put back into the product one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ottla.broker.apis import k00_produce
from ottla.controller.acts import brokers
from ottla.controller.machine import isr
from ottla.controller.machine.situation import Situation
from ottla.controller.term import Term
from ottla.log import AppendInfo, Fetched
from ottla.log.epochs import EpochEndOffset
from ottla.metadata.ids import NO_LEADER, BrokerId
from ottla.metadata.image import LiveBroker
from ottla.metadata.znodes.topics import LeaderAndIsr, Replicas
from ottla.records.validate import Vetted
from ottla.replica import partition
from ottla.replica.errors import NotEnoughReplicasError
from ottla.replica.leadership import Leadership
from ottla.replica.partition import ALL, Partition
from ottla.wire import ErrorCode

Patch = pytest.MonkeyPatch
Design = Callable[[Patch], None]


def truncation_to_the_high_watermark(patch: Patch) -> None:
    """KIP-101, first scenario: whoever begins to follow cuts its log where it knows it to be committed."""

    def begin(self: Partition, *, now_ms: int) -> None:
        self.log.truncate_to(self.log.high_watermark, now_ms=now_ms)

    patch.setattr(Partition, "begin_to_follow", begin)
    patch.setattr(Partition, "divergence", lambda *_, **__: None)


def no_truncation(patch: Patch) -> None:
    """KIP-101, second scenario: logs that diverged at the same offsets stay as they are."""
    patch.setattr(Partition, "divergence", lambda *_, **__: None)


def one_look_at_epochs(patch: Patch) -> None:
    """KIP-279: after two quick elections, a follower asks once, and cuts where the leader's answer ends, known to it or not."""

    def once(leader: EpochEndOffset, _own: EpochEndOffset, *, log_end_offset: int) -> int:
        return min(leader.end_offset, log_end_offset)

    patch.setattr(partition, "truncation_offset", once)
    patch.setattr(Partition, "divergence", _diverges_by_offset_alone)


def _diverges_by_offset_alone(self: Partition, last_epoch: int, offset: int, *, epoch: int) -> EpochEndOffset | None:
    """As before KIP-279: an epoch that the leader never saw ends where the next one that it did see begins."""
    self.check_readable(epoch)
    end = self.log.end_offset_for_epoch(last_epoch)
    return end if 0 <= end.end_offset < offset else None


def fetches_of_earlier_epochs_count(patch: Patch) -> None:
    """KIP-320, third rule: the high watermark does not wait for followers that have not been heard of in this epoch."""

    def replicated_to(self: Leadership, end_offset: int) -> int:
        known = [each.log_end_offset for each in self.followers.values() if each.log_end_offset >= 0]
        return min([end_offset, *known])

    patch.setattr(Leadership, "replicated_to", replicated_to)


def joining_at_a_stale_high_watermark(patch: Patch) -> None:
    """KIP-320, fourth rule: a follower may join before it has all of the earlier epochs."""

    def joins(self: Leadership, replica: int, *, high_watermark: int) -> bool:
        follower = self.followers.get(replica)
        if follower is None or self.proposed is not None or replica in self.committed:
            return False
        return follower.log_end_offset >= high_watermark

    patch.setattr(Leadership, "joins", joins)


def high_watermark_by_the_confirmed_isr_alone(patch: Patch) -> None:
    """KIP-497: what is proposed may have been agreed to already, and does not count."""

    def replicated_to(self: Leadership, end_offset: int) -> int:
        counted = [each.log_end_offset for broker, each in self.followers.items() if broker in self.committed]
        return min([end_offset, *counted])

    patch.setattr(Leadership, "replicated_to", replicated_to)


def last_replica_standing(patch: Patch) -> None:
    """KIP-966: the high watermark goes on with fewer in sync than the minimum."""
    advance = Partition._advance

    def advanced(self: Partition) -> bool:
        minimum, self.min_insync_replicas = self.min_insync_replicas, 1
        try:
            return advance(self)
        finally:
            self.min_insync_replicas = minimum

    patch.setattr(Partition, "_advance", advanced)


def in_sync_are_counted_at_the_append_only(patch: Patch) -> None:
    """L10: who leaves between the append and the acknowledgement is not missed."""
    append = Partition.append

    def checked(self: Partition, data: bytes | Vetted, *, acks: int, now_ms: int, later: bool = False) -> AppendInfo:
        if acks == ALL and len(self.isr) < min(self.min_insync_replicas, len(self.replicas)):
            raise NotEnoughReplicasError(f"{self.where}: {len(self.isr)} in sync")
        return append(self, data, acks=acks, now_ms=now_ms, later=later)

    patch.setattr(Partition, "append", checked)
    patch.setattr(Partition, "is_under_min_isr", False)


def two_leaders_accept(patch: Patch) -> None:
    """L18: whoever hears that somebody else leads goes on, and acknowledges what it has."""
    become, is_replicated = Partition.become, Partition.is_replicated
    deposed: set[Partition] = set()

    def goes_on(self: Partition, state: LeaderAndIsr, replicas: Replicas, *, now_s: float = 0.0) -> bool:
        if self.is_leader and state.leader not in (self.leader, NO_LEADER):
            deposed.add(self)
            return False
        return become(self, state, replicas, now_s=now_s)

    def is_enough(self: Partition, offset: int) -> bool:
        return self in deposed or is_replicated(self, offset)

    patch.setattr(Partition, "become", goes_on)
    patch.setattr(Partition, "is_replicated", is_enough)


def every_error_is_unknown(patch: Patch) -> None:
    """L20: whatever went wrong, a producer is told that something did."""
    patch.setattr(k00_produce, "error_code", lambda _error: ErrorCode.UNKNOWN_SERVER_ERROR)


def stale_registrations_join(patch: Patch) -> None:
    """KIP-903: who is proposed for the ISR may have crashed and come back with less since."""
    patch.setattr(isr, "_is_eligible", lambda situation, where, broker, _epoch: situation.is_online(broker, where))


def quick_bounces_keep_their_place(patch: Patch) -> None:
    """L11: a broker that is back before anybody missed it is in sync as before."""
    changed = brokers.changed

    async def unnoticed(term: Term, found: Mapping[BrokerId, LiveBroker]) -> None:
        before = term.image.brokers
        back = [broker for broker, live in found.items() if broker in before and before[broker].epoch != live.epoch]
        term.image = term.image.with_brokers({**before, **{broker: found[broker] for broker in back}})
        term.streams.follow(term.image.brokers)
        await brokers._welcome(term, back)
        await changed(term, found)

    patch.setattr(brokers, "changed", unnoticed)
    patch.setattr(Situation, "has_crashed", lambda _self, _broker: False)


def crashed_ones_are_trusted(patch: Patch) -> None:
    """L11: whoever of the last in sync comes back first leads, whatever it lost."""
    patch.setattr(Situation, "has_crashed", lambda _self, _broker: False)


def one_that_left_joins_unheard(patch: Patch) -> None:
    """A follower that has just left for being late is proposed again by what it had then."""

    def waiting(self: Leadership, *, high_watermark: int, **_: int) -> BrokerId | None:
        found = (each for each in self.followers if self.joins(each, high_watermark=high_watermark))
        return next(map(BrokerId, found), None)

    patch.setattr(Leadership, "waiting", waiting)


def acknowledged_before_it_is_replicated(patch: Patch) -> None:
    """L1: the leader's word is enough."""
    patch.setattr(Partition, "is_replicated", lambda _self, _offset: True)


def consumers_read_to_the_end(patch: Patch) -> None:
    """L7: what is not committed can be read."""

    def read(self: Partition, offset: int, max_bytes: int, *, epoch: int, min_one: bool, **_: object) -> Fetched:
        self.check_readable(epoch)
        return self.log.read(offset, max_bytes, min_one=min_one)

    patch.setattr(Partition, "read", read)


def ends_that_go_back(patch: Patch) -> None:
    """KIP-207: a new leader tells its own high watermark before it knows its predecessor's."""
    patch.setattr(Partition, "check_offsets_known", lambda _self: None)


DESIGNS: dict[Design, int] = {
    truncation_to_the_high_watermark: 0,
    no_truncation: 0,
    fetches_of_earlier_epochs_count: 0,
    joining_at_a_stale_high_watermark: 1,
    high_watermark_by_the_confirmed_isr_alone: 1,
    last_replica_standing: 0,
    in_sync_are_counted_at_the_append_only: 0,
    quick_bounces_keep_their_place: 0,
    crashed_ones_are_trusted: 0,
    one_that_left_joins_unheard: 1,
    acknowledged_before_it_is_replicated: 0,
    two_leaders_accept: 0,
    every_error_is_unknown: 0,
    consumers_read_to_the_end: 0,
    ends_that_go_back: 1,
}
"""Each with the seed of a history that it breaks."""
