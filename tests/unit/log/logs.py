"""Logs for tests: small segments, and a list of records to compare them with."""

from __future__ import annotations

from pathlib import Path

from ottla.log import Health, Loading, Log, LogConfig, Recovery, TopicPartition, load_log
from ottla.records import (
    Codec,
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
    frames,
    read_batch,
)
from ottla.records.batch import read_header

NOW_MS = 1_700_000_000_000
TP = TopicPartition("t", 0)
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200, segment_index_bytes=1 << 10, file_delete_delay_ms=0)


def open_log(
    folder: Path,
    config: LogConfig = SMALL,
    *,
    recovery_point: int = 0,
    clean: bool = False,
    log_start_offset: int = 0,
    now_ms: int = NOW_MS,
) -> tuple[Log, Recovery]:
    folder.mkdir(exist_ok=True)
    loading = Loading(
        folder,
        TP,
        config,
        Health(folder),
        recovery_point=recovery_point,
        clean=clean,
        log_start_offset=log_start_offset,
    )
    return load_log(loading, now_ms=now_ms, write_checkpoints=lambda: None)


def batch(*values: bytes, timestamp: int = NOW_MS, codec: Codec = Codec.NONE) -> bytes:
    return build_batch([Record(b"k", value, timestamp) for value in values], codec=codec)


def numbered_batch(number: int, count: int = 3) -> bytes:
    return batch(*(b"%d.%d " % (number, i) * 8 for i in range(count)), timestamp=NOW_MS + number)


def idempotent(
    producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1, transactional: bool = False
) -> bytes:
    return build_batch(
        [Record(b"k", b"%d" % (sequence + i), NOW_MS) for i in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker(producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> bytes:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    return build_marker(
        EndTransactionMarker(kind, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp=NOW_MS,
    )


def contents(log: Log, offset: int | None = None) -> list[Record]:
    """Every record from ``offset`` on, as fetches find them."""
    found: list[Record] = []
    at = log.log_start_offset if offset is None else offset
    first = at
    while at < log.log_end_offset:
        fetched = log.read(at, 700)
        if fetched.range is None:
            assert fetched.upper_bound > at, "a fetch that gets nowhere"
            at = fetched.upper_bound
            continue
        data = fetched.range.read()
        for frame in frames(data):
            records = list(read_batch(data, frame.position))
            found += [record for record in records if record.offset >= first]
            at = read_header(data, frame.position).next_offset  # a cleaned batch may end in offsets that are gone
            assert at <= fetched.upper_bound
    return found


def check_indexes(log: Log) -> None:
    """Whatever an index says is what a scan finds."""
    for segment in log.segments:
        batches = list(segment.batches())
        ends = {(located.header.last_offset, located.position) for located in batches}
        assert {tuple(entry) for entry in segment.offset_index.all()} <= ends
        for located in batches:
            for offset in range(located.header.base_offset, located.header.next_offset):
                assert segment.locate(offset) == located
        largest = -1
        for timestamp, offset in segment.time_index.all():
            until = [b.header.max_timestamp for b in batches if b.header.last_offset <= offset]
            assert timestamp == max(until) > largest
            largest = timestamp
        if batches:
            assert segment.largest.timestamp == max(b.header.max_timestamp for b in batches)
