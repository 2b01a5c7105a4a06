"""One log: append, read, roll, flush, truncate, retention, epochs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ottla.log import Log, LogConfig, OffsetOutOfRangeError
from ottla.log.errors import OutOfOrderOffsetsError, RecordListTooLargeError
from ottla.records import TimestampType
from ottla.records.errors import CorruptMessageError
from tests.unit.log.logs import NOW_MS, SMALL, batch, check_indexes, contents, numbered_batch, open_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "t-0")[0]


def fill(log: Log, batches: int, *, epoch: int = 0) -> None:
    for number in range(batches):
        log.append_as_leader(numbered_batch(number), leader_epoch=epoch, now_ms=NOW_MS)


def test_offsets_follow_each_other(log: Log) -> None:
    infos = [log.append_as_leader(numbered_batch(n, 2), leader_epoch=0, now_ms=NOW_MS) for n in range(30)]
    assert [info.first_offset for info in infos] == list(range(0, 60, 2))
    assert [record.offset for record in contents(log)] == list(range(60))
    assert len(log.segments) > 2
    check_indexes(log)


def test_a_read_starts_with_the_batch_that_holds_the_offset(log: Log) -> None:
    fill(log, 20)
    for offset in range(60):
        assert contents(log, offset)[0].offset == offset
    assert log.read(60, 100).range is None
    for offset in (-1, 61):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, 100)


def test_the_first_batch_is_whole_however_little_is_asked_for(log: Log) -> None:
    fill(log, 2)
    found = log.read(0, 1)
    assert found.range is not None
    assert found.range.length == log.active.locate(0).header.size  # type: ignore[union-attr]
    small = log.read(0, 10, min_one=False).range
    assert small is not None
    assert small.length == 10


def test_nothing_at_or_behind_the_upper_offset_is_read(log: Log) -> None:
    fill(log, 20)
    for upper in range(0, 61, 3):
        for offset in range(0, upper, 3):
            found = log.read(offset, 1 << 20, upper=upper)
            assert found.range is not None
            assert found.upper_bound <= upper
            data = found.range.read()
            assert data
            assert found.range.position + len(data) <= next(
                (s.locate(upper).position for s in log.segments if s.file is found.range.file and s.locate(upper)),  # type: ignore[union-attr]
                1 << 30,
            )


def test_a_range_outlives_its_segment(log: Log) -> None:
    fill(log, 20)
    found = log.read(0, 1 << 20).range
    assert found is not None
    data = found.read()
    log.truncate_fully_and_start_at(100, now_ms=NOW_MS)
    log.delete_marked(now_ms=NOW_MS)
    assert found.read() == data
    assert not list(log.directory.glob("*.deleted"))


def test_log_append_time_is_told(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", replace(SMALL, message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert log.append_as_leader(batch(b"v", timestamp=1), leader_epoch=0, now_ms=NOW_MS).log_append_time == NOW_MS


def test_more_than_a_segment_holds_is_refused(log: Log) -> None:
    with pytest.raises(RecordListTooLargeError):
        log.append_as_leader(batch(bytes(3000)), leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == 0


def test_rolls_by_time_and_by_a_full_index(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "a", LogConfig(segment_ms=1000))
    for time in (0, 1000, 1001, 2001, 2002):
        log.append_as_leader(batch(b"v", timestamp=NOW_MS + time), leader_epoch=0, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    log, _ = open_log(tmp_path / "b", LogConfig(segment_index_bytes=24, index_interval_bytes=0))
    fill(log, 9)
    assert len(log.segments) > 2
    check_indexes(log)


def test_a_follower_has_the_bytes_of_its_leader(log: Log, tmp_path: Path) -> None:
    fill(log, 20)
    follower, _ = open_log(tmp_path / "follower")
    while follower.log_end_offset < log.log_end_offset:
        found = log.read(follower.log_end_offset, 900).range
        assert found is not None
        follower.append_as_follower(found.read(), now_ms=NOW_MS)
    assert contents(follower) == contents(log)
    assert b"".join(s.file.path.read_bytes() for s in follower.segments) == b"".join(
        s.file.path.read_bytes() for s in log.segments
    )
    assert follower.epochs.entries == log.epochs.entries
    check_indexes(follower)


def test_a_follower_takes_nothing_twice_and_nothing_damaged(log: Log, tmp_path: Path) -> None:
    fill(log, 3)
    data = log.active.file.path.read_bytes()
    follower, _ = open_log(tmp_path / "follower")
    assert follower.append_as_follower(data[:40], now_ms=NOW_MS) is None
    follower.append_as_follower(data, now_ms=NOW_MS)
    with pytest.raises(OutOfOrderOffsetsError):
        follower.append_as_follower(data, now_ms=NOW_MS)
    broken = bytearray(data)
    broken[-1] ^= 1
    other, _ = open_log(tmp_path / "other")
    with pytest.raises(CorruptMessageError):
        other.append_as_follower(bytes(broken), now_ms=NOW_MS)
    assert other.log_end_offset == other.active.size == 0


def test_time_is_looked_up(log: Log) -> None:
    fill(log, 30)
    for number in range(30):
        assert log.offset_for_timestamp(NOW_MS + number) == (NOW_MS + number, number * 3, 0)
    assert log.offset_for_timestamp(NOW_MS + 30) is None
    assert log.offset_of_max_timestamp() == (NOW_MS + 29, 87, 0)
    log.update_high_watermark(90)
    log.increment_log_start_offset(50)
    assert log.offset_for_timestamp(0) == (NOW_MS + 16, 50, 0)


@pytest.mark.parametrize("offset", [0, 3, 30, 31, 32, 57, 59])
def test_truncation(log: Log, offset: int) -> None:
    fill(log, 20)
    log.update_high_watermark(60)
    before = contents(log)
    assert log.truncate_to(offset, now_ms=NOW_MS)
    end = offset - offset % 3
    assert log.log_end_offset == log.high_watermark == end
    assert contents(log) == before[:end]
    check_indexes(log)
    fill(log, 5)
    assert [record.offset for record in contents(log)] == list(range(end + 15))
    check_indexes(log)


def test_epochs(log: Log) -> None:
    for epoch in (2, 2, 5, 7):
        fill(log, 1, epoch=epoch)
    assert log.epochs.entries == ((2, 0), (5, 6), (7, 9))
    ends = {epoch: tuple(log.end_offset_for_epoch(epoch)) for epoch in range(-1, 9)}
    assert ends == {
        -1: (-1, -1),
        0: (0, 0),
        1: (1, 0),
        2: (2, 6),
        3: (2, 6),
        4: (2, 6),
        5: (5, 9),
        6: (5, 9),
        7: (7, 12),
        8: (-1, -1),
    }
    log.truncate_to(8, now_ms=NOW_MS)
    assert log.log_end_offset == 6  # where the batch starts that holds offset 8
    assert list(log.epochs.entries) == [(2, 0)]
    assert log.end_offset_for_epoch(5) == (-1, -1)


def test_retention_by_time_size_and_start_offset(tmp_path: Path) -> None:
    config = replace(SMALL, retention_ms=10)
    log, _ = open_log(tmp_path / "time", config)
    fill(log, 30)
    assert log.delete_old_segments(now_ms=NOW_MS + 100) == 0  # nothing is replicated yet
    log.update_high_watermark(90)
    assert log.delete_old_segments(now_ms=NOW_MS + 100) > 2
    assert log.log_start_offset == log.log_end_offset == 90
    log, _ = open_log(tmp_path / "size", replace(SMALL, retention_bytes=4000))
    fill(log, 30)
    log.update_high_watermark(90)
    log.delete_old_segments(now_ms=NOW_MS)
    assert 4000 <= log.size < 6000
    assert contents(log)[0].offset == log.log_start_offset == log.segments[0].base_offset
    log, _ = open_log(tmp_path / "start", replace(SMALL, cleanup_policy=frozenset(("compact",))))
    fill(log, 30)
    log.update_high_watermark(60)
    log.increment_log_start_offset(60)
    assert log.delete_old_segments(now_ms=NOW_MS) > 0
    assert log.segments[0].base_offset <= 60 < log.segments[1].base_offset
    with pytest.raises(OffsetOutOfRangeError):
        log.increment_log_start_offset(61)


def test_flushes_are_asked_for_and_grouped(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", LogConfig(flush_messages=10, flush_ms=500))
    fill(log, 3)
    assert log.flush_due(NOW_MS) is None
    assert log.flush_due(NOW_MS + 500) == 9
    fill(log, 1)
    assert log.flush_due(NOW_MS) == 12
    flush = log.begin_flush()
    fill(log, 1)
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    assert log.recovery_point == 12
    log.roll(now_ms=NOW_MS)
    assert log.flush_due(NOW_MS) == 15


def test_preallocated_files_are_trimmed(tmp_path: Path) -> None:
    config = replace(SMALL, preallocate=True)
    log, _ = open_log(tmp_path / "t-0", config)
    fill(log, 2)
    path = log.active.file.path
    assert path.stat().st_size == 2000
    size = log.active.size
    log.abandon()
    log, recovery = open_log(tmp_path / "t-0", config)
    assert log.log_end_offset == 6
    assert recovery.truncated_bytes == 2000 - size
    log.close(now_ms=NOW_MS)
    assert path.stat().st_size == size
