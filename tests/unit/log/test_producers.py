"""Idempotence and transactions: what is a repetition, what is refused, what is remembered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.log import Log
from ottla.log.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from ottla.log.producers import decode_snapshot, encode_snapshot
from ottla.records import AppendOrigin
from ottla.records.batch import SEQUENCES
from tests.unit.log.logs import NOW_MS, SMALL, idempotent, marker, open_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "t-0")[0]


def append(log: Log, data: bytes, *, now_ms: int = NOW_MS) -> tuple[int, bool]:
    info = log.append_as_leader(data, leader_epoch=0, now_ms=now_ms)
    return info.first_offset, info.duplicate


def end_transaction(log: Log, data: bytes) -> int:
    return log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR).first_offset


def test_each_of_the_last_five_batches_may_be_sent_again(log: Log) -> None:
    for number in range(7):
        assert append(log, idempotent(1, number * 2, count=2)) == (number * 2, False)
    for number in range(2, 7):
        assert append(log, idempotent(1, number * 2, count=2)) == (number * 2, True)
    for number in (0, 1):
        with pytest.raises(OutOfOrderSequenceError):
            append(log, idempotent(1, number * 2, count=2))
    assert log.log_end_offset == 14


def test_a_gap_is_refused_and_changes_nothing(log: Log) -> None:
    append(log, idempotent(1, 0))
    for sequence in (2, 5):
        with pytest.raises(OutOfOrderSequenceError) as caught:
            append(log, idempotent(1, sequence))
        assert caught.value.error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert append(log, idempotent(1, 1)) == (1, False)


def test_sequences_start_over(log: Log) -> None:
    last = SEQUENCES - 1
    assert append(log, idempotent(1, last - 2, count=2)) == (0, False)
    assert append(log, idempotent(1, last, count=3)) == (2, False)  # last, 0, 1
    assert append(log, idempotent(1, last, count=3)) == (2, True)
    assert append(log, idempotent(1, 2)) == (5, False)


def test_a_new_epoch_starts_at_zero_and_fences_the_old(log: Log) -> None:
    append(log, idempotent(1, 0))
    with pytest.raises(OutOfOrderSequenceError):
        append(log, idempotent(1, 1, epoch=1))
    append(log, idempotent(1, 0, epoch=1))
    with pytest.raises(InvalidProducerEpochError) as caught:
        append(log, idempotent(1, 1, epoch=0))
    assert caught.value.error == "INVALID_PRODUCER_EPOCH"


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_remembers(log: Log, tmp_path: Path, clean: bool) -> None:
    for number in range(40):
        append(log, idempotent(1, number))
    assert len(log.segments) > 1
    if clean:
        log.close(now_ms=NOW_MS)
    else:
        log.abandon()
    again, _ = open_log(tmp_path / "t-0", recovery_point=40 if clean else 0, clean=clean)
    assert append(again, idempotent(1, 39)) == (39, True)
    with pytest.raises(OutOfOrderSequenceError):
        append(again, idempotent(1, 41))
    assert append(again, idempotent(1, 40)) == (40, False)


def test_a_retry_that_a_start_came_between_is_known_as_well(log: Log, tmp_path: Path) -> None:
    """A snapshot tells of the last batch only; those before it are in the log, in earlier segments and between others."""
    for number in range(40):
        append(log, idempotent(1, number))
        append(log, idempotent(2, number))
    log.close(now_ms=NOW_MS)
    again, _ = open_log(tmp_path / "t-0", recovery_point=80, clean=True)
    assert len(again.producers.entries[1].batches) == 1
    for number in (36, 39, 35, 38, 37):
        assert append(again, idempotent(1, number)) == (2 * number, True)
    with pytest.raises(OutOfOrderSequenceError):
        append(again, idempotent(1, 34))
    assert append(again, idempotent(2, 40)) == (80, False)
    assert append(again, idempotent(2, 38)) == (77, True)


def test_what_a_producer_wrote_in_an_earlier_life_is_no_retry(log: Log, tmp_path: Path) -> None:
    """It was forgotten, and went on elsewhere; the log still has what was before."""
    append(log, idempotent(1, 10))
    log.producers.expire(NOW_MS + (1 << 40))
    append(log, idempotent(1, 50))
    log.close(now_ms=NOW_MS)
    again, _ = open_log(tmp_path / "t-0", recovery_point=2, clean=True)
    with pytest.raises(OutOfOrderSequenceError):
        append(again, idempotent(1, 10))
    assert append(again, idempotent(1, 51)) == (2, False)


def test_what_is_truncated_is_forgotten(log: Log) -> None:
    for number in range(40):
        append(log, idempotent(1, number))
    log.truncate_to(25, now_ms=NOW_MS)
    assert append(log, idempotent(1, 24)) == (24, True)
    assert append(log, idempotent(1, 25)) == (25, False)
    log.truncate_fully_and_start_at(7, now_ms=NOW_MS)
    assert append(log, idempotent(1, 99)) == (7, False)


def test_silent_producers_expire(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", replace(SMALL, producer_id_expiration_ms=1000))
    append(log, idempotent(1, 0))
    append(log, idempotent(2, 0, transactional=True))
    assert log.producers.expire(NOW_MS + 999) == []
    assert log.producers.expire(NOW_MS + 1000) == [1]
    assert append(log, idempotent(1, 77)) == (2, False)


def test_the_last_stable_offset_waits_for_replicated_ends(log: Log) -> None:
    append(log, idempotent(9, 0))
    append(log, idempotent(1, 0, transactional=True))
    append(log, idempotent(2, 0, transactional=True))
    log.update_high_watermark(3)
    assert log.last_stable_offset == 1
    assert end_transaction(log, marker(1, commit=False)) == 3
    assert log.last_stable_offset == 1
    log.update_high_watermark(4)
    assert log.last_stable_offset == 2
    end_transaction(log, marker(2, commit=True))
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5
    assert [tuple(aborted) for aborted in log.aborted_transactions(0, 5)] == [(1, 1, 3, 2)]


def test_rules_of_transactions(log: Log) -> None:
    append(log, idempotent(1, 0, transactional=True))
    with pytest.raises(InvalidTxnStateError):
        append(log, idempotent(1, 1))
    end_transaction(log, marker(1, commit=True, coordinator_epoch=4))
    with pytest.raises(TransactionCoordinatorFencedError):
        end_transaction(log, marker(1, commit=True, coordinator_epoch=3))
    with pytest.raises(InvalidProducerEpochError):
        end_transaction(log, marker(1, commit=True, epoch=-1, coordinator_epoch=4))


def test_a_marker_of_a_new_epoch_comes_before_its_first_record(log: Log) -> None:
    append(log, idempotent(1, 0, transactional=True))
    end_transaction(log, marker(1, commit=False, epoch=1))
    with pytest.raises(InvalidProducerEpochError):
        append(log, idempotent(1, 1, epoch=0, transactional=True))
    append(log, idempotent(1, 0, epoch=1, transactional=True))


def test_every_flipped_bit_of_a_snapshot_is_noticed(log: Log) -> None:
    append(log, idempotent(1, 0))
    append(log, idempotent(2, 5, transactional=True))
    data = encode_snapshot(log.producers.entries.values())
    assert encode_snapshot(decode_snapshot(data, Path("x"))) == data
    for bit in range(8 * len(data)):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptionError):
            decode_snapshot(bytes(broken), Path("x"))
