"""A data directory that Apache Kafka 3.9.1 left behind: read whole, and written again byte for byte."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ottla.log import LogConfig, LogDirectory, TopicPartition
from ottla.log.batches import verified
from ottla.log.checkpoints import (
    encode_topic_id,
    read_clean_shutdown,
    read_epochs,
    read_meta_properties,
    read_offsets,
    read_topic_id,
    write_clean_shutdown,
    write_epochs,
    write_offsets,
)
from ottla.log.index import OffsetPosition
from ottla.log.log import Log
from ottla.log.producers import decode_snapshot, encode_snapshot
from ottla.log.txnindex import AbortedTxn
from ottla.records import Record, read_batch

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9.1-log-dir"
NOW_MS = 1_794_780_000_000  # soon after it was written
PARTITIONS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
KEEP_FOREVER = LogConfig(retention_ms=-1, segment_bytes=16384)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "data"))


def load(folder: Path) -> LogDirectory:
    directory = LogDirectory(folder)
    directory.load(lambda _: KEEP_FOREVER, now_ms=NOW_MS)
    return directory


def records_of(log: Log) -> list[Record]:
    found: list[Record] = []
    for segment in log.segments:
        data = segment.file.path.read_bytes()[: segment.size]
        for located in verified(segment.file, segment.size):
            if not located.header.is_control:
                found += read_batch(data, located.position)
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec(folder: Path, codec: str) -> None:
    directory = load(folder)
    log = directory.logs[TopicPartition(f"g-{codec}", 0)]
    assert records_of(log) == [
        Record(
            f"k{i % 10}".encode(),
            f'{{"i": {i}, "page": "/p{i % 7}"}}'.encode(),
            1_700_000_000_000 + i,
            ((b"h", b"v"),),
            i,
        )
        for i in range(200)
    ]
    assert log.log_end_offset == 200
    assert log.offset_for_timestamp(1_700_000_000_123) == (1_700_000_000_123, 123, 0)
    directory.abandon()


def test_transactions(folder: Path) -> None:
    directory = load(folder)
    log = directory.logs[TopicPartition("g-txn", 0)]
    assert [record.value for record in records_of(log)] == [f"{t}-{i}".encode() for t in range(4) for i in range(5)]
    assert log.log_end_offset == 24
    assert log.update_high_watermark(24) == log.last_stable_offset == 24
    aborted = [AbortedTxn(1, 6, 11, 12), AbortedTxn(1, 18, 23, 24)]
    assert log.active.txn_index.all() == aborted
    assert log.aborted_transactions(0, 24) == aborted
    assert log.aborted_transactions(12, 24) == aborted[1:]
    assert log.aborted_transactions(0, 6) == []
    directory.abandon()


def test_compacted_segments_and_what_was_about_to_be_deleted(folder: Path) -> None:
    directory = load(folder)
    log = directory.logs[TopicPartition("g-compact", 0)]
    last = {}
    for record in records_of(log):
        last[record.key] = record.value
    assert len(last) == 60
    assert sum(value is None for value in last.values()) == 5
    assert [segment.base_offset for segment in log.segments] == [0, 182, 360]
    assert not list(log.directory.glob("*.deleted"))
    directory.abandon()


@pytest.mark.parametrize("name", PARTITIONS)
def test_indexes_are_what_a_scan_finds(folder: Path, name: str) -> None:
    directory = load(folder)
    topic, _, partition = name.rpartition("-")
    log = directory.logs[TopicPartition(topic, int(partition))]
    for segment in log.segments:
        batches = list(verified(segment.file, segment.size))
        assert sum(located.header.size for located in batches) == segment.size
        ends = {OffsetPosition(located.header.last_offset, located.position) for located in batches}
        assert set(segment.offset_index.all()) <= ends
        for timestamp, offset in segment.time_index.all():
            before = [b.header.max_timestamp for b in batches if b.header.last_offset <= offset]
            assert max(before) == timestamp
        for located in batches:
            for offset in (located.header.base_offset, located.header.last_offset):
                assert segment.locate(offset) == located
    directory.abandon()


# Compaction indexes by what it wrote at a time, which the batches do not tell.
@pytest.mark.parametrize("name", [name for name in PARTITIONS if name != "g-compact-0"])
def test_indexes_built_anew_are_byte_for_byte_those_of_kafka(folder: Path, name: str) -> None:
    (folder / ".kafka_cleanshutdown").unlink()
    for path in (folder / name).glob("*index"):
        path.unlink()
    directory = load(folder)
    for log in directory.logs.values():
        log.close(now_ms=NOW_MS)
    for path in (GOLDEN / name).glob("*index"):
        assert (folder / name / path.name).read_bytes() == path.read_bytes(), path.name
    directory.abandon()


@pytest.mark.parametrize("path", sorted(GOLDEN.rglob("*.snapshot")), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_snapshots_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    assert encode_snapshot(decode_snapshot(data, path)) == data


@pytest.mark.parametrize("name", PARTITIONS)
def test_files_of_a_partition_byte_for_byte(tmp_path: Path, name: str) -> None:
    epochs, metadata = GOLDEN / name / "leader-epoch-checkpoint", GOLDEN / name / "partition.metadata"
    write_epochs(tmp_path / "epochs", read_epochs(epochs))
    assert (tmp_path / "epochs").read_bytes() == epochs.read_bytes()
    topic_id = read_topic_id(metadata)
    assert topic_id is not None
    assert encode_topic_id(topic_id) == metadata.read_bytes()


def test_files_of_the_directory_byte_for_byte(tmp_path: Path) -> None:
    for path in GOLDEN.glob("*-checkpoint"):
        write_offsets(tmp_path / path.name, read_offsets(path))
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    assert read_clean_shutdown(GOLDEN / ".kafka_cleanshutdown") == -1
    write_clean_shutdown(tmp_path / "clean", broker_epoch=-1)
    assert (tmp_path / "clean").read_bytes() == (GOLDEN / ".kafka_cleanshutdown").read_bytes()
    assert read_meta_properties(GOLDEN / "meta.properties") == (0, "FofCvBuQSjiPR6S7WyRpXA")


def test_a_clean_start_reads_no_segment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The checkpoint is that of one broker, the internal topics are another's.
    for name in PARTITIONS:
        if name.startswith("__"):
            shutil.rmtree(folder / name)
    monkeypatch.setattr(os, "pread", lambda *_: pytest.fail("something was read"))
    directory = load(folder)
    ends = {str(tp): log.log_end_offset for tp, log in directory.logs.items()}
    assert ends["g-none-0"] == 200
    assert ends["g-compact-0"] == 480
    directory.abandon()


def test_recovery_changes_no_byte_of_the_segments(folder: Path) -> None:
    (folder / ".kafka_cleanshutdown").unlink()
    (folder / "recovery-point-offset-checkpoint").unlink()
    directory = load(folder)
    assert not directory.corrupt
    assert len(directory.logs) == len(PARTITIONS)
    directory.close(now_ms=NOW_MS)
    for path in GOLDEN.rglob("*.log"):
        assert (folder / path.relative_to(GOLDEN)).read_bytes() == path.read_bytes()
