"""Files that we write, read by Apache Kafka 3.9.1's own DumpLogSegments."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.log import Log, LogConfig
from ottla.records import AppendOrigin, Codec, Record, build_batch
from tests.peers.kafka import JAVA
from tests.unit.log.logs import NOW_MS, idempotent, marker, open_log

CONFIG = LogConfig(segment_bytes=60_000, index_interval_bytes=500)
TROUBLE = re.compile(r"Mismatches in|out of order|ound timestamp mismatch|corrupt|Exception|does not", re.IGNORECASE)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Segments of every codec, with idempotent producers, transactions, headers, tombstones, and times out of order."""
    log, _ = open_log(tmp_path_factory.mktemp("written") / "t-0", CONFIG)
    for number in range(300):
        codec = list(Codec)[number % 5]
        made = [
            Record(b"key-%d" % i if i % 3 else None, b"value-%d-%d" % (number, i) if i % 4 else None, time(number) + i)
            for i in range(8)
        ]
        data = build_batch([made[0]._replace(headers=((b"h", b"x"), (b"n", None))), *made[1:]], codec=codec)
        log.append_as_leader(data, leader_epoch=number // 100, now_ms=NOW_MS)
        if number % 10 == 0:
            transactional = idempotent(1, number // 10, transactional=True)
            log.append_as_leader(transactional, leader_epoch=number // 100, now_ms=NOW_MS)
            log.append_as_leader(
                marker(1, commit=number % 20 == 0),
                leader_epoch=number // 100,
                now_ms=NOW_MS,
                origin=AppendOrigin.COORDINATOR,
            )
            log.append_as_leader(idempotent(2, number // 10), leader_epoch=number // 100, now_ms=NOW_MS)
    log.close(now_ms=NOW_MS)
    assert len(log.segments) > 1
    return log


def time(number: int) -> int:
    return NOW_MS + number * 10 - (500 if number % 7 == 0 else 0)


def dump(kafka_libs: Path, files: list[Path], *options: str) -> str:
    command = [*JAVA, "-cp", f"{kafka_libs}/*", "kafka.tools.DumpLogSegments", *options]
    done = subprocess.run(
        [*command, "--files", ",".join(map(str, files))], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert not TROUBLE.search(done.stdout), done.stdout[-3000:]
    return done.stdout


def found(folder: Path, pattern: str) -> list[Path]:
    paths = sorted(folder.glob(pattern))
    assert paths
    return paths


def test_segments(log: Log, kafka_libs: Path) -> None:
    text = dump(kafka_libs, found(log.directory, "*.log"), "--deep-iteration", "--print-data-log")
    offsets = [int(number) for number in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert offsets == list(range(log.log_end_offset))
    assert text.count("isvalid: true") == len(re.findall(r"^baseOffset", text, re.MULTILINE)) == 300 + 90
    assert text.count("endTxnMarker: ABORT") == text.count("endTxnMarker: COMMIT") == 15
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in text
    assert "payload: value-299-7" in text
    assert "headerKeys: [h,n]" in text


def test_indexes(log: Log, kafka_libs: Path) -> None:
    text = dump(kafka_libs, found(log.directory, "*index"))
    assert text.count("offset: ") > 50
    assert text.count("timestamp: ") > 50
    text = dump(kafka_libs, found(log.directory, "*.index"), "--index-sanity-check")
    assert text.count("passed sanity check") == len(log.segments)
    dump(kafka_libs, found(log.directory, "*index"), "--verify-index-only")


def test_snapshots(log: Log, kafka_libs: Path) -> None:
    text = dump(kafka_libs, found(log.directory, "*.snapshot"))
    assert len(re.findall(r"producerId: 1 ", text)) == len(list(log.directory.glob("*.snapshot")))
    assert re.search(r"producerId: 2 producerEpoch: 0 .*lastSequence: 29", text)


def test_indexes_built_by_recovery(log: Log, kafka_libs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    for path in log.directory.glob("*.log"):
        (folder / path.name).write_bytes(path.read_bytes())
    again, _ = open_log(folder, replace(CONFIG, index_interval_bytes=900))
    again.close(now_ms=NOW_MS)
    text = dump(kafka_libs, found(folder, "*index"))
    assert text.count("offset: ") > 30
    aborted = [segment.txn_index.all() for segment in log.segments]
    assert [segment.txn_index.all() for segment in again.segments] == aborted
