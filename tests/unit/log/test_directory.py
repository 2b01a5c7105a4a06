"""A log directory: whose it is, what it holds, how it stops and starts."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from ottla.base.errors import ConfigError, CorruptionError
from ottla.log import LogDirectory, MetaProperties, TopicPartition, check_distinct
from ottla.log.checkpoints import OffsetsFile, read_epochs, read_meta_properties, read_offsets
from ottla.log.directory import RECOVERY_POINTS
from tests.unit.log.logs import NOW_MS, SMALL, contents, numbered_batch
from tests.unit.log.test_golden import GOLDEN

TP = TopicPartition("some.topic-with-dashes", 3)
ID = UUID(int=0x1234567890ABCDEF)


def opened(folder: Path) -> LogDirectory:
    directory = LogDirectory(folder)
    directory.load(lambda _: SMALL, now_ms=NOW_MS)
    return directory


def test_partitions_come_back_with_their_ids(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.create(TP, SMALL, topic_id=ID, now_ms=NOW_MS)
    for number in range(20):
        log.append_as_leader(numbered_batch(number), leader_epoch=0, now_ms=NOW_MS)
    directory.collect_high_watermarks({TP: 60})()
    directory.close(now_ms=NOW_MS, broker_epoch=77)
    progress = []
    directory = LogDirectory(tmp_path)
    directory.load(lambda _: SMALL, now_ms=NOW_MS, progress=lambda done, of: progress.append((done, of)))
    assert progress == [(1, 1)]
    assert directory.was_clean
    assert directory.broker_epoch_of_stop == 77
    assert directory.topic_id(TP) == ID
    assert directory.read_high_watermarks() == {TP: 60}
    assert len(contents(directory.logs[TP])) == 60
    directory.abandon()
    assert not opened(tmp_path).was_clean


def test_a_stop_before_anything_was_loaded_vouches_for_nothing(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.create(TP, SMALL, topic_id=ID, now_ms=NOW_MS)
    log.append_as_leader(numbered_batch(0), leader_epoch=0, now_ms=NOW_MS)
    log.flush(now_ms=NOW_MS)
    directory.checkpoint()
    directory.abandon()
    LogDirectory(tmp_path).close(now_ms=NOW_MS)
    assert read_offsets(tmp_path / RECOVERY_POINTS) == {TP: log.log_end_offset}
    again = opened(tmp_path)
    assert not again.was_clean
    again.abandon()


def _try(folder: Path, answers: multiprocessing.Queue[str]) -> None:
    try:
        LogDirectory(folder)
        answers.put("taken")
    except ConfigError as error:
        answers.put(str(error))


def test_one_broker_at_a_time(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_try, args=(tmp_path, answers))
    process.start()
    assert "in use by another broker" in answers.get(timeout=60)
    process.join()
    directory.abandon()


def test_a_directory_belongs_to_one_broker_of_one_cluster(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    directory.claim(MetaProperties(3, "cluster"), now_ms=NOW_MS)
    directory.claim(MetaProperties(3, "cluster"), now_ms=NOW_MS)
    for other in (MetaProperties(4, "cluster"), MetaProperties(3, "other")):
        with pytest.raises(ConfigError, match="belongs to broker 3"):
            directory.claim(other, now_ms=NOW_MS)
    directory.abandon()


def test_deletion_is_at_once_for_readers_and_later_on_disk(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    config = replace(SMALL, file_delete_delay_ms=1000)
    log = directory.create(TP, config, topic_id=None, now_ms=NOW_MS)
    log.append_as_leader(numbered_batch(0), leader_epoch=0, now_ms=NOW_MS)
    log.flush(now_ms=NOW_MS)
    directory.checkpoint()
    found = log.read(0, 1 << 20).range
    assert found is not None
    directory.delete(TP, now_ms=NOW_MS)
    assert TP not in directory.logs
    assert read_offsets(tmp_path / "recovery-point-offset-checkpoint") == {}
    assert [path.name.endswith("-delete") for path in tmp_path.iterdir() if path.is_dir()] == [True]
    directory.create(TP, config, topic_id=None, now_ms=NOW_MS)
    directory.delete_marked(now_ms=NOW_MS + 999)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2
    directory.delete_marked(now_ms=NOW_MS + 1000)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [str(TP)]
    assert len(found.read()) == found.length
    directory.abandon()


def test_a_damaged_partition_stays_closed_however_often_one_starts(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    other = TopicPartition("other", 0)
    for tp in (TP, other):
        log = directory.create(tp, SMALL, topic_id=None, now_ms=NOW_MS)
        for number in range(3):
            log.append_as_leader(numbered_batch(number), leader_epoch=0, now_ms=NOW_MS)
        log.flush(now_ms=NOW_MS)
    directory.checkpoint()
    path = directory.logs[TP].active.file.path
    directory.abandon()
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    for _ in range(3):
        directory = opened(tmp_path)
        assert list(directory.corrupt) == [TP]
        assert list(directory.logs) == [other]
        assert path.read_bytes() == data
        directory.close(now_ms=NOW_MS)


def test_a_start_offset_within_a_segment_survives(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.create(TP, SMALL, topic_id=None, now_ms=NOW_MS)
    log.append_as_leader(numbered_batch(0), leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(3)
    log.increment_log_start_offset(2)
    directory.close(now_ms=NOW_MS)
    assert opened(tmp_path).logs[TP].log_start_offset == 2


def test_a_checkpoint_that_cannot_be_read_is_done_without(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.create(TP, SMALL, topic_id=None, now_ms=NOW_MS)
    log.append_as_leader(numbered_batch(0), leader_epoch=0, now_ms=NOW_MS)
    directory.close(now_ms=NOW_MS)
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"0\n7\n")
    directory = opened(tmp_path)
    assert not directory.was_clean
    assert directory.logs[TP].log_end_offset == 3
    directory.abandon()


def test_an_empty_checkpoint_says_nothing_and_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "offsets").write_bytes(b"")
    assert read_offsets(tmp_path / "offsets") == {}
    assert read_epochs(tmp_path / "offsets") == []


def test_a_log_that_is_moved_here_has_a_recovery_point_of_its_own(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.create(TP, SMALL, topic_id=None, now_ms=NOW_MS)
    for number in range(20):
        log.append_as_leader(numbered_batch(number), leader_epoch=0, now_ms=NOW_MS)
    log.flush(now_ms=NOW_MS)
    directory.checkpoint()
    directory.abandon()
    future = tmp_path / f"{TP}.{'0' * 32}-future"
    future.mkdir()
    data = (tmp_path / str(TP) / f"{0:020d}.log").read_bytes()
    (future / f"{0:020d}.log").write_bytes(data[:-1])
    directory = opened(tmp_path)
    assert not directory.corrupt
    assert directory.logs[TP].log_end_offset == 60
    assert 0 < directory.future_logs[TP].log_end_offset < 60
    directory.abandon()


def test_meta_properties_byte_for_byte(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    directory.claim(MetaProperties(0, "FofCvBuQSjiPR6S7WyRpXA"), now_ms=1794780430000)
    golden = GOLDEN / "meta.properties"
    assert (tmp_path / "meta.properties").read_bytes() == golden.read_bytes()
    directory.abandon()


def test_a_checkpoint_that_was_collected_later_stays_and_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    file = OffsetsFile(path)
    earlier, later = file.collect({TP: 1}), file.collect({TP: 2})
    later()
    earlier()
    assert read_offsets(path) == {TP: 2}
    written = path.stat().st_ino
    file.collect({TP: 2})()
    assert path.stat().st_ino == written
    file.collect({})()
    assert read_offsets(path) == {}


def test_a_checkpoint_that_could_not_be_written_is_written_the_next_time(tmp_path: Path) -> None:
    folder = tmp_path / "away"
    file = OffsetsFile(folder / "offsets")
    with pytest.raises(FileNotFoundError):
        file.collect({TP: 1})()
    folder.mkdir()
    file.collect({TP: 1})()
    assert read_offsets(folder / "offsets") == {TP: 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [(b"cluster.id=c\n", "it says no broker.id"), (b"broker.id=1\n", "it says no cluster.id"), (b"\xff", "")],
)
def test_meta_properties_that_say_too_little_are_told_what_is_missing(tmp_path: Path, text: bytes, why: str) -> None:
    (tmp_path / "meta.properties").write_bytes(text)
    with pytest.raises(CorruptionError, match=f"meta.properties cannot be read: .*{why}"):
        read_meta_properties(tmp_path / "meta.properties")


def test_a_directory_by_two_names_is_one(tmp_path: Path) -> None:
    one, other, link = tmp_path / "one", tmp_path / "other", tmp_path / "link"
    one.mkdir()
    other.mkdir()
    link.symlink_to(one)
    check_distinct([one, other, tmp_path / "missing"])
    for again in (one, Path(f"{one}/"), link):
        with pytest.raises(ConfigError, match="the same directory"):
            check_distinct([one, other, again])
