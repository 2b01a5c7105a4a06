"""Damage of every kind is found, with its place; files that are whole are left as they are and in peace."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.checkpoints import TopicPartition, write_epochs, write_offsets
from ottla.log.inspect import CHUNK_BYTES, Damage, StoredBatch, find_partitions, read_records, read_segment
from ottla.log.verify import Problem, Totals, verify_partition, verify_segment
from ottla.records import AppendOrigin, Codec, Record, build_batch
from tests.unit.log.logs import NOW_MS, idempotent, marker, numbered_batch, open_log

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9.1-log-dir"
BATCHES = 60


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several segments, three epochs, an aborted transaction in the first segment, closed cleanly."""
    folder = tmp_path_factory.mktemp("data") / "t-0"
    log, _ = open_log(folder)
    for number in range(BATCHES):
        epoch = number // 20
        log.append_as_leader(numbered_batch(number), leader_epoch=epoch, now_ms=NOW_MS)
        if number == 3:
            log.append_as_leader(idempotent(1, 0, transactional=True), leader_epoch=epoch, now_ms=NOW_MS)
            log.append_as_leader(
                marker(1, commit=False), leader_epoch=epoch, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
            )
    log.close(now_ms=NOW_MS)
    assert len(log.segments) > 3
    end = log.log_end_offset
    write_offsets(folder.parent / "recovery-point-offset-checkpoint", {TopicPartition("t", 0): end})
    write_offsets(folder.parent / "replication-offset-checkpoint", {TopicPartition("t", 0): end})
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written.parent, tmp_path / "copy")) / "t-0"


def problems(folder: Path, *, deep: bool = False) -> list[Problem]:
    return list(verify_partition(folder, Totals(), deep=deep))


def segment(folder: Path, number: int) -> Path:
    return sorted(folder.glob("*.log"))[number]


