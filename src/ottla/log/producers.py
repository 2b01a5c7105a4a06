"""What a partition remembers of its producers: so that retries are not appended twice and transactions have an end.

Theory of operation
-------------------
For each producer id the last five batches are kept: an idempotent producer has at most five requests in flight, so what it
sends again is among them and is answered with the offset it has already. A new batch has to continue the sequence (0
follows 2³¹ - 1), or to start at 0 under a new epoch. A producer that was forgotten may start anywhere.

``check`` raises and changes nothing; ``replay`` is the only mutator and never refuses: it runs for what is in the log, on
the leader behind the write, on followers, and when a log is loaded. The state at an offset is thus a function of the log
up to there, and a ``.snapshot`` of it saves reading the log from its start.

A transaction is *ongoing* from its first record to its marker, and *unreplicated* from there until the high watermark
passes the marker. Up to the first record of all of these the log is stable.

``<offset>.snapshot``, all big-endian::

    version i16 (1)
    crc u32                         CRC-32C of everything below
    count i32, and for each producer:
        producer_id i64, producer_epoch i16, last_sequence i32, last_offset i64, offset_delta i32, timestamp i64,
        coordinator_epoch i32, current_txn_first_offset i64 (-1: none)

Only the last batch of each producer is in it, as in Kafka's. Those before it are looked up in the log (``replay.recall``) once a
producer sends what does not follow the last one: it may be a retry that the start of a broker came between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, Self

from ottla.base.checksums import crc32c
from ottla.base.errors import CorruptionError
from ottla.log.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from ottla.records import BatchHeader, ControlType, EndTransactionMarker
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, SEQUENCES

BATCHES_KEPT: Final = 5
SNAPSHOT_SUFFIX: Final = ".snapshot"
_VERSION: Final = 1
_HEAD: Final = Struct(">hIi")
_ENTRY: Final = Struct(">qhiqiqiq")
_CHECKED_FROM: Final = 6
_NONE: Final = -1


class BatchMetadata(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @classmethod
    def of(cls, header: BatchHeader) -> Self:
        return cls(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % SEQUENCES

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = _NONE
    last_timestamp: int = _NONE
    current_txn_first_offset: int | None = None
    batches: tuple[BatchMetadata, ...] = ()
    """The last five, oldest first."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class CompletedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    is_aborted: bool


