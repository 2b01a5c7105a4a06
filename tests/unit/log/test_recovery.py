"""What a crash tears is cut off, what no crash explains is refused, and everything derived is built anew."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.log import Log, LogConfig
from ottla.log.segment import LOG_SUFFIX
from ottla.records import AppendOrigin, Record, frames
from tests.sources import COMPILED
from tests.unit.log.logs import (
    NOW_MS,
    SMALL,
    batch,
    check_indexes,
    contents,
    idempotent,
    marker,
    numbered_batch,
    open_log,
)

BATCHES = 14


class Written:
    """A log that was killed with everything in the page cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        log, _ = open_log(folder)
        for number in range(BATCHES):
            data = numbered_batch(number) if number < BATCHES - 2 else batch(b"%d" % number, b"!")
            log.append_as_leader(data, leader_epoch=number // 4, now_ms=NOW_MS)
        self.records = contents(log)
        self.positions = [located.position for located in log.active.batches()]
        self.bases = [located.header.base_offset for located in log.active.batches()]
        self.size = log.active.size
        self.segments = [segment.base_offset for segment in log.segments]
        log.abandon()

    def copy(self, target: Path) -> Path:
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(self.folder, target))

    def last(self, folder: Path) -> Path:
        return folder / f"{self.segments[-1]:020d}{LOG_SUFFIX}"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return Written(tmp_path_factory.mktemp("written") / "t-0")


