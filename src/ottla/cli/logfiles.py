"""What ``ottla log dump`` prints: one row for each thing that a partition's files hold, in the order of the log."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from pathlib import Path

from ottla.base.errors import CorruptionError
from ottla.cli.client.connection import Failure
from ottla.cli.client.jsonrecord import json_bytes
from ottla.cli.client.output import Stream
from ottla.cli.client.times import format_instant
from ottla.log.inspect import (
    Damage,
    StoredBatch,
    read_bytes,
    read_offset_index,
    read_partition,
    read_records,
    read_segment,
    read_snapshot,
    read_time_index,
)
from ottla.log.producers import SNAPSHOT_SUFFIX
from ottla.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ottla.log.txnindex import TransactionIndex
from ottla.records import Record, TimestampType
from ottla.records.control import read_marker
from ottla.records.errors import RecordsError


class Dump:
    """Prints partitions and files to ``stream``."""

    def __init__(self, stream: Stream, *, records: bool, indexes: bool, offsets: tuple[int, int | None]) -> None:
        self._stream = stream
        self._records = records
        self._indexes = indexes
        self._first, self._end = offsets

    def partition(self, directory: Path) -> None:
        files = read_partition(directory)
        topic_id = urlsafe_b64encode(files.topic_id.bytes).decode().rstrip("=") if files.topic_id else None
        row = {
            "path": str(directory),
            "topic": files.topic_partition.topic if files.topic_partition else None,
            "partition": files.topic_partition.partition if files.topic_partition else None,
            "topic_id": topic_id,
            "log_start_offset": files.log_start_offset,
            "high_watermark": files.high_watermark,
            "recovery_point": files.recovery_point,
            "stopped_cleanly": files.was_stopped_cleanly,
        }
        self._stream.row("partition", 0, row)
        for path, reason in files.unreadable:
            self._damage(path, "the whole file", reason, indent=1)
        for epoch, start_offset in files.epochs:
            self._stream.row("epoch", 1, {"epoch": epoch, "start_offset": start_offset})
        for path in files.segments:
            self.file(path, indent=1)
            if self._indexes:
                for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
                    if path.with_suffix(suffix).exists():
                        self.file(path.with_suffix(suffix), indent=1)
        for path in files.snapshots if self._indexes else ():
            self.file(path, indent=1)

    def file(self, path: Path, *, indent: int) -> None:
        """One file, by its suffix."""
        kinds = {
            LOG_SUFFIX: ("segment", self._segment),
            INDEX_SUFFIX: ("index", self._offset_index),
            TIME_INDEX_SUFFIX: ("time_index", self._time_index),
            TXN_INDEX_SUFFIX: ("txn_index", self._txn_index),
            SNAPSHOT_SUFFIX: ("snapshot", self._snapshot),
        }
        if path.suffix not in kinds or not path.stem.isdecimal():
            raise Failure(
                f"{path}: no segment, index or snapshot; these are called 00000000000000000000{LOG_SUFFIX} and so on"
            )
        kind, dump = kinds[path.suffix]
        self._stream.row(kind, indent, {"file": path.name, "base_offset": int(path.stem), "bytes": path.stat().st_size})
        try:
            dump(path, indent + 1)
        except CorruptionError as error:
            self._damage(path, "the whole file", str(error), indent=indent + 1)

    def _segment(self, path: Path, indent: int) -> None:
        for found in read_segment(path):
            if isinstance(found, Damage):
                self._damage(path, f"byte {found.position}", found.reason, indent=indent)
            elif found.last_offset >= self._first and (self._end is None or found.base_offset < self._end):
                self._batch(path, found, indent)

    def _batch(self, path: Path, batch: StoredBatch, indent: int) -> None:
        header = batch.header
        row: dict[str, object] = {
            "position": batch.position,
            "base_offset": batch.base_offset,
            "last_offset": batch.last_offset,
            "record_count": header.record_count if header else None,
            "bytes": batch.size,
            "codec": batch.codec,
            "leader_epoch": header.partition_leader_epoch if header else None,
            "max_timestamp": batch.max_timestamp,
            "crc_valid": batch.crc_is_valid,
        }
        if header is not None and header.has_producer_id:
            row |= {
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "last_sequence": header.last_sequence,
            }
        if header is not None and header.is_transactional:
            row["transactional"] = True
        if header is not None and header.is_control:
            row |= {"control": True, "marker": self._marker(path, batch)}
        wide: dict[str, object] = {
            "magic": batch.magic,
            "crc": batch.crc,
            "base_timestamp": header.base_timestamp if header else None,
            "timestamp_type": _timestamp_type(header.timestamp_type) if header else None,
            "time": format_instant(batch.max_timestamp) if batch.max_timestamp >= 0 else None,
        }
        self._stream.row("batch", indent, row, wide=wide)
        if self._records:
            self._batch_records(path, batch, indent + 1)

    def _batch_records(self, path: Path, batch: StoredBatch, indent: int) -> None:
        try:
            for record in read_records(path, batch):
                if record.offset >= self._first and (self._end is None or record.offset < self._end):
                    self._record(record, indent)
        except (RecordsError, CorruptionError) as error:
            self._damage(path, f"byte {batch.position}", str(error), indent=indent)

    def _record(self, record: Record, indent: int) -> None:
        headers = [
            {"key": name.decode(errors="backslashreplace"), "value": json_bytes(value)}
            for name, value in record.headers
        ]
        row = {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": json_bytes(record.key),
            "value": json_bytes(record.value),
            "headers": headers,
        }
        self._stream.row("record", indent, row)

    def _marker(self, path: Path, batch: StoredBatch) -> str | None:
        try:
            marker = read_marker(read_bytes(path, batch))
        except (RecordsError, CorruptionError):
            return None
        return marker.control_type.name.lower() if marker else None

    def _offset_index(self, path: Path, indent: int) -> None:
        for entry in read_offset_index(path):
            self._stream.row("index_entry", indent, {"offset": entry.offset, "position": entry.position})

    def _time_index(self, path: Path, indent: int) -> None:
        for entry in read_time_index(path):
            self._stream.row("time_index_entry", indent, {"timestamp": entry.timestamp, "offset": entry.offset})

    def _txn_index(self, path: Path, indent: int) -> None:
        for entry in TransactionIndex(path).all():
            self._stream.row("aborted_txn", indent, entry._asdict())

    def _snapshot(self, path: Path, indent: int) -> None:
        for entry in read_snapshot(path):
            last = entry.batches[-1] if entry.batches else None
            row = {
                "producer_id": entry.producer_id,
                "producer_epoch": entry.producer_epoch,
                "coordinator_epoch": entry.coordinator_epoch,
                "last_timestamp": entry.last_timestamp,
                "last_sequence": entry.last_sequence,
                "last_offset": last.last_offset if last else None,
                "offset_delta": last.offset_delta if last else None,
                "current_txn_first_offset": entry.current_txn_first_offset,
            }
            self._stream.row("producer", indent, row)

    def _damage(self, path: Path, where: str, reason: str, *, indent: int) -> None:
        self._stream.row("damage", indent, {"file": path.name, "where": where, "reason": reason})


def _timestamp_type(kind: TimestampType) -> str:
    return "LogAppendTime" if kind is TimestampType.LOG_APPEND_TIME else "CreateTime"
