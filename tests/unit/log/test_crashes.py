"""Every operation, ended at every call of the disk: by a kill, by a power cut, by a disk that refuses."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.log import Log, LogDirectory, StorageError, TopicPartition
from ottla.log.files import Health, write_at
from ottla.log.outcomes import Flush
from ottla.log.segment import Segment
from ottla.records import BatchHeader, Record, read_batch
from tests.sources import COMPILED
from tests.unit.log.faults import CrashError, PowerLoss, failing_at
from tests.unit.log.logs import NOW_MS, SMALL, batch, check_indexes, contents, numbered_batch

pytestmark = pytest.mark.skipif(COMPILED, reason="compiled code calls the system past what a test puts in its place")

TP = TopicPartition("t", 0)
Action = Callable[[LogDirectory], object]
WRITES = ("pwrite", "pwritev")


def opened(folder: Path) -> LogDirectory:
    directory = LogDirectory(folder)
    directory.load(lambda _: SMALL, now_ms=NOW_MS)
    return directory


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a log of several segments, stopped cleanly."""
    folder = tmp_path_factory.mktemp("stored")
    directory = opened(folder)
    log = directory.create(TP, SMALL, topic_id=None, now_ms=NOW_MS)
    for number in range(20):
        log.append_as_leader(numbered_batch(number), leader_epoch=number // 6, now_ms=NOW_MS)
    directory.close(now_ms=NOW_MS)
    return folder


def crash_everywhere(stored: Path, tmp_path: Path, action: Action, check: Callable[[Log], None], *, power: bool) -> int:
    """Run ``action`` on fresh copies, dying at its first, second, … call, until it gets through."""
    for call in count():
        folder = tmp_path / f"copy-{call}"
        shutil.copytree(stored, folder)
        directory = opened(folder)
        with pytest.MonkeyPatch.context() as patch:
            loss = PowerLoss(folder, patch) if power else None
            finished = False
            with failing_at(call, patch, CrashError()):
                try:
                    action(directory)
                    finished = True
                except CrashError:
                    pass
        directory.abandon()
        if loss is not None:
            loss.power_off()
        again = opened(folder)
        assert not again.corrupt
        check_indexes(again.logs[TP])
        check(again.logs[TP])
        again.abandon()
        shutil.rmtree(folder)
        if finished:
            return call
    raise AssertionError


@pytest.fixture(params=[False, True], ids=["killed", "power lost"])
def power(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def before(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    folder = Path(shutil.copytree(stored, tmp_path_factory.mktemp("seen") / "data"))
    directory = opened(folder)
    records = contents(directory.logs[TP])
    directory.abandon()
    return records


def test_appends_and_flushes(stored: Path, before: list[Record], tmp_path: Path, power: bool) -> None:
    flushed = [0]
    appended: list[Record] = []

    def action(directory: LogDirectory) -> None:
        log = directory.logs[TP]
        flushed[0] = log.log_end_offset
        for number in range(20, 29):
            log.append_as_leader(numbered_batch(number), leader_epoch=number, now_ms=NOW_MS)
            if number % 3 == 0:
                log.flush(now_ms=NOW_MS)
                flushed[0] = log.log_end_offset
                directory.checkpoint()
        appended[:] = contents(log)

    def check(log: Log) -> None:
        assert log.log_end_offset >= flushed[0]
        assert contents(log)[: len(before)] == before
        if appended:
            assert contents(log) == appended[: log.log_end_offset]

    assert crash_everywhere(stored, tmp_path, action, check, power=power) > 30


def test_truncation(stored: Path, before: list[Record], tmp_path: Path, power: bool) -> None:
    ends = []

    def action(directory: LogDirectory) -> None:
        directory.logs[TP].truncate_to(21, now_ms=NOW_MS)

    def check(log: Log) -> None:
        ends.append(log.log_end_offset)
        assert contents(log) == before[: log.log_end_offset]
        assert log.log_end_offset >= 21

    crash_everywhere(stored, tmp_path, action, check, power=power)
    assert ends[0] == len(before)
    assert ends[-1] == 21


def test_what_follows_a_truncation_is_never_mixed_with_what_it_cut(
    stored: Path, before: list[Record], tmp_path: Path, power: bool
) -> None:
    new: list[Record] = []

    def action(directory: LogDirectory) -> None:
        log = directory.logs[TP]
        log.truncate_to(21, now_ms=NOW_MS)
        for number in range(7, 13):  # batches of the very sizes that were cut off
            log.append_as_leader(numbered_batch(number), leader_epoch=9, now_ms=NOW_MS)
        new[:] = contents(log)

    def check(log: Log) -> None:
        found = contents(log)
        epochs = [located.header.partition_leader_epoch for located in log.batches(0)]
        assert epochs == sorted(epochs)
        if 9 in epochs:
            assert found[:21] == before[:21]
            assert all(located.header.partition_leader_epoch == 9 for located in log.batches(21))

    crash_everywhere(stored, tmp_path, action, check, power=power)
    assert len(new) == 21 + 18


def test_retention(stored: Path, before: list[Record], tmp_path: Path, power: bool) -> None:
    def action(directory: LogDirectory) -> None:
        log = directory.logs[TP]
        log.update_high_watermark(45)
        log.increment_log_start_offset(45)
        log.delete_old_segments(now_ms=NOW_MS)
        log.delete_marked(now_ms=NOW_MS)
        directory.checkpoint()

    def check(log: Log) -> None:
        assert contents(log) == before[log.log_start_offset :]
        assert log.log_start_offset <= 45

    crash_everywhere(stored, tmp_path, action, check, power=power)


def test_starting_over(stored: Path, before: list[Record], tmp_path: Path, power: bool) -> None:
    def action(directory: LogDirectory) -> None:
        directory.logs[TP].truncate_fully_and_start_at(500, now_ms=NOW_MS)

    def check(log: Log) -> None:
        if log.log_end_offset == 500:
            assert contents(log) == []
        else:
            assert contents(log) == before[: log.log_end_offset]

    crash_everywhere(stored, tmp_path, action, check, power=power)


def test_a_clean_stop(stored: Path, before: list[Record], tmp_path: Path, power: bool) -> None:
    def action(directory: LogDirectory) -> None:
        directory.logs[TP].append_as_leader(numbered_batch(20), leader_epoch=5, now_ms=NOW_MS)
        directory.close(now_ms=NOW_MS)

    def check(log: Log) -> None:
        assert contents(log)[: len(before)] == before

    crash_everywhere(stored, tmp_path, action, check, power=power)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_refuses(stored: Path, tmp_path: Path, code: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever call it is: KAFKA_STORAGE_ERROR, nothing half-written, offline, and back after a restart."""
    for call in count():
        folder = tmp_path / f"copy-{call}"
        shutil.copytree(stored, folder)
        directory = opened(folder)
        log = directory.logs[TP]
        done: list[Record] = contents(log)
        caplog.clear()
        finished = False
        with (
            pytest.MonkeyPatch.context() as patch,
            suppress(StorageError),
            failing_at(call, patch, OSError(code, "injected")) as has_refused,
        ):
            for number in range(20, 30):
                log.append_as_leader(numbered_batch(number), leader_epoch=9, now_ms=NOW_MS)
            log.flush(now_ms=NOW_MS)
            assert not has_refused(), "the disk refused, and nobody was told"
            finished = True
        if finished:
            directory.close(now_ms=NOW_MS)
            break
        assert [r for r in caplog.records if r.levelno == logging.ERROR and "goes offline" in r.message]
        end = log.log_end_offset
        with pytest.raises(StorageError) as caught:
            log.append_as_leader(numbered_batch(0), leader_epoch=9, now_ms=NOW_MS)
        assert caught.value.error == "KAFKA_STORAGE_ERROR"
        with pytest.raises(StorageError):
            log.read(0, 100)
        directory.close(now_ms=NOW_MS)
        again = opened(folder)
        assert not again.was_clean
        recovered = again.logs[TP]
        # The batch that failed is there as a whole, if all of it was written before the disk refused to cut it back.
        assert recovered.log_end_offset in (end, end + 3)
        assert contents(recovered)[: len(done)] == done
        check_indexes(recovered)
        recovered.append_as_leader(batch(b"less than half"), leader_epoch=10, now_ms=NOW_MS)
        expected = contents(recovered)
        again.close(now_ms=NOW_MS)
        at_last = opened(folder)
        check_indexes(at_last.logs[TP])
        assert contents(at_last.logs[TP]) == expected
        at_last.abandon()
        shutil.rmtree(folder)


@pytest.mark.parametrize("power", [False, True])
def test_several_batches_that_are_written_in_one_call(stored: Path, tmp_path: Path, *, power: bool) -> None:
    """Over two rolls, ended anywhere: whole batches are there, in order and without a gap, and all that was acknowledged."""
    batches = [numbered_batch(number) for number in range(20, 40)]
    acked: list[int] = []

    def action(directory: LogDirectory) -> None:
        acked.clear()
        log = directory.logs[TP]
        for number in range(0, len(batches), 5):
            for each in batches[number : number + 5]:
                log.append_as_leader(each, leader_epoch=9, now_ms=NOW_MS, later=True)
            log.finish_append(now_ms=NOW_MS)
            log.flush(now_ms=NOW_MS)
            acked.extend(range(number, number + 5))

    def check(recovered: Log) -> None:
        found = [record.value for record in contents(recovered, 60)]
        sent = [record.value for each in batches for record in read_batch(each)]
        assert found == sent[: len(found)]
        assert len(found) % 3 == 0
        assert len(found) >= 3 * len(acked)
        check_indexes(recovered)

    assert crash_everywhere(stored, tmp_path, action, check, power=power) > 10


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_several_batches_at_once(stored: Path, tmp_path: Path, code: int) -> None:
    """None of them counts, none is there in part, and a restart goes on where the last one that is whole ended."""
    for call in count():
        folder = Path(shutil.copytree(stored, tmp_path / f"copy-{call}"))
        directory = opened(folder)
        log = directory.logs[TP]
        done = contents(log)
        finished = False
        with (
            pytest.MonkeyPatch.context() as patch,
            suppress(StorageError),
            failing_at(call, patch, OSError(code, "injected")) as has_refused,
        ):
            for number in range(20, 26):
                log.append_as_leader(numbered_batch(number), leader_epoch=9, now_ms=NOW_MS, later=True)
            log.finish_append(now_ms=NOW_MS)
            assert not has_refused(), "the disk refused, and nobody was told"
            finished = True
        if not finished:
            with pytest.raises(StorageError):
                log.finish_append(now_ms=NOW_MS)
            with pytest.raises(StorageError):
                log.read(0, 100)
        directory.close(now_ms=NOW_MS)
        again = opened(folder)
        assert again.was_clean == finished
        recovered = again.logs[TP]
        found = contents(recovered)
        sent = [record.value for number in range(20, 26) for record in read_batch(numbered_batch(number))]
        assert found[: len(done)] == done
        assert [record.value for record in found[len(done) :]] == sent[: len(found) - len(done)]
        check_indexes(recovered)
        again.abandon()
        if finished:
            break


@pytest.mark.parametrize("call", range(4))
def test_a_disk_that_was_full_for_a_moment(stored: Path, tmp_path: Path, call: int) -> None:
    """Nobody is told that there is room again: whatever is acknowledged behind that is there all the same."""
    folder = Path(shutil.copytree(stored, tmp_path / "copy"))
    directory = opened(folder)
    log = directory.logs[TP]
    acked = contents(log)
    full = OSError(errno.ENOSPC, "injected")
    with pytest.MonkeyPatch.context() as patch, failing_at(call, patch, full, WRITES, for_good=False) as has_refused:
        for number in range(20, 28):
            with suppress(StorageError):
                told = log.append_as_leader(numbered_batch(number), leader_epoch=9, now_ms=NOW_MS)
                sent = read_batch(numbered_batch(number))
                acked += [record._replace(offset=told.first_offset + i) for i, record in enumerate(sent)]
        assert has_refused()
    directory.abandon()
    again = opened(folder)
    assert contents(again.logs[TP])[: len(acked)] == acked
    check_indexes(again.logs[TP])
    again.abandon()


def _nothing(*_: object, **__: object) -> None:
    pass


MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], object], Callable[..., None]]] = {
    "names are never synced, and nobody minds a gap": (
        lambda patch: (
            patch.setattr("ottla.log.log.fsync_directory", _nothing),
            patch.setattr("ottla.log.loader._RecoveryPass._breaks_off", _nothing),
        ),
        test_truncation,
    ),
    "indexes that were sealed and never synced are trusted": (
        lambda patch: patch.setattr("ottla.log.index._Index.check", _nothing),
        test_appends_and_flushes,
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_these_tests_notice_when(
    stored: Path, before: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    change, test = MUTANTS[mutant]
    change(monkeypatch)
    with pytest.raises(AssertionError):
        test(stored, before, tmp_path, power=True)


def syncs_that_fail_count(patch: pytest.MonkeyPatch) -> None:
    """L14: what was to be on disk is taken to be there, though the disk said no."""
    finish = Log.finish_flush

    def finished(log: Log, flush: Flush, *, now_ms: int, **_: object) -> None:
        finish(log, flush, now_ms=now_ms)

    patch.setattr(Log, "finish_flush", finished)


def failures_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """L14: a call fails, and the next one tries again."""
    patch.setattr(Health, "failed", lambda _self, what, error: StorageError(f"{what}: {error}"))


def torn_batches_stay(patch: pytest.MonkeyPatch) -> None:
    """L15: recovery finds the end of the log, and leaves in the file what lies behind it."""

    def cut(segment: Segment, size: int) -> None:
        segment.size = size

    patch.setattr(Segment, "cut", cut)
    patch.setattr(Segment, "_trim", _nothing)


def torn_batches_are_built_upon(patch: pytest.MonkeyPatch) -> None:
    """L15: the next batch goes behind what a full disk left of the one before."""
    failures_are_forgotten(patch)

    def append(segment: Segment, parts: Sequence[bytes | memoryview], headers: Iterable[BatchHeader]) -> None:
        at = os.fstat(segment.file.fd).st_size
        segment.size = at + write_at(segment.file.fd, parts, at)
        for header in headers:
            segment._note(at, header)

    patch.setattr(Segment, "append", append)


Mutant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("mutant", [syncs_that_fail_count, failures_are_forgotten, torn_batches_stay])
def test_a_log_that_a_disk_refuses_in_vain_is_found_out(
    stored: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, CorruptionError)):
        test_a_disk_that_refuses(stored, tmp_path, errno.EIO, caplog)


def test_a_log_that_goes_on_behind_a_torn_batch_is_found_out(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn_batches_are_built_upon(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_disk_that_was_full_for_a_moment(stored, tmp_path, 1)