def state(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_a_whole_log_has_no_problems_and_stays_as_it_is(folder: Path) -> None:
    before = state(folder.parent)
    totals = Totals()
    assert list(verify_partition(folder, totals, deep=True)) == []
    assert (totals.batches, totals.records) == (BATCHES + 2, BATCHES * 3 + 2)
    assert totals.segments == len(list(folder.glob("*.log")))
    assert state(folder.parent) == before


@pytest.mark.parametrize("partition", sorted(path.name for path in GOLDEN.iterdir() if path.is_dir()))
def test_what_kafka_wrote_has_no_problems(partition: str) -> None:
    assert problems(GOLDEN / partition, deep=True) == []


def test_a_log_in_use_has_no_problems(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "t-0")
    for number in range(BATCHES):
        log.append_as_leader(numbered_batch(number), leader_epoch=0, now_ms=NOW_MS)
    # Room for more entries, filled with zeros, is in the indexes of the active segment.
    assert log.segments[-1].offset_index.path.stat().st_size > log.segments[-1].offset_index.valid_bytes
    assert problems(tmp_path / "t-0", deep=True) == []
    log.abandon()


def test_every_segment_of_a_log_directory_is_found(folder: Path) -> None:
    assert list(find_partitions(folder.parent)) == [folder]
    assert list(find_partitions(folder)) == [folder]


@settings(max_examples=60)
@given(data=st.data())
def test_any_flipped_bit_of_a_segment_is_found(
    written: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = Path(shutil.copytree(written.parent, tmp_path_factory.mktemp("flipped") / "copy")) / "t-0"
    path = segment(folder, data.draw(st.integers(0, len(list(folder.glob("*.log"))) - 1)))
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    found = problems(folder)
    assert found
    assert any(problem.path.stem == path.stem for problem in found)
    shutil.rmtree(folder.parent)


def test_a_checksum_that_does_not_fit_is_placed(folder: Path) -> None:
    path = segment(folder, 1)
    first = next(iter(read_segment(path)))
    assert isinstance(first, StoredBatch)
    content = bytearray(path.read_bytes())
    content[first.size - 1] ^= 1
    path.write_bytes(content)
    [found] = problems(folder)
    assert found.path == path
    assert found.where == f"byte 0, offset {first.base_offset}"
    assert "checksum" in found.what


def test_a_torn_tail_behind_the_recovery_point_is_what_a_crash_leaves(folder: Path) -> None:
    write_offsets(folder.parent / "recovery-point-offset-checkpoint", {TopicPartition("t", 0): 0})
    write_offsets(folder.parent / "replication-offset-checkpoint", {TopicPartition("t", 0): 0})
    path = segment(folder, -1)
    path.write_bytes(path.read_bytes()[:-5])
    [found] = [problem for problem in problems(folder) if problem.path == path]
    assert "what a crash leaves behind" in found.what


def test_a_torn_tail_before_the_recovery_point_is_a_loss(folder: Path) -> None:
    path = segment(folder, -1)
    path.write_bytes(path.read_bytes()[:-5])
    assert any("records before the recovery point" in problem.what for problem in problems(folder))
    assert any(problem.path.name == "recovery-point-offset-checkpoint" for problem in problems(folder))


def test_a_missing_segment_is_found_by_the_checkpoints_and_an_overlap_by_its_name(folder: Path) -> None:
    path = segment(folder, 1)
    target = folder / f"{int(path.stem) - 1:020d}.log"
    shutil.copy(path, target)
    assert any(problem.where == "its name" or "comes after" in problem.what for problem in problems(folder))


def test_offsets_that_are_missing_between_segments_are_found(folder: Path) -> None:
    gone, behind = segment(folder, 1), segment(folder, 2)
    for path in folder.glob(f"{gone.stem}.*"):
        path.unlink()
    missing = f"offsets {int(gone.stem)} to {int(behind.stem) - 1} are missing before it"
    assert problems(folder) == [Problem(behind, "its name", missing)]


def test_a_log_that_was_cleaned_may_lack_offsets_anywhere(folder: Path) -> None:
    for path in folder.glob(f"{segment(folder, 1).stem}.*"):
        path.unlink()
    write_offsets(folder.parent / "cleaner-offset-checkpoint", {TopicPartition("t", 0): 50})
    assert not problems(folder)


def test_indexes_without_their_segment_are_found(folder: Path) -> None:
    gone = segment(folder, 1)
    gone.unlink()
    found = {problem.path: problem.what for problem in problems(folder)}
    orphans = [gone.with_suffix(suffix) for suffix in (".index", ".timeindex")]
    assert [found.get(path) for path in orphans] == ["its segment is not there"] * 2
    assert segment(folder, 1) in found, "which follows what is not there"


def rewrite(path: Path, change: Callable[[bytearray], object]) -> None:
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda data: struct.pack_into(">i", data, 4, 1), "no batch starts at 1"),
        (lambda data: struct.pack_into(">i", data, 4, 1 << 30), "does not follow|behind the last batch"),
        (lambda data: struct.pack_into(">i", data, 0, 0), "is to be at"),
        (lambda data: struct.pack_into(">i", data, len(data) - 8, 1 << 20), "behind the last batch"),
        (lambda data: data.append(0), "no whole number of entries"),
    ],
)
def test_an_index_that_misleads_is_found(folder: Path, change: Callable[[bytearray], object], what: str) -> None:
    path = segment(folder, 0).with_suffix(".index")
    rewrite(path, change)
    found = [problem for problem in problems(folder) if problem.path == path]
    assert found
    assert any(any(part in problem.what for part in what.split("|")) for problem in found), found


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda data: struct.pack_into(">q", data, 0, NOW_MS - 5), "the latest time is"),
        (lambda data: struct.pack_into(">q", data, 0, 1 << 60), "does not follow|the latest time is"),
        (lambda data: struct.pack_into(">i", data, len(data) - 4, 1 << 20), "behind the last batch"),
        (lambda data: data.append(0), "no whole number of entries"),
    ],
)
def test_a_time_index_that_misleads_is_found(folder: Path, change: Callable[[bytearray], object], what: str) -> None:
    path = segment(folder, 0).with_suffix(".timeindex")
    rewrite(path, change)
    found = [problem for problem in problems(folder) if problem.path == path]
    assert found
    assert any(any(part in problem.what for part in what.split("|")) for problem in found), found


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_found(folder: Path, suffix: str) -> None:
    path = segment(folder, 0).with_suffix(suffix)
    path.unlink()
    [found] = problems(folder)
    assert found == Problem(path, "the whole file", "it is missing; the next start builds it anew")


def test_a_checkpoint_that_was_only_made_is_none(folder: Path) -> None:
    (folder.parent / "recovery-point-offset-checkpoint").write_bytes(b"")
    assert problems(folder) == []


def test_an_empty_segment_needs_no_index(folder: Path) -> None:
    end = max(int(path.stem) for path in folder.glob("*.snapshot"))
    (folder / f"{end:020d}.log").touch()
    assert problems(folder) == []


def test_an_aborted_transaction_without_its_marker_is_found(folder: Path) -> None:
    path = segment(folder, 0).with_suffix(".txnindex")
    rewrite(path, lambda data: struct.pack_into(">q", data, 2, 77))
    [found] = problems(folder)
    assert (found.path, found.what) == (path, "no abort marker of producer 77 is there")