class ProducerState:
    """The producers of one log up to ``map_end_offset``."""

    def __init__(self, *, expiration_ms: int) -> None:
        self.map_end_offset = 0
        self.entries: dict[int, ProducerEntry] = {}
        self.expiration_ms = expiration_ms
        self._partly: set[int] = set()
        """Of whom a snapshot told, and nothing else yet."""
        # Both by first offset, in its order: transactions start in the order of the log.
        self._ongoing: dict[int, int] = {}
        self._unreplicated: dict[int, int] = {}

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction starts that is ongoing or whose end is not replicated."""
        first = [next(iter(txns)) for txns in (self._ongoing, self._unreplicated) if txns]
        return min(first, default=None)

    @property
    def first_undecided_offset(self) -> int | None:
        return next(iter(self._ongoing), None)

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The batch that was appended before, if ``header`` is that of a batch sent again."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        for batch in entry.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None

    def forgot(self, header: BatchHeader) -> ProducerEntry | None:
        """Whose batches before those here are to be looked up, as ``header`` may be that of one; None if it cannot be."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch or entry.producer_id not in self._partly:
            return None
        is_whole = len(entry.batches) == BATCHES_KEPT or not entry.batches
        follows = header.base_sequence == (entry.last_sequence + 1) % SEQUENCES
        return None if is_whole or follows else entry

    def recall(self, entry: ProducerEntry, earlier: Sequence[BatchMetadata]) -> None:
        """``earlier``: what its log has before the batches here, oldest first. Only what they follow counts: it may be of another life."""
        batches = list(entry.batches)
        for batch in reversed(earlier):
            if (batch.last_sequence + 1) % SEQUENCES != batches[0].base_sequence:
                break
            batches.insert(0, batch)
        self.entries[entry.producer_id] = entry._replace(batches=tuple(batches[-BATCHES_KEPT:]))
        self._partly.discard(entry.producer_id)

    def check(self, header: BatchHeader, marker: EndTransactionMarker | None, *, from_client: bool) -> None:
        """Refuse a batch that its producer must not append."""
        entry = self.entries.get(header.producer_id) or ProducerEntry(header.producer_id)
        who = f"producer {header.producer_id}"
        if header.producer_epoch < entry.producer_epoch:
            raise InvalidProducerEpochError(f"{who} has epoch {entry.producer_epoch}, not {header.producer_epoch}")
        if marker is not None:
            if marker.coordinator_epoch < entry.coordinator_epoch:
                raise TransactionCoordinatorFencedError(
                    f"{who}: coordinator epoch {marker.coordinator_epoch} is behind {entry.coordinator_epoch}"
                )
            return
        if header.is_control:
            return
        if from_client:
            _check_sequence(header, entry)
        if entry.current_txn_first_offset is not None and not header.is_transactional:
            raise InvalidTxnStateError(f"{who} writes outside of its transaction, which is still ongoing")

    def replay(self, header: BatchHeader, marker: EndTransactionMarker | None) -> CompletedTxn | None:
        """A batch is in the log; the transaction it ends, if it ends one."""
        self.map_end_offset = header.next_offset
        if not header.has_producer_id:
            return None
        entry = self.entries.get(header.producer_id) or ProducerEntry(header.producer_id)
        if marker is not None:
            return self._replay_marker(header, marker, entry)
        if not header.is_control:
            self._replay_data(header, entry)
        return None

    def last_stable_offset_behind(self, completed: CompletedTxn) -> int:
        """How far the log is decided once ``completed`` is, seen before ``complete``."""
        others = (first for first, producer in self._ongoing.items() if producer != completed.producer_id)
        return next(others, completed.last_offset + 1)

    def complete(self, completed: CompletedTxn) -> None:
        self._ongoing.pop(completed.first_offset, None)
        self._unreplicated[completed.first_offset] = completed.last_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Transactions whose end is replicated do not hold back the last stable offset any more."""
        if not self._unreplicated:
            return  # as it is after nearly every append
        done = [first for first, last in self._unreplicated.items() if last < high_watermark]
        for first in done:
            del self._unreplicated[first]

    def on_log_start_offset(self, log_start_offset: int) -> None:
        gone = [first for first, last in self._unreplicated.items() if last < log_start_offset]
        for first in gone:
            del self._unreplicated[first]

    def expire(self, now_ms: int) -> list[int]:
        """Forget the producers that were silent for too long; which ones that were."""
        expired = [entry.producer_id for entry in self.entries.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.entries[producer_id]
        return expired

    def reset(self, entries: Iterable[ProducerEntry], map_end_offset: int, *, now_ms: int) -> None:
        """Start over from what a snapshot holds."""
        self.map_end_offset = map_end_offset
        entries = list(entries)
        self.entries = {e.producer_id: e for e in entries if not self._is_expired(e, now_ms)}
        ongoing = (e for e in self.entries.values() if e.current_txn_first_offset is not None)
        self._ongoing = dict(sorted((e.current_txn_first_offset or 0, e.producer_id) for e in ongoing))
        self._unreplicated = {}
        self._partly = {e.producer_id for e in entries}

    def _replay_data(self, header: BatchHeader, entry: ProducerEntry) -> None:
        batch = BatchMetadata.of(header)
        first_offset = entry.current_txn_first_offset
        if first_offset is None and header.is_transactional:
            first_offset = header.base_offset
            self._ongoing[first_offset] = header.producer_id
        kept = entry.batches[1 - BATCHES_KEPT :] if header.producer_epoch == entry.producer_epoch else ()
        self.entries[header.producer_id] = ProducerEntry(
            header.producer_id,
            header.producer_epoch,
            entry.coordinator_epoch,
            header.max_timestamp,
            first_offset,
            (*kept, batch),
        )

    def _replay_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, entry: ProducerEntry
    ) -> CompletedTxn | None:
        same_epoch = header.producer_epoch == entry.producer_epoch
        self.entries[header.producer_id] = ProducerEntry(
            header.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            header.max_timestamp,
            None,
            entry.batches if same_epoch else (),
        )
        first_offset = entry.current_txn_first_offset
        if first_offset is None:
            return None  # the coordinator sends markers again, and to partitions that nothing was written to
        aborted = marker.control_type is ControlType.ABORT
        return CompletedTxn(header.producer_id, first_offset, header.last_offset, aborted)

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset is None and now_ms - entry.last_timestamp >= self.expiration_ms


def _check_sequence(header: BatchHeader, entry: ProducerEntry) -> None:
    if entry.producer_epoch == NO_PRODUCER_EPOCH:
        return
    if header.producer_epoch != entry.producer_epoch or not entry.batches:
        # A marker may have brought the epoch before any record under it: that, too, starts at 0.
        expected = 0
    else:
        expected = (entry.last_sequence + 1) % SEQUENCES
    if header.base_sequence != expected:
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id}, epoch {header.producer_epoch}: sequence {header.base_sequence} came where "
            f"{expected} was to follow"
        )


def snapshot_path(directory: Path, offset: int) -> Path:
    return directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    packed = []
    for entry in entries:
        batch = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, _NONE, 0, _NONE)
        first_offset = entry.current_txn_first_offset
        packed.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                _NONE if first_offset is None else first_offset,
            )
        )
    body = b"".join((_HEAD.pack(_VERSION, 0, len(packed))[_CHECKED_FROM:], *packed))
    return _HEAD.pack(_VERSION, crc32c(body), len(packed))[:_CHECKED_FROM] + body


def decode_snapshot(data: bytes, source: Path) -> list[ProducerEntry]:
    if len(data) < _HEAD.size:
        raise CorruptionError(f"{source}: {len(data)} bytes are no snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptionError(f"{source}: version {version} is not known")
    if crc32c(data[_CHECKED_FROM:]) != crc or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptionError(f"{source} fails its checksum")
    return [_decode_entry(*fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]


def _decode_entry(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    first_offset: int,
) -> ProducerEntry:
    batch = BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)
    return ProducerEntry(
        producer_id,
        producer_epoch,
        coordinator_epoch,
        timestamp,
        None if first_offset == _NONE else first_offset,
        (batch,) if last_offset >= 0 else (),
    )
