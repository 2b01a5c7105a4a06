"""A round of cleaning, ended at every call of the disk: by a kill, or by a power cut."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from ottla.log import Log, LogDirectory, TopicPartition
from ottla.log.cleaner.job import Resources
from ottla.log.swap import Swap, settle_directory
from ottla.records import Record, build_batch
from tests.sources import COMPILED
from tests.unit.log.cleaning import clean_log
from tests.unit.log.faults import CrashError, PowerLoss, failing_at
from tests.unit.log.logs import NOW_MS, SMALL, check_indexes, contents

pytestmark = pytest.mark.skipif(COMPILED, reason="compiled code calls the system past what a test puts in its place")

TP = TopicPartition("t", 0)
CONFIG = replace(
    SMALL, segment_bytes=600, cleanup_policy=frozenset(("compact",)), delete_retention_ms=0, file_delete_delay_ms=0
)
KEYS = 5


def opened(folder: Path) -> LogDirectory:
    directory = LogDirectory(folder)
    directory.load(lambda _: CONFIG, now_ms=NOW_MS)
    for log in directory.logs.values():
        log.update_high_watermark(log.log_end_offset)
    return directory


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments, with keys that are replaced and keys that are deleted."""
    folder = tmp_path_factory.mktemp("stored")
    directory = opened(folder)
    log = directory.create(TP, CONFIG, topic_id=None, now_ms=NOW_MS)
    for number in range(11):
        value = None if number % 4 == 2 else b"%d " % number * 20
        made = [Record(b"%d" % ((number + i) % KEYS), value, NOW_MS + number) for i in range(2)]
        log.append_as_leader(build_batch(made), leader_epoch=0, now_ms=NOW_MS)
    directory.close(now_ms=NOW_MS)
    return folder


def last_values(records: list[Record]) -> dict[bytes | None, Record]:
    """What whoever reads everything knows in the end; a deleted key is as good as none."""
    return {key: last for key, last in {record.key: record for record in records}.items() if last.value is not None}


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
def test_a_round_of_cleaning(stored: Path, tmp_path: Path, power: bool) -> None:
    everything: list[Record] = []
    ends = set()
    for call in count():
        folder = Path(shutil.copytree(stored, tmp_path / f"copy-{call}"))
        directory = opened(folder)
        everything = everything or contents(directory.logs[TP])
        with pytest.MonkeyPatch.context() as patch:
            loss = PowerLoss(folder, patch) if power else None
            finished = False
            with failing_at(call, patch, CrashError()):
                try:
                    clean_and_delete(directory)
                    finished = True
                except CrashError:
                    pass
        directory.abandon()
        if loss is not None:
            loss.power_off()
        ends.add(check(folder, everything))
        # What was begun can be done again, to the end.
        again = opened(folder)
        clean_log(again.logs[TP], now_ms=NOW_MS + 1)
        assert last_values(contents(again.logs[TP])) == last_values(everything)
        again.abandon()
        shutil.rmtree(folder)
        if finished:
            assert call > 30
            assert len(ends) > 2  # it went group by group
            return
    raise AssertionError


def clean_and_delete(directory: LogDirectory) -> None:
    log = directory.logs[TP]
    clean_log(log, now_ms=NOW_MS, resources=Resources(dedupe_bytes=1 << 10))
    directory.checkpoint_cleaned()
    directory.delete_marked(now_ms=NOW_MS + 1)


def check(folder: Path, everything: list[Record]) -> int:
    """That nothing is lost and nothing left lying around; how many bytes are there."""
    again = opened(folder)
    assert not again.corrupt
    log = again.logs[TP]
    check_indexes(log)
    found = contents(log)
    assert last_values(found) == last_values(everything)
    assert set(found) <= set(everything)
    assert [record.offset for record in found] == sorted({record.offset for record in found})
    assert log.log_end_offset == everything[-1].offset + 1
    names = [path.name for path in log.directory.iterdir()]
    assert not [name for name in names if name.endswith((".swap", ".cleaned", ".deleted"))]
    again.abandon()
    return log.size


def test_a_start_that_dies_while_it_finishes_a_swap(stored: Path, tmp_path: Path) -> None:
    begun = Path(shutil.copytree(stored, tmp_path / "begun"))
    directory = opened(begun)
    everything = contents(directory.logs[TP])
    # Dies once the first new segment counts, and before anything else.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "retire_swapped", _die)
        with pytest.raises(CrashError):
            clean_log(directory.logs[TP], now_ms=NOW_MS)
    directory.abandon()
    assert list((begun / "t-0").glob("*.log.swap"))
    for call in count():
        folder = Path(shutil.copytree(begun, tmp_path / f"copy-{call}"))
        with pytest.MonkeyPatch.context() as patch:
            loss = PowerLoss(folder, patch)
            finished = False
            with failing_at(call, patch, CrashError()):
                try:
                    settle_directory(folder / "t-0")
                    finished = True
                except CrashError:
                    pass
        loss.power_off()
        check(folder, everything)
        shutil.rmtree(folder)
        if finished:
            return


def _die(*_: object) -> None:
    raise CrashError


def test_half_of_a_split_is_undone(tmp_path: Path) -> None:
    """As Kafka leaves it when it dies while it cuts a segment in two: of the parts, not all are there."""
    for name in ("00000000000000000000.log", "00000000000000000005.log.swap", "00000000000000000003.log.cleaned"):
        (tmp_path / name).write_bytes(b"")
    settle_directory(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000000.log"]


def _nothing(*_: object) -> None:
    pass


def test_a_swap_that_is_never_synced_is_found_out(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L19: without the names of the directory on disk, the old segments go and the new one is not there."""
    monkeypatch.setattr(Swap, "sync", _nothing)
    with pytest.raises(AssertionError):
        test_a_round_of_cleaning(stored, tmp_path, power=True)