@pytest.mark.parametrize(
    ("epochs", "what"),
    [
        ([(0, 0), (1, 62)], "leader epoch 2, but leader-epoch-checkpoint has 1"),
        ([(0, 0), (1, 10), (2, 122)], "leader epoch 0, but leader-epoch-checkpoint has 1"),
        ([(1, 0), (0, 62)], "does not follow"),
        ([(0, 0), (1, 62), (2, 122), (3, 9999)], "but the log ends at"),
        ([], "leader-epoch-checkpoint has -1"),
    ],
)
def test_epochs_that_do_not_fit_are_found(folder: Path, epochs: list[tuple[int, int]], what: str) -> None:
    write_epochs(folder / "leader-epoch-checkpoint", epochs)
    assert any(what in problem.what for problem in problems(folder))


def test_small_files_that_cannot_be_read_are_found(folder: Path) -> None:
    (folder / "leader-epoch-checkpoint").write_text("0\n9\n")
    (folder / "partition.metadata").write_text("nonsense")
    (folder.parent / "recovery-point-offset-checkpoint").write_text("x")
    snapshot = max(folder.glob("*.snapshot"))
    rewrite(snapshot, lambda data: data.append(0))
    paths = {problem.path.name for problem in problems(folder)}
    assert {"leader-epoch-checkpoint", "partition.metadata", "recovery-point-offset-checkpoint", snapshot.name} <= paths


def test_a_snapshot_from_behind_its_offset_is_found(folder: Path) -> None:
    newest = max(folder.glob("*.snapshot"))
    newest.rename(folder / f"{1:020d}.snapshot")
    assert any("behind the snapshot's own" in problem.what for problem in problems(folder))


def test_checkpoints_behind_the_end_are_found(folder: Path) -> None:
    write_offsets(folder.parent / "replication-offset-checkpoint", {TopicPartition("t", 0): 9999})
    [found] = problems(folder)
    assert found.path.name == "replication-offset-checkpoint"


def test_records_that_cannot_be_unpacked_are_found_when_looked_for(tmp_path: Path) -> None:
    """A checksum may be right over what is wrong."""
    good = build_batch([Record(b"k", b"v", NOW_MS)] * 3, codec=Codec.GZIP)
    path = tmp_path / f"{0:020d}.log"
    from ottla.records.batch import HEADER_BYTES, read_header, stamped

    body = good[HEADER_BYTES:-4] + b"junk"
    path.write_bytes(stamped(read_header(good), body).pack() + body)
    assert not [p for p in verify_segment(path, Totals()) if p.path == path]
    assert [p for p in verify_segment(path, Totals(), deep=True) if p.path == path]


def test_a_batch_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    data = build_batch([Record(None, b"x" * (3 * CHUNK_BYTES), NOW_MS)])
    path.write_bytes(data + build_batch([Record(None, b"y", NOW_MS)], base_offset=1))
    first, second = read_segment(path)
    assert isinstance(first, StoredBatch)
    assert isinstance(second, StoredBatch)
    assert first.crc_is_valid
    assert second.crc_is_valid
    assert [record.value for record in read_records(path, second)] == [b"y"]


def test_a_length_that_is_a_lie_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(struct.pack(">qiib", 0, (1 << 31) - 1, 0, 2) + b"\0" * 100)
    [found] = read_segment(path)
    assert isinstance(found, Damage)
    assert found.is_torn


def test_zeros_behind_the_last_batch_are_room_and_no_damage(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build_batch([Record(None, b"y", NOW_MS)]) + b"\0" * 5000)
    assert len(list(read_segment(path))) == 1


def test_messages_of_the_old_formats(tmp_path: Path) -> None:
    import zlib

    body = struct.pack(">bbq", 1, 0, NOW_MS) + struct.pack(">i", -1) + struct.pack(">i", 1) + b"v"
    message = struct.pack(">qiI", 5, len(body) + 4, zlib.crc32(body)) + body
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(message + message[:-1] + b"w")
    good, bad = read_segment(path)
    assert [problem.where for problem in verify_segment(path, Totals(), deep=True) if problem.path == path] == [
        f"byte {len(message)}, offset 5",
        f"byte {len(message)}, offset 5",
    ]
    assert isinstance(good, StoredBatch)
    assert isinstance(bad, StoredBatch)
    assert (good.crc_is_valid, good.base_offset, good.max_timestamp, good.magic) == (True, 5, NOW_MS, 1)
    assert not bad.crc_is_valid
    assert [(record.offset, record.value) for record in read_records(path, good)] == [(5, b"v")]
