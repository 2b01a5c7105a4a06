"""Replicas that move from one log directory to another."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from ottla.base.errors import ConfigError, CorruptionError
from ottla.log import LogDirectory, StorageError
from ottla.log import TopicPartition as LogPartition
from ottla.metadata.ids import BrokerId, TopicId, TopicPartition
from ottla.metadata.znodes.topics import LeaderAndIsr
from ottla.records import AppendOrigin
from ottla.replica.errors import OfflinePartitionError
from ottla.replica.moves import Move, settle
from ottla.replica.replicas import Order, Replicas
from tests.sources import COMPILED
from tests.unit.log.conftest import checked_only
from tests.unit.log.faults import CrashError, failing_at
from tests.unit.log.logs import NOW_MS, SMALL, check_indexes, contents, idempotent, marker, numbered_batch

BROKER = BrokerId(1)
WHERE = TopicPartition("t", 0)
KEY = LogPartition("t", 0)
ORDER = Order(WHERE, TopicId(bytes(15) + b"\x01"), LeaderAndIsr(BROKER, 1, (BROKER,), 0), (BROKER,))
BATCHES = 7


@contextmanager
def opened(folder: Path) -> Iterator[Replicas]:
    directories = [LogDirectory(folder / name) for name in ("a", "b")]
    try:
        for directory in directories:
            directory.load(lambda _: SMALL, now_ms=NOW_MS)
        settle(directories, now_ms=NOW_MS)
        replicas = Replicas(BROKER, directories, lambda _: SMALL)
        replicas.obey(ORDER, now_ms=NOW_MS, now_s=0.0)
        yield replicas
    finally:
        for directory in directories:
            directory.abandon()


def fill(replicas: Replicas, numbers: range) -> None:
    partition = replicas.partition(*WHERE)
    for number in numbers:
        partition.append(numbered_batch(number), acks=1, now_ms=NOW_MS)


def source_of(replicas: Replicas) -> LogDirectory:
    return next(each for each in replicas.directories if KEY in each.logs)


def target_of(replicas: Replicas) -> LogDirectory:
    return next(each for each in replicas.directories if KEY not in each.logs)


def copy(move: Move) -> None:
    while (found := move.next(500, now_ms=NOW_MS)) is not None:
        move.take(found.read(), now_ms=NOW_MS)


def begin(replicas: Replicas, target: LogDirectory) -> bool:
    return replicas.moves.begin(replicas.partition(*WHERE), target, now_ms=NOW_MS)


def finish(replicas: Replicas) -> None:
    replicas.moves.finish(replicas.partition(*WHERE), now_ms=NOW_MS)


def begun(replicas: Replicas) -> Move:
    assert begin(replicas, target_of(replicas))
    move = replicas.moves.of(WHERE)
    assert move is not None
    return move


def moved(replicas: Replicas) -> None:
    move = begun(replicas)
    copy(move)
    finish(replicas)


def test_a_replica_moves_with_everything_that_is_known_of_it(tmp_path: Path) -> None:
    with opened(tmp_path) as replicas:
        partition = replicas.partition(*WHERE)
        fill(replicas, range(BATCHES))
        for data, origin in (
            (idempotent(7, 0, transactional=True), AppendOrigin.CLIENT),
            (marker(7, commit=False), AppendOrigin.COORDINATOR),
            (idempotent(8, 0), AppendOrigin.CLIENT),
        ):
            partition.append(data, acks=1, now_ms=NOW_MS, origin=origin)
        partition.log.increment_log_start_offset(5)
        partition.log.cleaned_to = 9
        before = partition.log
        known = (contents(before), before.epochs.entries, before.producers.entries, before.aborted_transactions(0, 99))
        target = target_of(replicas)
        moved(replicas)
        after = partition.log
        assert after is target.logs[KEY]
        assert (
            contents(after),
            after.epochs.entries,
            after.producers.entries,
            after.aborted_transactions(0, 99),
        ) == known
        assert (after.log_start_offset, after.high_watermark, after.cleaned_to) == (5, before.high_watermark, 9)
        assert after.directory == target.path / "t-0"
        assert replicas.moves.of(WHERE) is None
        fill(replicas, range(BATCHES, BATCHES + 3))
        everything = contents(after)
    with opened(tmp_path) as replicas:
        assert contents(replicas.partition(*WHERE).log) == everything
        assert [KEY in each.logs for each in replicas.directories] == [False, True]


def test_damage_of_a_log_that_moved_is_heard_of_as_before(tmp_path: Path) -> None:
    with opened(tmp_path) as replicas:
        heard: list[TopicPartition] = []
        replicas.on_damage = lambda where, _: heard.append(where)
        fill(replicas, range(30))
        moved(replicas)
        log = replicas.partition(*WHERE).log
        assert len(log.segments) > 1
        with min(log.directory.glob("*.log")).open("r+b") as file:
            file.seek(16)
            file.write(b"\x09")  # no magic that there is
        with pytest.raises(CorruptionError):
            log.read(0, 1 << 20)
        assert heard == [WHERE]


def test_what_is_appended_meanwhile_comes_along(tmp_path: Path) -> None:
    with opened(tmp_path) as replicas:
        fill(replicas, range(BATCHES))
        move = begun(replicas)
        for number in range(BATCHES, BATCHES + 20):
            found = move.next(500, now_ms=NOW_MS)
            fill(replicas, range(number, number + 1))
            if found is not None:
                move.take(found.read(), now_ms=NOW_MS)
        everything = contents(replicas.partition(*WHERE).log)
        copy(move)
        finish(replicas)
        assert contents(replicas.partition(*WHERE).log) == everything


def test_what_is_cut_off_meanwhile_does_not_come_along(tmp_path: Path) -> None:
    with opened(tmp_path) as replicas:
        fill(replicas, range(BATCHES))
        log = replicas.partition(*WHERE).log
        move = begun(replicas)
        found = move.next(5000, now_ms=NOW_MS)
        assert found is not None
        data = found.read()
        log.truncate_to(4, now_ms=NOW_MS)
        fill(replicas, range(50, 60))
        move.take(data, now_ms=NOW_MS)
        everything = contents(log)
        copy(move)
        finish(replicas)
        assert contents(replicas.partition(*WHERE).log) == everything


def test_offsets_that_a_cleaner_took_out_of_the_end_are_passed_over(tmp_path: Path) -> None:
    with opened(tmp_path) as replicas:
        fill(replicas, range(2))
        log = replicas.partition(*WHERE).log
        log.skip_to(50, now_ms=NOW_MS)
        moved(replicas)
        assert replicas.partition(*WHERE).log.log_end_offset == 50
        fill(replicas, range(2, 3))
        offsets = [record.offset for record in contents(replicas.partition(*WHERE).log)]
        assert offsets == [0, 1, 2, 3, 4, 5, 50, 51, 52]


def test_a_move_is_ended_by_moving_back(tmp_path: Path) -> None:
    with opened(tmp_path) as replicas:
        fill(replicas, range(3))
        begun(replicas)
        target = target_of(replicas)
        assert not begin(replicas, target)  # it is on its way already
        assert KEY in target.future_logs
        assert not begin(replicas, source_of(replicas))
        assert replicas.moves.of(WHERE) is None
        assert not target.future_logs
        assert [path.name for path in target.path.iterdir() if path.is_dir() and "future" in path.name] == []


def test_a_replica_comes_into_the_directory_that_was_named_before(tmp_path: Path) -> None:
    directories = [LogDirectory(tmp_path / name) for name in ("a", "b")]
    for directory in directories:
        directory.load(lambda _: SMALL, now_ms=NOW_MS)
    replicas = Replicas(BROKER, directories, lambda _: SMALL)
    replicas.moves.prefer(WHERE, directories[1])
    replicas.obey(ORDER, now_ms=NOW_MS, now_s=0.0)
    assert [KEY in each.logs for each in directories] == [False, True]
    for directory in directories:
        directory.abandon()


def test_a_directory_that_fails_takes_the_moves_into_it_along_and_no_more(tmp_path: Path) -> None:
    with opened(tmp_path) as replicas:
        fill(replicas, range(3))
        move = begun(replicas)
        target = move.target
        target.health.failed("write", OSError(5, "gone"))
        replicas.take_offline(target)
        assert replicas.moves.of(WHERE) is None
        fill(replicas, range(3, 6))
        with pytest.raises(StorageError):
            begin(replicas, target)


def test_a_directory_that_fails_takes_its_partitions_offline_also_while_they_move(tmp_path: Path) -> None:
    with opened(tmp_path) as replicas:
        fill(replicas, range(3))
        begun(replicas)
        source = source_of(replicas)
        source.health.failed("write", OSError(5, "gone"))
        replicas.take_offline(source)
        with pytest.raises(OfflinePartitionError):
            replicas.partition(*WHERE)
        assert replicas.moves.of(WHERE) is None


def test_the_same_partition_of_two_topics_is_nobodys_to_choose(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    other = Path(shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0"))
    (other / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    with pytest.raises(ConfigError, match="different topics"), opened(tmp_path):
        pass


def grown(folder: Path, name: str, *, numbers: range) -> None:
    """The partition gets more records while only this directory is there."""
    directory = LogDirectory(folder / name)
    try:
        directory.load(lambda _: SMALL, now_ms=NOW_MS)
        replicas = Replicas(BROKER, [directory], lambda _: SMALL)
        replicas.obey(ORDER, now_ms=NOW_MS, now_s=0.0)
        fill(replicas, numbers)
        directory.close(now_ms=NOW_MS)
    finally:
        directory.abandon()


def test_of_two_copies_the_one_that_has_everything_stays(tmp_path: Path) -> None:
    grown(tmp_path, "a", numbers=range(3))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    grown(tmp_path, "b", numbers=range(3, 6))
    with opened(tmp_path) as replicas:
        assert source_of(replicas).path.name == "b"
        assert replicas.partition(*WHERE).log.log_end_offset == 18


@pytest.mark.parametrize("more", [4, 5])
def test_of_two_copies_that_went_on_apart_none_is_deleted(tmp_path: Path, more: int) -> None:
    grown(tmp_path, "a", numbers=range(3))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    grown(tmp_path, "a", numbers=range(3, 5))
    grown(tmp_path, "b", numbers=range(7, 7 + more))
    with pytest.raises(ConfigError, match="does not hold what the other has"), opened(tmp_path):
        pass
    assert (tmp_path / "a" / "t-0").exists()
    assert (tmp_path / "b" / "t-0").exists()


@pytest.mark.skipif(COMPILED, reason="compiled code calls the system past what a test puts in its place")
def test_a_move_that_ends_at_any_call_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", checked_only)
    stored = tmp_path / "stored"
    with opened(stored) as replicas:
        fill(replicas, range(BATCHES))
        replicas.partition(*WHERE).log.flush(now_ms=NOW_MS)
        replicas.checkpoint()
        everything = contents(replicas.partition(*WHERE).log)
    places = set()
    for call in count():
        folder = Path(shutil.copytree(stored, tmp_path / "copy"))
        finished = False
        with (
            opened(folder) as replicas,
            pytest.MonkeyPatch.context() as patch,
            failing_at(call, patch, CrashError()),
            suppress(CrashError),
        ):
            moved(replicas)
            finished = True
        with opened(folder) as replicas:
            log = replicas.partition(*WHERE).log
            assert contents(log) == everything
            check_indexes(log)
            places.add(source_of(replicas).path.name)
            # And it can be moved, from wherever it is now.
            if replicas.moves.of(WHERE) is None:
                begun(replicas)
            move = replicas.moves.of(WHERE)
            assert move is not None
            copy(move)
            finish(replicas)
            assert contents(replicas.partition(*WHERE).log) == everything
        shutil.rmtree(folder)
        if finished:
            break
    assert call > 20
    assert places == {"a", "b"}
