"""Logs of old hold messages of magic 0 and 1, alone or before batches: nothing of them is ever lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.log import Log
from ottla.records import Codec, Record, frames
from ottla.records.legacy import read_any
from tests.unit.log.logs import NOW_MS, open_log
from tests.unit.log.logs import batch as new_batch
from tests.unit.records.old import old_run

CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
OLD = 40
"""Records in the old formats; as many follow in batches."""


def old_log(folder: Path, magic: int, codec: Codec) -> list[Record]:
    """A segment as Kafka 0.10 left it, which a later one has appended to; the records in it."""
    folder.mkdir()
    data = b"".join(old_run(magic, codec, first=first, count=5, timestamp=NOW_MS + first) for first in range(0, OLD, 5))
    (folder / f"{0:020d}.log").write_bytes(data)
    log, recovery = open_log(folder)
    assert recovery.truncated_bytes == 0
    assert log.log_end_offset == OLD
    for number in range(8):
        log.append_as_leader(
            new_batch(*(b"n%d" % i for i in range(5)), timestamp=NOW_MS + OLD + number), leader_epoch=3, now_ms=NOW_MS
        )
    found = stored(log)
    log.abandon()
    assert [record.offset for record in found] == list(range(2 * OLD))
    return found


def stored(log: Log, offset: int = 0) -> list[Record]:
    """Every record from ``offset`` on, as a client makes them out of what fetches give."""
    found: list[Record] = []
    at = offset
    while at < log.log_end_offset:
        fetched = log.read(at, 300)
        assert fetched.range is not None
        data = fetched.range.read()
        for frame in frames(data):
            records = list(read_any(data, frame.position))
            found += [record for record in records if record.offset >= offset]
            at = records[-1].offset + 1
    return found


@pytest.fixture(params=[(magic, codec) for magic in (0, 1) for codec in CODECS], ids=str)
def kind(request: pytest.FixtureRequest) -> tuple[int, Codec]:
    return request.param  # type: ignore[no-any-return]


def test_an_unclean_start_keeps_every_message(tmp_path: Path, kind: tuple[int, Codec]) -> None:
    records = old_log(tmp_path / "t-0", *kind)
    for recovery_point in (0, OLD, 2 * OLD):
        log, recovery = open_log(tmp_path / "t-0", recovery_point=recovery_point)
        assert (recovery.truncated_bytes, recovery.segments_dropped) == (0, 0)
        assert stored(log) == records
        assert list(log.epochs.entries) == [(3, OLD)]
        log.abandon()


def test_a_clean_start_and_every_offset_is_found(tmp_path: Path, kind: tuple[int, Codec]) -> None:
    records = old_log(tmp_path / "t-0", *kind)
    log, _ = open_log(tmp_path / "t-0")
    log.close(now_ms=NOW_MS)
    log, _ = open_log(tmp_path / "t-0", recovery_point=2 * OLD, clean=True)
    for offset in range(0, 2 * OLD, 3):
        assert stored(log, offset) == records[offset:]


def test_times_are_found(tmp_path: Path, kind: tuple[int, Codec]) -> None:
    records = old_log(tmp_path / "t-0", *kind)
    log, _ = open_log(tmp_path / "t-0")
    for time in range(NOW_MS, NOW_MS + OLD + 9):
        expected = next(((r.timestamp, r.offset) for r in records if r.timestamp >= time), None)
        found = log.offset_for_timestamp(time)
        assert (None if found is None else (found.timestamp, found.offset)) == expected
    log.abandon()


def test_a_tail_torn_at_every_byte_of_old_messages(tmp_path: Path, kind: tuple[int, Codec]) -> None:
    old_log(tmp_path / "t-0", *kind)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = path.read_bytes()
    ends = [frame.position + frame.size for frame in frames(data) if frame.magic < 2]
    for size in range(ends[-3], ends[-1], 3):
        folder = Path(shutil.copytree(tmp_path / "t-0", tmp_path / f"copy-{size}"))
        (folder / path.name).write_bytes(data[:size])
        log, _ = open_log(folder)
        whole = list(frames(data[:size]))
        assert log.log_end_offset == list(read_any(data, whole[-1].position))[-1].offset + 1
        log.abandon()


def test_damage_that_no_crash_explains_is_refused(tmp_path: Path, kind: tuple[int, Codec]) -> None:
    old_log(tmp_path / "t-0", *kind)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match="was on disk"):
        open_log(tmp_path / "t-0", recovery_point=10)
    assert path.read_bytes() == data


def test_a_truncation_takes_messages_as_a_whole(tmp_path: Path, kind: tuple[int, Codec]) -> None:
    records = old_log(tmp_path / "t-0", *kind)
    for offset in (OLD + 7, OLD, OLD - 3, 11):
        folder = Path(shutil.copytree(tmp_path / "t-0", tmp_path / f"copy-{offset}"))
        log, _ = open_log(folder)
        log.truncate_to(offset, now_ms=NOW_MS)
        packed = offset >= OLD or kind[1] is not Codec.NONE
        assert log.log_end_offset == (offset // 5 * 5 if packed else offset)
        assert stored(log) == records[: log.log_end_offset]
        log.abandon()


def test_a_follower_takes_what_its_leader_has(tmp_path: Path, kind: tuple[int, Codec]) -> None:
    records = old_log(tmp_path / "t-0", *kind)
    leader, _ = open_log(tmp_path / "t-0")
    follower, _ = open_log(tmp_path / "follower")
    while follower.log_end_offset < leader.log_end_offset:
        found = leader.read(follower.log_end_offset, 700).range
        assert found is not None
        follower.append_as_follower(found.read(), now_ms=NOW_MS)
    assert stored(follower) == records
    leader.abandon()
    follower.abandon()
