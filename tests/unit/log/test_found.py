"""What a disk has made of a log between a clean stop and the next start: noticed when it is read, and when it is written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.log import Log, LogConfig
from ottla.records import frames
from tests.unit.log.logs import NOW_MS, contents, numbered_batch, open_log

ONE_SEGMENT = LogConfig(segment_bytes=1 << 20, index_interval_bytes=200)
BATCHES, RECORDS = 20, 3
END = BATCHES * RECORDS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of twenty batches of three records, closed in good order."""
    log, _ = open_log(tmp_path / "t-0", ONE_SEGMENT)
    for number in range(BATCHES):
        log.append_as_leader(numbered_batch(number), leader_epoch=0, now_ms=NOW_MS)
    log.close(now_ms=NOW_MS)
    return log.directory


def reopened(folder: Path, config: LogConfig = ONE_SEGMENT) -> Log:
    log, _ = open_log(folder, config, clean=True, recovery_point=END)
    assert log.log_end_offset == END
    return log


def segment_file(folder: Path) -> Path:
    (path,) = folder.glob("*.log")
    return path


def positions(folder: Path) -> list[int]:
    return [frame.position for frame in frames(segment_file(folder).read_bytes())]


def overwrite(folder: Path, at: int, data: bytes) -> None:
    with segment_file(folder).open("r+b") as file:
        file.seek(at)
        file.write(data)


def damage_value(folder: Path, batch: int) -> None:
    overwrite(folder, positions(folder)[batch] + 90, b"\xff")


def test_a_damaged_batch_is_served_to_nobody_and_those_around_it_are(folder: Path) -> None:
    before = contents(reopened(folder))
    damage_value(folder, 7)
    log = reopened(folder)
    found = log.read(0, 1 << 20)
    assert found.range is not None
    assert found.range.length == positions(folder)[7]
    for offset in (21, 22, 23):
        with pytest.raises(CorruptionError, match=f"the batch at byte {positions(folder)[7]} is damaged"):
            log.read(offset, 1 << 20)
    assert contents(log, 24) == before[24:]


def test_damage_is_told_of_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for batch in (7, 12):
        damage_value(folder, batch)
    log = reopened(folder)
    for offset in (21, 36) * 3:
        with pytest.raises(CorruptionError):
            log.read(offset, 1 << 20)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert segment_file(folder).name in caplog.text


def test_an_offset_that_belongs_behind_the_log_is_damage(folder: Path) -> None:
    overwrite(folder, positions(folder)[7], (1 << 20).to_bytes(8, "big"))
    log = reopened(folder)
    with pytest.raises(CorruptionError):
        log.read(21, 1 << 20)


def test_offsets_that_go_back_are_damage(folder: Path) -> None:
    overwrite(folder, positions(folder)[7], (5).to_bytes(8, "big"))
    log = reopened(folder)
    found = log.read(0, 1 << 20)
    assert found.range is not None
    assert found.range.length == positions(folder)[7]


def test_a_batch_beyond_what_is_asked_for_is_not_sent_in_part(folder: Path) -> None:
    log, at = reopened(folder), positions(folder)
    found = log.read(0, at[2] + 10)
    assert found.range is not None
    assert found.range.length == at[2], "half a batch could not be checked"
    assert contents(log)[-1].offset == END - 1


def test_what_was_looked_at_once_is_not_looked_at_again(folder: Path) -> None:
    log = reopened(folder)
    contents(log)
    damage_value(folder, 7)
    assert log.read(21, 1 << 20).range is not None
    with pytest.raises(CorruptionError):
        reopened(folder).read(21, 1 << 20)


def test_what_this_process_wrote_is_not_looked_at(folder: Path) -> None:
    log = reopened(folder)
    log.append_as_leader(numbered_batch(BATCHES), leader_epoch=0, now_ms=NOW_MS)
    damage_value(folder, BATCHES)
    assert log.read(END, 1 << 20).range is not None


def test_what_a_recovery_has_read_is_not_looked_at(folder: Path) -> None:
    log, recovery = open_log(folder, ONE_SEGMENT)
    assert recovery.segments_read == 1
    damage_value(folder, 7)
    assert log.read(21, 1 << 20).range is not None


def test_what_is_appended_behind_a_truncation_is_read(folder: Path) -> None:
    log = reopened(folder)
    contents(log)
    log.truncate_to(10 * RECORDS, now_ms=NOW_MS)
    for number in range(5):
        log.append_as_leader(numbered_batch(number, 5), leader_epoch=1, now_ms=NOW_MS)
    assert [record.offset for record in contents(log)] == list(range(10 * RECORDS + 25))


@pytest.mark.parametrize("lost", [1, 9, 200])
def test_nothing_is_appended_behind_a_torn_end(folder: Path, lost: int) -> None:
    path = segment_file(folder)
    path.write_bytes(path.read_bytes()[:-lost])
    size = path.stat().st_size
    log = reopened(folder)
    for _ in range(2):
        with pytest.raises(CorruptionError):
            log.append_as_leader(numbered_batch(0), leader_epoch=0, now_ms=NOW_MS)
    assert path.stat().st_size == size
    with pytest.raises(CorruptionError):
        log.read(END - 1, 1 << 20)


def test_nothing_is_appended_behind_a_lost_end(folder: Path) -> None:
    path = segment_file(folder)
    path.write_bytes(path.read_bytes()[: positions(folder)[-1]])
    with pytest.raises(CorruptionError, match=f"does not end at offset {END}"):
        reopened(folder).append_as_leader(numbered_batch(0), leader_epoch=0, now_ms=NOW_MS)


def test_what_was_preallocated_is_given_back_whatever_the_setting_says_by_then(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0", LogConfig(segment_bytes=1 << 20, preallocate=True))
    log.append_as_leader(numbered_batch(0), leader_epoch=0, now_ms=NOW_MS)
    written = log.size
    log.configure(LogConfig(segment_bytes=1 << 20, preallocate=False))
    log.close(now_ms=NOW_MS)
    assert segment_file(tmp_path / "t-0").stat().st_size == written
