"""Room on the disk is found ahead of a segment that grows, and given back."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.log import Log, LogConfig
from ottla.log.files import reserve
from tests.unit.log.logs import NOW_MS, batch, contents, open_log

CONFIG = LogConfig(file_delete_delay_ms=0)
MIB = 1 << 20


def fill(log: Log, size: int) -> None:
    while log.active.size < size:
        log.append_as_leader(batch(bytes(100_000)), leader_epoch=0, now_ms=NOW_MS)


def room(log: Log) -> int:
    """What the active segment has on the disk behind its end."""
    there = log.active.file.path.stat()
    assert there.st_size == log.active.size
    return there.st_blocks * 512 - there.st_size


def test_room_is_found_for_a_segment_that_grows(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", CONFIG)
    fill(log, MIB // 2)
    assert room(log) < MIB // 8
    fill(log, 8 * MIB)
    assert MIB // 8 < room(log) <= 3 * MIB
    assert len(contents(log)) == log.log_end_offset


def test_no_room_is_found_behind_the_size_of_a_segment(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", LogConfig(segment_bytes=2 * MIB))
    fill(log, 2 * MIB - 200_000)
    assert room(log) < 300_000


def test_a_roll_and_a_stop_give_back_the_room_that_is_left(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", CONFIG)
    fill(log, MIB + MIB // 2)
    sealed = log.active.file.path
    log.roll(now_ms=NOW_MS)
    assert sealed.stat().st_blocks * 512 - sealed.stat().st_size < MIB // 8
    fill(log, MIB + MIB // 2)
    assert room(log) > MIB // 8
    active = log.active.file.path
    log.close(now_ms=NOW_MS)
    assert active.stat().st_blocks * 512 - active.stat().st_size < MIB // 8


def test_a_start_gives_back_the_room_that_a_killed_process_left(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", CONFIG)
    fill(log, MIB + MIB // 2)
    end = log.log_end_offset
    log.abandon()
    log, recovery = open_log(tmp_path / "t-0", CONFIG)
    assert (log.log_end_offset, recovery.truncated_bytes) == (end, 0)
    assert room(log) < MIB // 8
    fill(log, log.active.size + MIB // 2)
    assert room(log) > MIB // 8


def test_room_is_found_again_behind_a_truncation(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", CONFIG)
    fill(log, 4 * MIB)
    log.truncate_to(20, now_ms=NOW_MS)
    assert room(log) < MIB // 8
    fill(log, log.active.size + MIB // 2)
    assert room(log) > MIB // 8


def test_a_file_that_no_room_can_be_found_for_is_written_all_the_same() -> None:
    reading, writing = os.pipe()
    reserve(writing, 0, MIB)  # no file system, no room
    os.write(writing, b"x")
    assert os.read(reading, 10) == b"x"
    os.close(reading)
    os.close(writing)
