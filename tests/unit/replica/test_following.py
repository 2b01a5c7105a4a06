"""A follower's log becomes its leader's, whatever became of both: the cases of KIP-101 and KIP-279, and others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.log.epochs import EpochEndOffset
from ottla.metadata import BrokerId, LeaderAndIsr, TopicId, TopicPartition
from ottla.metadata.ids import NO_LEADER
from ottla.replica.errors import FencedLeaderEpochError, OfflinePartitionError, UnknownLeaderEpochError
from ottla.replica.replicas import EPOCH_DURING_DELETE, Order
from ottla.replica.truncation import truncation_offset
from tests.sources import COMPILED
from tests.unit.replica.pairs import NOW_MS, WHERE, Broker, catch_up, fetch

A, B = 1, 2
BOTH = (A, B)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    a, b = Broker(tmp_path, A), Broker(tmp_path, B)
    yield a, b
    a.close()
    b.close()


def order(pair: tuple[Broker, Broker], leader: int, epoch: int, isr: tuple[int, ...] = BOTH) -> None:
    for broker in pair:
        broker.order(leader, epoch, isr, BOTH)


def test_a_restarted_follower_keeps_what_lies_behind_its_high_watermark(pair: tuple[Broker, Broker]) -> None:
    """KIP-101, scenario 1: cut to the high watermark and elected at once, it would have lost an acknowledged record."""
    a, b = pair
    order(pair, A, 0)
    a.append("m1")
    fetch(b, a)
    fetch(b, a)
    a.append("m2")
    fetch(b, a)
    fetch_of_b_that_commits = b.end
    a.partition.fetched(B, fetch_of_b_that_commits, 0, broker_epoch=1, now_s=0.0)
    assert (a.high_watermark, b.high_watermark, b.end) == (2, 1, 2)
    b.crash()
    b.order(A, 1, BOTH, BOTH)
    assert b.end == 2
    b.order(B, 2, (B,), BOTH)
    assert (b.end, b.high_watermark) == (2, 2)


def test_logs_that_diverged_at_one_offset_are_made_alike(pair: tuple[Broker, Broker]) -> None:
    """KIP-101, scenario 2: both crash, and the one with less leads first."""
    a, b = pair
    order(pair, A, 0)
    a.append("m1")
    fetch(b, a)
    a.append("m2")
    a.crash()
    b.crash()
    b.order(B, 1, (B,), BOTH)
    b.append("m2'")
    a.order(B, 1, (B,), BOTH)
    assert a.end == b.end == 2
    catch_up(a, b)
    assert a.bytes() == b.bytes()


def test_two_quick_elections_leave_epochs_that_the_other_never_saw(pair: tuple[Broker, Broker]) -> None:
    """KIP-279: the follower holds an epoch that the leader lacks, and the other way round."""
    a, b = pair
    order(pair, A, 0)
    a.append("m1", "m2", "m3")
    fetch(b, a)
    b.order(B, 1, (B,), BOTH)
    b.append("b4", "b5")
    a.order(A, 2, (A,), BOTH)
    a.append("a4", "a5", "a6")
    b.order(B, 3, (B,), BOTH)
    b.append("b6")
    a.order(B, 3, (B,), BOTH)
    catch_up(a, b)
    assert a.bytes() == b.bytes()
    assert a.partition.log.epochs.entries == b.partition.log.epochs.entries


def test_a_follower_that_knows_only_older_epochs_asks_again() -> None:
    leader = EpochEndOffset(1, 6)
    assert truncation_offset(leader, EpochEndOffset(0, 3), log_end_offset=9) == 3
    assert truncation_offset(leader, EpochEndOffset(1, 4), log_end_offset=9) == 4
    assert truncation_offset(leader, EpochEndOffset(1, 8), log_end_offset=9) == 6
    assert truncation_offset(leader, EpochEndOffset(-1, -1), log_end_offset=5) == 5


def test_a_follower_from_before_the_leaders_log_starts_over_at_its_start(pair: tuple[Broker, Broker]) -> None:
    a, b = pair
    a.order(A, 0, (A,), (A,))
    a.append("m1", "m2", "m3")
    a.partition.log.increment_log_start_offset(2)
    order(pair, A, 1, (A,))
    assert fetch(b, a)
    assert b.partition.log.log_start_offset == 2
    catch_up(b, a)
    assert (b.end, b.partition.log.log_start_offset) == (3, 2)


def test_the_followers_offsets_are_the_leaders_as_far_as_it_has_come(pair: tuple[Broker, Broker]) -> None:
    a, b = pair
    order(pair, A, 0, (A,))
    a.append("m1", "m2")
    b.partition.replicate(b"", high_watermark=2, log_start_offset=1, now_ms=NOW_MS)
    assert (b.high_watermark, b.partition.log.log_start_offset) == (0, 0)
    catch_up(b, a)
    assert b.high_watermark == 2
    b.partition.replicate(b"", high_watermark=1, log_start_offset=1, now_ms=NOW_MS)
    assert (b.high_watermark, b.partition.log.log_start_offset) == (2, 1)


def test_a_fetch_of_another_epoch_is_refused_and_changes_nothing(pair: tuple[Broker, Broker]) -> None:
    a, b = pair
    order(pair, A, 3)
    a.append("m1")
    for epoch, error in ((2, FencedLeaderEpochError), (4, UnknownLeaderEpochError)):
        with pytest.raises(error):
            a.partition.read_for_replica(0, 100, min_one=True, epoch=epoch)
        with pytest.raises(error):
            a.partition.divergence(0, 0, epoch=epoch)
    assert a.partition.leadership is not None
    assert a.partition.leadership.followers[B].log_end_offset == -1
    assert b.end == 0


def test_a_damaged_log_never_leads_and_is_fetched_again_from_whoever_does(pair: tuple[Broker, Broker]) -> None:
    a, b = pair
    order(pair, A, 0)
    a.append("m1", "m2", "m3")
    catch_up(b, a)
    damage(b)
    with pytest.raises(OfflinePartitionError):
        b.order(B, 1, (B,), BOTH)
    with pytest.raises(OfflinePartitionError):
        b.replicas.partition(*WHERE)
    order(pair, A, 2, (A,))
    catch_up(b, a)
    assert b.bytes() == a.bytes()
    assert list(b.directory.path.glob("t-0.*-stray/*.log"))


@pytest.mark.skipif(COMPILED, reason="nothing can be put in the place of compiled methods")
def test_a_damaged_log_that_is_cut_and_leads_is_found_out(
    pair: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """L13: what is whole at its beginning is taken for all there was."""
    monkeypatch.setattr("ottla.log.loader._RecoveryPass._check_end", lambda *_, **__: None)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_a_damaged_log_never_leads_and_is_fetched_again_from_whoever_does(pair)
    _, b = pair
    assert b.partition.is_leader
    assert b.end < 3, "it leads without what was acknowledged"


@pytest.mark.parametrize("heard", [True, False])
def test_a_damaged_log_does_not_stand_in_the_way_of_a_later_topic(pair: tuple[Broker, Broker], heard: bool) -> None:
    _, b = pair
    b.order(B, 0, (B,), (B,))
    b.append("m1", "m2", "m3")
    damage(b)
    assert b.directory.corrupt
    if heard:
        b.replicas.stop(WHERE, leader_epoch=EPOCH_DURING_DELETE, delete=True, now_ms=NOW_MS)
    state = LeaderAndIsr(BrokerId(B), 0, (BrokerId(B),), 1)
    again = Order(WHERE, TopicId(b"another topic's."), state, (BrokerId(B),))
    b.replicas.obey(again, now_ms=NOW_MS, now_s=0.0)
    assert b.partition.is_leader
    assert b.end == 0


def test_damage_that_a_reader_finds_is_left_to_who_has_it_in_sync(pair: tuple[Broker, Broker]) -> None:
    a, b = pair
    order(pair, A, 0)
    a.append("m1", "m2", "m3")
    catch_up(b, a)
    damage_unnoticed(a)
    order(pair, A, 1)
    found = found_by_reader(a)
    assert a.replicas.give_up(WHERE, found, now_ms=NOW_MS)
    assert not a.replicas.give_up(WHERE, found, now_ms=NOW_MS), "once is enough"
    for leader in (A, NO_LEADER):  # the controller asks, and does not know yet
        with pytest.raises(OfflinePartitionError):
            a.order(leader, 1, BOTH, BOTH)
    order(pair, B, 2, (B,))
    catch_up(a, b)
    assert a.bytes() == b.bytes()
    assert list(a.directory.path.glob("t-0.*-stray/*.log"))


def test_damage_that_a_follower_finds_is_fetched_again(pair: tuple[Broker, Broker]) -> None:
    a, b = pair
    order(pair, A, 0)
    a.append("m1", "m2", "m3")
    catch_up(b, a)
    damage_unnoticed(b)
    order(pair, A, 1)
    assert b.replicas.give_up(WHERE, found_by_reader(b), now_ms=NOW_MS)
    b.order(A, 1, BOTH, BOTH)  # the controller asks what is left
    catch_up(b, a)
    assert b.bytes() == a.bytes()


def test_the_last_in_sync_serves_what_is_sound_of_a_damaged_log(pair: tuple[Broker, Broker]) -> None:
    a, _ = pair
    order(pair, A, 0, (A,))
    a.append("m1", "m2", "m3")
    damage_unnoticed(a)
    order(pair, A, 1, (A,))
    assert not a.replicas.give_up(WHERE, found_by_reader(a), now_ms=NOW_MS)
    assert a.partition.is_leader
    for offset in (0, 2):
        assert a.partition.read(offset, 1, committed=False, min_one=True).range is not None


def found_by_reader(broker: Broker) -> CorruptionError:
    """What is told of the second record, once however often it is asked for."""
    found: list[tuple[TopicPartition, CorruptionError]] = []
    broker.replicas.on_damage = lambda where, damage: found.append((where, damage))
    for _ in range(2):
        with pytest.raises(CorruptionError):
            broker.partition.log.read(1, 1 << 20)
    ((where, damage),) = found
    assert where == WHERE
    return damage


def damage(broker: Broker) -> None:
    """A bit in the middle of what was on disk, found at the next start."""
    _flip_a_bit(broker)
    broker.crash()


def damage_unnoticed(broker: Broker) -> None:
    """The same behind a stop in good order."""
    _flip_a_bit(broker)
    broker.restart()
    assert not broker.directory.corrupt


def _flip_a_bit(broker: Broker) -> None:
    log = broker.partition.log
    log.flush(now_ms=NOW_MS)
    broker.replicas.checkpoint()
    (segment,) = log.directory.glob("*.log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
