"""What stays of a batch: all of it, some of its records, its header alone, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.base.errors import CorruptionError
from ottla.log.cleaner.sift import OffsetMap, Sifted, shifted, sift
from ottla.log.cleaner.transactions import CleanedTransactions
from ottla.log.txnindex import AbortedTxn
from ottla.records import BatchHeader, Codec
from ottla.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    stamped,
)
from ottla.records.codecs import codec_of, pack, unpack
from ottla.records.control import read_marker
from ottla.records.legacy import header_at, read_any, rebuild
from ottla.records.record import Record
from ottla.records.walk import FAULTS, OK

_EMPTIED = ~(CODEC_MASK | DELETE_HORIZON_FLAG)

LastRecords = Mapping[int, tuple[int, int]]
"""For each producer its epoch, and the last offset of its last batch of records (-1: it has only ended a transaction)."""


class Kept:
    """A batch as it goes into the new segment."""

    __slots__ = ("data", "header")

    def __init__(self, header: BatchHeader, data: bytes | memoryview) -> None:
        self.header = header
        self.data = data


class Keeper:
    """The rules of one round of cleaning. Batches come in the order of the log."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_records: LastRecords,
        *,
        now_ms: int,
        delete_retention_ms: int,
        unpacked_bytes_max: int,
        note_aborted: Callable[[AbortedTxn], object],
    ) -> None:
        self.keeps_old_tombstones = True
        """Whether marks of deleted keys stay in messages of magic 0 and 1, which have no room for a delete horizon."""
        self._offsets = offsets
        self._transactions = transactions
        self._last_records = last_records
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._unpacked_bytes_max = unpacked_bytes_max
        self._note_aborted = note_aborted

    def batch(self, data: bytes, at: int, header: BatchHeader) -> Kept | None:
        """What stays of the batch at ``at``."""
        if header.magic < MAGIC:
            return self._messages(data, at, header)
        if header.is_control:
            return self._control(data, at, header)
        if self._transactions.is_aborted(header):
            return self._emptied(header)
        if header.record_count == 0:
            return self._emptied(header)
        return self._records(data, at, header)

    # ------------------------------------------------------------------ marks

    def _control(self, data: bytes, at: int, header: BatchHeader) -> Kept | None:
        may_drop = self._transactions.may_drop(header, read_marker(data, at), self._note_aborted)
        horizon = _delete_horizon(header)
        if may_drop and horizon is not None and horizon <= self._now_ms:
            return self._emptied(header)
        if header.record_count == 0:
            return self._emptied(header)
        if may_drop and horizon is None:
            body = data[at + HEADER_BYTES : at + header.size]
            return self._rewritten(header, body, 1, 0, 0, self._now_ms + self._delete_retention_ms)
        return Kept(header, memoryview(data)[at : at + header.size])

    def _emptied(self, header: BatchHeader) -> Kept | None:
        """No record is left; the header stays if its producer is known by it."""
        if not self._is_last_of_producer(header):
            return None
        attributes = header.attributes & _EMPTIED
        empty = header.replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
        empty = stamped(empty, b"")
        return Kept(empty, empty.pack())

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        epoch, last_data_offset = last
        if last_data_offset >= 0:
            return header.last_offset == last_data_offset
        # Nothing but a mark says which epoch its producer is in.
        return header.is_control and header.producer_epoch == epoch

    # ------------------------------------------------------------------ records

    def _records(self, data: bytes, at: int, header: BatchHeader) -> Kept | None:
        codec_id = header.codec_id
        plain, start, end = data, at + HEADER_BYTES, at + header.size
        if codec_id:
            packed = memoryview(data)[start:end]
            plain = b"".join(unpack(codec_of(codec_id), packed, limit=self._unpacked_bytes_max))
            start, end = 0, len(plain)
        horizon = _delete_horizon(header)
        keep_tombstones = horizon is None or horizon > self._now_ms
        found = sift(self._offsets, plain, start, end, header.record_count, header.base_offset, keep_tombstones)
        if found.fault != OK:
            raise CorruptionError(f"a record of the batch at offset {header.base_offset}: {FAULTS[found.fault]}")
        if found.kept == 0:
            return self._emptied(header)
        sets_horizon = found.has_tombstones and horizon is None
        if found.kept == header.record_count and not sets_horizon:
            return Kept(header, memoryview(data)[at : at + header.size])
        if sets_horizon:
            horizon = self._now_ms + self._delete_retention_ms
        return self._rewritten(
            header, _joined(found), int(found.kept), int(found.first_delta), int(found.max_delta), horizon
        )

    def _rewritten(
        self, header: BatchHeader, plain: bytes, kept: int, first_delta: int, max_delta: int, horizon: int | None
    ) -> Kept:
        """The batch with other records, which are still counted from its own base offset and time."""
        base_timestamp = header.base_timestamp + first_delta if horizon is None else horizon
        if base_timestamp != header.base_timestamp:
            plain = shifted(plain, header.base_timestamp - base_timestamp)
        append_time = header.attributes & LOG_APPEND_TIME_FLAG
        body = plain if header.codec_id == Codec.NONE else pack(codec_of(header.codec_id), plain)
        changed = BatchHeader(
            header.base_offset,
            HEADER_BYTES - LOG_OVERHEAD + len(body),
            header.partition_leader_epoch,
            MAGIC,
            0,
            header.attributes | (0 if horizon is None else DELETE_HORIZON_FLAG),
            header.last_offset_delta,
            base_timestamp,
            header.max_timestamp if append_time else header.base_timestamp + max_delta,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            kept,
        )
        changed = stamped(changed, body)
        return Kept(changed, changed.pack() + body)

    # ------------------------------------------------------------------ messages of old

    def _messages(self, data: bytes, at: int, header: BatchHeader) -> Kept | None:
        original = data[at : at + header.size]
        records = list(read_any(original, limit=self._unpacked_bytes_max))
        kept = [record for record in records if self._keeps_message(record)]
        if not kept:
            return None
        if len(kept) == len(records):
            return Kept(header, original)
        rebuilt = rebuild(original, kept)
        changed = header_at(rebuilt, 0)
        assert changed is not None
        return Kept(changed, rebuilt)

    def _keeps_message(self, record: Record) -> bool:
        if record.offset > self._offsets.latest_offset:
            return True
        if record.key is None or (record.value is None and not self.keeps_old_tombstones):
            return False
        return record.offset >= self._offsets.get(record.key)


def _delete_horizon(header: BatchHeader) -> int | None:
    """When the marks of deleted keys in a batch may go; None as long as no cleaner has met them."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_FLAG else None


def _joined(found: Sifted) -> bytes:
    runs = found.runs
    return runs[0] if len(runs) == 1 else b"".join(runs)
