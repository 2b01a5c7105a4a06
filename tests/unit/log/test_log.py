"""One log: append, read, roll, flush, truncate, retention, epochs."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.log import Fetched, Log, LogConfig, OffsetOutOfRangeError, StorageError
from ottla.log.errors import OutOfOrderOffsetsError, RecordListTooLargeError
from ottla.records import TimestampType, frames
from ottla.records.errors import CorruptMessageError
from tests.sources import COMPILED
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


def test_batches_that_are_written_together_lie_there_as_if_one_by_one(tmp_path: Path) -> None:
    one, _ = open_log(tmp_path / "a-0")
    other, _ = open_log(tmp_path / "b-0")
    for start in range(0, 60, 6):
        batches, epoch = [numbered_batch(number, 2) for number in range(start, start + 6)], start // 20
        infos = [one.append_as_leader(each, leader_epoch=epoch, now_ms=NOW_MS) for each in batches]
        told = [other.append_as_leader(each, leader_epoch=epoch, now_ms=NOW_MS, later=True) for each in batches]
        other.finish_append(now_ms=NOW_MS)
        assert [info.first_offset for info in told] == [info.first_offset for info in infos]
        assert contents(other) == contents(one)
        check_indexes(other)
    assert len(other.segments) > 3
    for log in (one, other):
        log.close(now_ms=NOW_MS)
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("a-0", "b-0")]
    assert files[0] == files[1]


def test_nothing_of_what_is_written_later_is_in_the_file_before(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", LogConfig())
    fill(log, 1)
    size = log.active.file.path.stat().st_size
    for number in range(1, 4):
        log.append_as_leader(numbered_batch(number), leader_epoch=0, now_ms=NOW_MS, later=True)
    assert log.active.file.path.stat().st_size == size
    log.finish_append(now_ms=NOW_MS)
    assert log.active.file.path.stat().st_size == log.size == 4 * size


@pytest.mark.skipif(COMPILED, reason="compiled code calls the system past what a test puts in its place")
@pytest.mark.parametrize("later", [True, False])
def test_without_memory_to_write_with_nothing_is_left_half_done(
    log: Log, later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 2)
    size = log.size

    def none_left(*_: object) -> int:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", none_left)
        with pytest.raises(StorageError):
            log.append_as_leader(numbered_batch(2), leader_epoch=0, now_ms=NOW_MS, later=later)
            log.finish_append(now_ms=NOW_MS)
    assert log.size == size
    with pytest.raises(StorageError, match="is offline"):
        log.append_as_leader(numbered_batch(3), leader_epoch=0, now_ms=NOW_MS)


def test_what_makes_them_enough_for_a_flush_is_on_disk_before_anybody_is_told(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", LogConfig(flush_messages=5))
    for number in range(3):
        log.append_as_leader(numbered_batch(number), leader_epoch=0, now_ms=NOW_MS, later=True)
    assert log.recovery_point == 0
    log.finish_append(now_ms=NOW_MS)
    assert log.recovery_point == log.log_end_offset == 9


def test_only_the_batches_are_held_open(tmp_path: Path) -> None:
    """Ten thousand partitions fit into as many descriptors as brokers are commonly given, and not into three times as many."""
    folder, config = tmp_path / "t-0", LogConfig(index_interval_bytes=1)
    log, _ = open_log(folder, config)
    assert held_open(folder) == [".log"]
    fill(log, 600)  # more entries than are gathered in memory
    log.flush(now_ms=NOW_MS)
    assert held_open(folder) == [".log"]
    check_indexes(log)
    log.close(now_ms=NOW_MS)
    again, _ = open_log(folder, config, clean=True)
    assert held_open(folder) in ([], [".log"])
    again.abandon()


def held_open(folder: Path) -> list[str]:
    """The kinds of files in a folder that this process has open."""
    paths = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            paths.append(descriptor.readlink())
    return sorted(path.suffix for path in paths if path.parent == folder)


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
    assert log.read(0, 10, min_one=False).range is None, "part of a batch is of no use"


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
    log, _ = open_log(tmp_path / "t-0", LogConfig(flush_ms=500))
    fill(log, 4)
    assert log.flush_due(NOW_MS + 499) is None
    assert log.flush_due(NOW_MS + 500) == 12
    flush = log.begin_flush()
    fill(log, 1)
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    assert log.recovery_point == 12
    log.roll(now_ms=NOW_MS)
    assert log.flush_due(NOW_MS) == 15


def test_a_flush_holds_its_files_whatever_becomes_of_their_names(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", SMALL)
    fill(log, 30)
    flush = log.begin_flush()
    log.truncate_to(3, now_ms=NOW_MS)
    log.abandon()
    log.directory.rename(tmp_path / "t-0.deleted")
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    assert log.recovery_point == 3


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


def test_a_segment_has_one_file_open_and_the_indexes_that_are_read(tmp_path: Path) -> None:
    before = set(Path("/proc/self/fd").iterdir())

    def opened() -> int:
        return len(set(Path("/proc/self/fd").iterdir()) - before)

    log, _ = open_log(tmp_path / "t-0")
    fill(log, 100)
    segments = len(log.segments)
    assert segments > 10
    assert opened() <= segments + 2
    log.abandon()
    for clean in (False, True):
        log, _ = open_log(tmp_path / "t-0", clean=clean, recovery_point=log.log_end_offset)
        assert opened() <= segments + 2
        contents(log)
        assert opened() <= 2 * segments + 2  # what is mapped keeps a descriptor
        log.close(now_ms=NOW_MS)
        assert opened() <= 2


def test_a_roll_waits_for_no_disk(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    segments = len(log.segments)
    while len(log.segments) < segments + 2:
        log.append_as_leader(batch(bytes(300)), leader_epoch=0, now_ms=NOW_MS)
        if len(synced) == 2:  # the leader epoch, before its first record: the file and its name
            synced.clear()
    assert synced == []
    due = log.flush_due(NOW_MS)
    assert due == log.active.base_offset
    assert log.recovery_point == 0
    flush = log.begin_flush(due)
    files = {path.stat().st_ino for s in log.segments[:-1] for path in (s.file.path, s.time_index.path)}
    flush.sync()
    assert files <= set(synced)
    log.finish_flush(flush, now_ms=NOW_MS)
    assert log.recovery_point == due
    assert log.flush_due(NOW_MS) is None


def test_what_was_flushed_before_a_roll_is_flushed_again_behind_it(log: Log) -> None:
    """Sealing changes indexes that were on disk already."""
    log.append_as_leader(batch(bytes(300)), leader_epoch=0, now_ms=NOW_MS)
    log.flush(now_ms=NOW_MS)
    sealed = log.active
    log.roll(now_ms=NOW_MS)
    assert log.recovery_point == log.log_end_offset
    assert log.flush_due(NOW_MS) is not None
    assert log.begin_flush().sealed == (sealed,)


def test_flush_messages_is_kept_before_anybody_is_told(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", replace(SMALL, flush_messages=5))
    ends = []
    for _ in range(4):
        log.append_as_leader(numbered_batch(0, 2), leader_epoch=0, now_ms=NOW_MS)
        ends.append(log.recovery_point)
    assert ends == [0, 0, 6, 6]


def _broken(*_: object) -> None:
    raise OSError(errno.EIO, "injected")


@pytest.mark.parametrize(
    "reading",
    [
        lambda log, _: log.aborted_transactions(0, 60),
        lambda log, _: log.offset_for_timestamp(NOW_MS + 3),
        lambda log, _: log.offset_of_max_timestamp(),
        lambda log, _: log.read(31, 100),
        lambda _, found: found.range.read(),
    ],
)
def test_a_disk_that_cannot_be_read_is_offline(
    log: Log, reading: Callable[[Log, Fetched], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 20)
    found = log.read(0, 100)
    log.segments[0].txn_index.path.mkdir()  # so that reading it fails
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", _broken)
        with pytest.raises((StorageError, OSError)):
            reading(log, found)
    with pytest.raises(StorageError, match="is offline"):
        log.append_as_leader(numbered_batch(0), leader_epoch=0, now_ms=NOW_MS)


def test_a_range_that_was_cut_meanwhile_is_read_as_far_as_it_goes(log: Log) -> None:
    fill(log, 3)
    found = log.read(0, 1 << 20).range
    assert found is not None
    log.truncate_to(3, now_ms=NOW_MS)
    assert [frame.base_offset for frame in frames(found.read())] == [0]


def test_a_damaged_batch_is_not_searched_for_a_time(log: Log) -> None:
    fill(log, 3)
    located = log.active.locate(3)
    assert located is not None
    os.pwrite(log.active.file.fd, b"\xff", located.position + located.header.size - 2)
    assert log.offset_for_timestamp(NOW_MS) is not None
    with pytest.raises(CorruptionError, match="is damaged at byte"):
        log.offset_for_timestamp(NOW_MS + 1)
    # It is served, as Kafka serves it: whoever uses it computes the checksum, a follower before it appends.
    found = log.read(3, 10).range
    assert found is not None
    with pytest.raises(CorruptMessageError):
        open_log(log.directory.parent / "follower")[0].append_as_follower(found.read(), now_ms=NOW_MS)


def test_a_header_that_cannot_be_one_is_neither_served_nor_passed_over(log: Log) -> None:
    fill(log, 3)
    located = log.active.locate(3)
    assert located is not None
    os.pwrite(log.active.file.fd, b"\x09", located.position + 16)
    log.active._recent.clear()
    for offset in (3, 6):
        with pytest.raises(CorruptionError, match="no batch at"):
            log.read(offset, 100)