def test_files_of_others_are_left_alone_and_told_of_once(
    written: Written, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = written.copy(tmp_path / "t-0")
    strangers = [folder / name for name in ("notes.log", "1.log", "notes.index", f"{'٣' * 20}.log", "notes.txt")]
    for path in strangers:
        path.write_text("what somebody wanted to remember")
    log, _ = open_log(folder)
    assert contents(log) == written.records
    log.abandon()
    assert all(path.exists() for path in strangers)
    told = [record.getMessage() for record in caplog.records if "left alone" in record.getMessage()]
    assert sorted(line.split()[1] for line in told) == sorted(path.name for path in strangers[:4])


@pytest.mark.parametrize(("clean", "level"), [(True, logging.ERROR), (False, logging.WARNING)])
def test_an_index_without_its_segment_does_not_go_in_silence(
    written: Written, tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool, level: int
) -> None:
    folder = written.copy(tmp_path / "t-0")
    gone = folder / f"{written.segments[1]:020d}{LOG_SUFFIX}"
    gone.unlink()
    log, _ = open_log(folder, clean=clean)
    log.abandon()
    told = [(record.levelno, record.getMessage()) for record in caplog.records if "is not there" in record.getMessage()]
    assert told == [
        (level, f"t-0: {gone.stem}{suffix} goes, for its segment is not there") for suffix in (".index", ".timeindex")
    ]


def check_prefix(log: Log, records: list[Record]) -> None:
    assert contents(log) == records
    check_indexes(log)
    assert log.log_end_offset == len(records)
    epochs: list[tuple[int, int]] = []
    for located in log.batches(0):
        if not epochs or located.header.partition_leader_epoch > epochs[-1][0]:
            epochs.append((located.header.partition_leader_epoch, located.header.base_offset))
    assert list(log.epochs.entries) == epochs
    # It goes on from there.
    log.append_as_leader(numbered_batch(99), leader_epoch=9, now_ms=NOW_MS)
    assert contents(log)[: len(records)] == records
    log.abandon()


def test_a_tail_torn_at_every_byte(written: Written, tmp_path: Path) -> None:
    assert len(written.positions) >= 3
    for size in range(written.positions[-2], written.size):
        folder = written.copy(tmp_path / "t-0")
        path = written.last(folder)
        path.write_bytes(path.read_bytes()[:size])
        whole = sum(end <= size for end in (*written.positions[1:], written.size))
        log, recovery = open_log(folder)
        assert recovery.truncated_bytes == size - written.positions[whole]
        check_prefix(log, written.records[: written.bases[whole]])


@pytest.mark.parametrize("junk", [bytes(512), bytes(4096), b"\xff" * 100, b"garbage" * 99, numbered_batch(0)])
def test_junk_behind_the_last_batch(written: Written, tmp_path: Path, junk: bytes) -> None:
    folder = written.copy(tmp_path / "t-0")
    with written.last(folder).open("ab") as file:
        file.write(junk)
    log, recovery = open_log(folder)
    assert recovery.truncated_bytes == len(junk)
    check_prefix(log, written.records)


@pytest.mark.parametrize("zeroed", [2, 100, 512])
def test_pages_that_were_never_written(written: Written, tmp_path: Path, zeroed: int) -> None:
    folder = written.copy(tmp_path / "t-0")
    path = written.last(folder)
    path.write_bytes(path.read_bytes()[:-zeroed] + bytes(zeroed))
    log, _ = open_log(folder)
    assert log.log_end_offset < len(written.records)
    check_prefix(log, written.records[: log.log_end_offset])


def flipped(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def test_a_flipped_bit_before_the_recovery_point_is_never_cut(written: Written, tmp_path: Path) -> None:
    end = len(written.records)
    for at in range(0, written.size, 7):
        if 12 <= at - max(p for p in written.positions if p <= at) < 16:
            continue  # the leader epoch is not covered by the checksum
        folder = written.copy(tmp_path / "t-0")
        before = {path.name: path.read_bytes() for path in folder.glob("*.log")}
        flipped(written.last(folder), at)
        broken = written.last(folder).read_bytes()
        offset = written.bases[sum(p <= at for p in written.positions) - 1]
        base_offset_byte = at - max(p for p in written.positions if p <= at) < 8
        if base_offset_byte:
            continue  # nor is the base offset; that offsets only grow is all that can be told
        with pytest.raises(CorruptionError, match="was on disk"):
            open_log(folder, recovery_point=end)
        after = {path.name: path.read_bytes() for path in folder.glob("*.log")}
        assert after == {**before, written.last(folder).name: broken}
        # Had it not been synced, it would be the end of the log.
        log, recovery = open_log(folder, recovery_point=offset)
        assert log.log_end_offset == offset
        assert recovery.truncated_bytes > 0
        log.abandon()


@pytest.mark.skipif(COMPILED, reason="nothing can be put in the place of compiled methods")
def test_a_recovery_that_cuts_wherever_it_finds_damage_is_found_out(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L13: the first batch that is not whole is taken for the end, though more was on disk once."""
    monkeypatch.setattr("ottla.log.loader._RecoveryPass._check_end", lambda *_, **__: None)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_a_flipped_bit_before_the_recovery_point_is_never_cut(written, tmp_path)


def test_a_synced_log_that_is_shorter_than_it_was(written: Written, tmp_path: Path) -> None:
    folder = written.copy(tmp_path / "t-0")
    path = written.last(folder)
    path.write_bytes(path.read_bytes()[: written.positions[-1]])
    with pytest.raises(CorruptionError, match="the log ends at"):
        open_log(folder, recovery_point=len(written.records))


def test_segments_behind_a_torn_one_go(written: Written, tmp_path: Path) -> None:
    folder = written.copy(tmp_path / "t-0")
    first = folder / f"{0:020d}{LOG_SUFFIX}"
    flipped(first, first.stat().st_size - 1)
    log, recovery = open_log(folder)
    assert recovery.segments_dropped == len(written.segments) - 1
    check_prefix(log, written.records[: log.log_end_offset])


def test_a_segment_that_lost_whole_batches_ends_the_log(written: Written, tmp_path: Path) -> None:
    """What follows would be offered as if nothing were missing; a compacted log has such gaps by nature."""
    folder = written.copy(tmp_path / "t-0")
    first = folder / f"{0:020d}{LOG_SUFFIX}"
    *_, last = frames(first.read_bytes())
    first.write_bytes(first.read_bytes()[: last.position])
    kept = written.copy(tmp_path / "compacted")
    (kept / first.name).write_bytes(first.read_bytes())
    log, recovery = open_log(folder)
    assert recovery.segments_dropped == len(written.segments) - 1
    check_prefix(log, written.records[: last.base_offset])
    log, recovery = open_log(kept, replace(SMALL, cleanup_policy=frozenset(("compact",))))
    assert recovery.segments_dropped == 0
    assert log.log_end_offset == len(written.records)
    log.abandon()


def test_a_gap_among_gaps_is_no_damage(written: Written, tmp_path: Path) -> None:
    """The log was compacted once, whatever its topic says now."""
    folder = written.copy(tmp_path / "t-0")
    first = folder / f"{0:020d}{LOG_SUFFIX}"
    data = first.read_bytes()
    found = list(frames(data))
    cleaned = b"".join(data[f.position : f.position + f.size] for f in (*found[:1], *found[2:-1]))
    first.write_bytes(cleaned)
    log, recovery = open_log(folder)
    assert (recovery.segments_dropped, recovery.truncated_bytes) == (0, 0)
    assert log.log_end_offset == len(written.records)
    assert first.read_bytes() == cleaned
    log.abandon()


def test_an_offset_that_cannot_be_in_a_segment_is_damage(written: Written, tmp_path: Path) -> None:
    folder = written.copy(tmp_path / "t-0")
    flipped(written.last(folder), written.positions[-1] + 2)
    log, recovery = open_log(folder)
    assert recovery.truncated_bytes == written.size - written.positions[-1]
    check_prefix(log, written.records[: written.bases[-1]])


def test_indexes_that_lie_are_built_anew(written: Written, tmp_path: Path) -> None:
    folder = written.copy(tmp_path / "t-0")
    for path in folder.glob("*index"):
        path.write_bytes(b"\x7f" * 24)
    log, _ = open_log(folder)
    check_prefix(log, written.records)


def test_missing_indexes_are_built_anew_after_a_clean_stop_too(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0")
    for number in range(BATCHES):
        log.append_as_leader(numbered_batch(number), leader_epoch=0, now_ms=NOW_MS)
    records = contents(log)
    log.close(now_ms=NOW_MS)
    for path in (tmp_path / "t-0").glob("*index"):
        path.unlink()
    log, _ = open_log(tmp_path / "t-0", recovery_point=len(records), clean=True)
    check_prefix(log, records)


def test_swaps_are_finished_and_cleanings_undone(written: Written, tmp_path: Path) -> None:
    folder = written.copy(tmp_path / "t-0")
    name = f"{written.segments[0]:020d}"
    other = f"{written.segments[1]:020d}"
    joined = (folder / f"{name}.log").read_bytes() + (folder / f"{other}.log").read_bytes()
    (folder / f"{name}.log.swap").write_bytes(joined)
    (folder / f"{other}.log.cleaned").write_bytes(b"half")
    log, _ = open_log(folder, LogConfig())
    assert [segment.base_offset for segment in log.segments] == [written.segments[0], *written.segments[2:]]
    assert not [path for path in folder.iterdir() if path.suffix in (".swap", ".cleaned")]
    check_prefix(log, written.records)


def test_transactions_and_producers_are_built_anew(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0")
    for turn in range(10):
        log.append_as_leader(idempotent(1, turn * 2, count=2, transactional=True), leader_epoch=0, now_ms=NOW_MS)
        log.append_as_leader(idempotent(2, turn), leader_epoch=0, now_ms=NOW_MS)
        log.append_as_leader(
            marker(1, commit=turn % 2 == 0), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
        )
    log.append_as_leader(idempotent(1, 20, transactional=True), leader_epoch=0, now_ms=NOW_MS)
    end = log.update_high_watermark(log.log_end_offset)
    aborted = log.aborted_transactions(0, end)
    stable = log.last_stable_offset
    last = {
        p: (e.producer_epoch, e.last_sequence, e.current_txn_first_offset) for p, e in log.producers.entries.items()
    }
    assert len(aborted) == 5
    assert stable == end - 1
    log.abandon()
    for snapshots_left in (True, False):
        if not snapshots_left:
            for path in (tmp_path / "t-0").glob("*.snapshot"):
                path.unlink()
        log, _ = open_log(tmp_path / "t-0", SMALL)
        log.update_high_watermark(end)
        assert log.aborted_transactions(0, end) == aborted
        assert log.last_stable_offset == stable
        assert {
            p: (e.producer_epoch, e.last_sequence, e.current_txn_first_offset) for p, e in log.producers.entries.items()
        } == last
        log.abandon()
