"""A log: the records of one partition replica on disk, appended at one end and deleted at the other.

Theory of operation
-------------------
A log is a row of segments that lie one behind the other; the first offset of each is in memory, so an offset is found by
bisection, the index of one segment, and a scan over a few headers.

    log_start_offset ≤ last_stable_offset ≤ high_watermark ≤ log_end_offset
    recovery_point ≤ log_end_offset: everything before it is on disk, whatever happens

*Append.* The leader validates a batch and gives it its offsets; a follower takes batches as the leader has them. Either
way it is one write for a call. The order of the acts is: refuse what is to be refused, roll, note a new leader epoch, write,
and only then believe: producer state, transactions, ``log_end_offset``. If the write fails, the segment is cut back, nothing
was believed, and the directory is offline. A leader that has several batches to append at once (``later``) believes them before
it writes them in one call; nobody may look before ``finish_append``, and if that fails, what was believed goes with the directory.

*Read.* Fetches find batches by their headers and serve the bytes behind them unopened: what this process has written itself is
not looked at again, and what was in a file when it was opened is checked when it is read first (``found``). Damage is
``CorruptionError``: what lies there is neither served nor passed over, and nothing is appended behind an end that is not where it
was. Consumers and followers (``append_as_follower``) compute checksums themselves. Old formats are in ``records.legacy``.

*Flush.* Appends go into the page cache, and so does everything that a roll writes. With ``flush.messages`` an append that
makes them full is on disk before it returns. ``flush_due`` says when ``flush.ms`` asks for it, or a sealed segment is not
on disk yet; ``begin_flush`` takes down what to sync, ``Flush.sync`` may run in another thread while appends go on, and
``finish_flush`` moves the recovery point. However many appends came in between, it is one sync.

*Truncate.* The recovery point is lowered on disk first: behind it, damage is the work of a crash and is cut off; before
it, damage is corruption and is never cut silently (``loader``). Then segments go, newest first, so a crash in between leaves
a longer prefix of the same log.

*Delete.* Files get the suffix ``.deleted`` at once and are removed ``file.delete.delay.ms`` later, when no fetch reads them.

All methods but ``Flush.sync`` belong to one thread. Time is an argument.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.log.batches import Located, Replicated
from ottla.log.checkpoints import TopicPartition
from ottla.log.config import LogConfig
from ottla.log.epochs import EpochEndOffset, LeaderEpochCache
from ottla.log.errors import OffsetOutOfRangeError, RecordListTooLargeError
from ottla.log.files import Health, OpenFile, fsync_directory, write_whole
from ottla.log.outcomes import AppendInfo, Fetched, Flush, FoundOffset
from ottla.log.producers import BatchMetadata, ProducerState, encode_snapshot, snapshot_path
from ottla.log.replacing import Replacing
from ottla.log.replay import load_producers, note_completed, recall, remove_stray_snapshots
from ottla.log.retention import Doomed, count_done
from ottla.log.segment import Segment
from ottla.log.segments import LogSegments
from ottla.log.swap import Swap, remove_cleaned
from ottla.log.times import first_at
from ottla.log.txnindex import AbortedTxn
from ottla.records import AppendOrigin, BatchHeader, EndTransactionMarker, Rules, validate
from ottla.records.batch import LOG_APPEND_TIME_FLAG, NO_TIMESTAMP
from ottla.records.control import read_marker
from ottla.records.validate import Vetted

logger = logging.getLogger(__name__)

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"


class Log:
    """One partition's log, opened by ``loader``."""

    def __init__(
        self,
        directory: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        segments: list[Segment],
        *,
        epochs: LeaderEpochCache,
        producers: ProducerState,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        health: Health,
        write_checkpoints: Callable[[], None],
        snapshot_offset: int,
        now_ms: int,
        cleaned_to: int | None = None,
        random: Random | None = None,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = min(recovery_point, log_end_offset)
        self.cleaned_to = cleaned_to
        """Before it, no key occurs twice; None if no cleaner was here."""
        self.generation = 0
        """Counts how often something was cut off: what was read before that is not what is there now."""
        self._segments = LogSegments(segments, health)
        self._health = health
        self._write_checkpoints = write_checkpoints
        self._random = random or Random()
        self._last_flush_ms = now_ms
        self._doomed = Doomed()
        self._replacing = Replacing(self._segments, self._doomed)
        self._snapshot_offset = snapshot_offset
        self._told: set[str] = set()
        self.on_damage: Callable[[CorruptionError], object] | None = None
        """Hears of what is found to be damaged, once; it is at work here meanwhile, so nothing may be changed then."""
        # Since the log was opened, for the metrics.
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replicated_bytes_in = 0
        self.replicated_bytes_out = 0
        self.configure(config)

    # ------------------------------------------------------------------ what there is

    @property
    def config(self) -> LogConfig:
        return self._config

    def configure(self, config: LogConfig) -> None:
        """Take on a new configuration; segments that exist keep their index size."""
        self._config = config
        self._rules = config.rules()
        self.producers.expiration_ms = config.producer_id_expiration_ms
        for segment in self._segments.row:
            segment.configure(config)
        self._draw_jitter()

    @property
    def rules(self) -> Rules:
        return self._rules

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments.row)

    @property
    def starts_within_segment(self) -> bool:
        return self.log_start_offset > self._segments.bases[0]

    @property
    def active(self) -> Segment:
        return self._segments.row[-1]

    @property
    def size(self) -> int:
        return self._segments.size

    @property
    def last_stable_offset(self) -> int:
        """Up to here every transaction is decided, and the decision replicated."""
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    # ------------------------------------------------------------------ append

    def append_as_leader(
        self,
        data: bytes | Vetted,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        later: bool = False,
    ) -> AppendInfo:
        """Validate one batch, unless ``vet`` has done so, and append it with the next offsets.

        Raises what ``validate`` and the producer state refuse it with; then nothing has changed. ``later``: others follow
        at once, and ``finish_append`` behind the last writes all of them.
        """
        self._health.check()
        validated = validate(
            data,
            self._rules,
            base_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
            origin=origin,
        )
        header, marker = validated.header, None
        if header.producer_id >= 0:
            marker = read_marker(b"".join(validated.parts)) if header.is_control else None
            if origin is AppendOrigin.CLIENT:
                duplicate = self.producers.find_duplicate(header) or self._recalled(header)
                if duplicate is not None:
                    return AppendInfo(
                        duplicate.base_offset, duplicate.last_offset, duplicate.timestamp, self.log_start_offset, True
                    )
            self.producers.check(header, marker, from_client=origin is AppendOrigin.CLIENT)
        self._append(validated.parts, [header], [marker], header.size, now_ms=now_ms, later=later)
        self.bytes_in += header.size
        self.records_in += header.record_count
        append_time = now_ms if header.attributes & LOG_APPEND_TIME_FLAG else NO_TIMESTAMP
        return AppendInfo(header.base_offset, header.last_offset, append_time, self.log_start_offset)

    def _recalled(self, header: BatchHeader) -> BatchMetadata | None:
        """A retry of what this broker does not remember by itself, as it has started since."""
        entry = self.producers.forgot(header)
        if entry is None:
            return None
        with self._health.guard(f"looking up what producer {entry.producer_id} wrote to {self.topic_partition}"):
            self.active.write()
            recall(self.producers, self._segments.row, entry)
        return self.producers.find_duplicate(header)

    def finish_append(self, *, now_ms: int) -> None:
        """Write the batches that were appended to be written later. Raises StorageError: then none of them counts."""
        self._health.check()
        try:
            self._segments.row[-1].write()
        except OSError as error:
            raise self._health.failed(f"append to {self.topic_partition}", error) from error
        self._flush_if_full(now_ms=now_ms)

    def append_as_follower(self, data: bytes, *, now_ms: int) -> AppendInfo | None:
        """Append batches as the leader has them; None if there is no whole one."""
        self._health.check()
        found = Replicated(data, self.log_end_offset)
        if not found.headers:
            return None
        self._append((memoryview(data)[: found.size],), found.headers, found.markers, found.size, now_ms=now_ms)
        self.replicated_bytes_in += found.size
        first, last = found.headers[0].base_offset, found.headers[-1].last_offset
        return AppendInfo(first, last, NO_TIMESTAMP, self.log_start_offset)

    def _append(
        self,
        parts: Sequence[bytes | memoryview],
        headers: list[BatchHeader],
        markers: list[EndTransactionMarker | None],
        size: int,
        *,
        now_ms: int,
        later: bool = False,
    ) -> None:
        if size > self._config.segment_bytes:
            raise RecordListTooLargeError(f"{size} bytes do not fit into a segment of {self._config.segment_bytes}")
        first, last = headers[0], headers[-1]
        max_timestamp = first.max_timestamp
        for header in headers:
            max_timestamp = max(max_timestamp, header.max_timestamp)
        try:
            if not self._segments.tail_is_known:
                self._segments.check_tail(self.log_end_offset)
            active = self._segments.row[-1]
            if active.should_roll(
                size,
                max_timestamp=max_timestamp,
                last_offset=last.last_offset,
                now_ms=now_ms,
                jitter_ms=self._jitter_ms,
            ):
                active = self._roll(first.base_offset, now_ms=now_ms)
            for header in headers:
                if header.partition_leader_epoch > self.epochs.latest:
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            if self.epochs.is_ahead:
                self.epochs.write()
            active.append(parts, headers)
            if not later or active.size == size:  # the first of a file is looked up in it
                active.write()
            for at, header in enumerate(headers):  # every batch comes by here: no iterator over pairs is made for it
                self._believe(header, markers[at])
        except CorruptionError as error:
            self._tell_of(error)
            raise
        except OSError as error:
            raise self._health.failed(f"append to {self.topic_partition}", error) from error
        self.log_end_offset = last.next_offset
        if not later:
            self._flush_if_full(now_ms=now_ms)

    def _flush_if_full(self, *, now_ms: int) -> None:
        """Before anybody is told that it is there."""
        if self.log_end_offset - self.recovery_point >= self._config.flush_messages:
            self.flush(now_ms=now_ms)

    def _believe(self, header: BatchHeader, marker: EndTransactionMarker | None) -> None:
        completed = self.producers.replay(header, marker)
        if completed is not None:
            note_completed(self.active, self.producers, completed)

    def _tell_of(self, damage: CorruptionError) -> None:
        """Once, however often it is asked for."""
        told = str(damage)
        if told not in self._told:
            self._told.add(told)
            logger.error("%s: %s", self.topic_partition, told)
            if self.on_damage is not None:
                self.on_damage(damage)

    # ------------------------------------------------------------------ read

    def read(self, offset: int, max_bytes: int, *, upper: int | None = None, min_one: bool = True) -> Fetched:
        """Where the batches from ``offset`` on lie, up to ``max_bytes`` and to the offset ``upper``.

        With ``min_one``, the first batch is whole however large it is. What is found ends with its segment.
        """
        self._health.check()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {offset}, the log is [{self.log_start_offset}, {self.log_end_offset})"
            )
        upper = self.log_end_offset if upper is None else min(upper, self.log_end_offset)
        if offset >= upper:
            return Fetched(None, offset)
        try:
            return self._segments.read(
                offset, max_bytes, upper=upper, log_end_offset=self.log_end_offset, min_one=min_one
            )
        except CorruptionError as error:
            self._tell_of(error)
            raise
        except OSError as error:
            raise self._health.failed(f"read of {self.topic_partition}", error) from error

    def aborted_transactions(self, start: int, upper_bound: int) -> list[AbortedTxn]:
        """The aborted transactions that reach into ``[start, upper_bound)``, for read_committed fetches."""
        with self._health.guard(f"read of {self.topic_partition}"):
            return self._segments.aborted_transactions(start, upper_bound)

    def offset_for_timestamp(self, timestamp: int) -> FoundOffset | None:
        """The first record that is not older than ``timestamp``."""
        with self._health.guard(f"read of {self.topic_partition}"):
            return first_at(self._segments.row, timestamp, self.log_start_offset)

    def offset_of_max_timestamp(self) -> FoundOffset | None:
        """The first record with the latest timestamp of all (KIP-734)."""
        with self._health.guard(f"read of {self.topic_partition}"):
            latest = max((segment.largest.timestamp for segment in self._segments.row), default=NO_TIMESTAMP)
        return None if latest == NO_TIMESTAMP else self.offset_for_timestamp(latest)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def batches(self, offset: int) -> Iterator[Located]:
        """The headers of all batches that reach ``offset`` or lie behind it."""
        return self._segments.batches(offset)

    # ------------------------------------------------------------------ offsets that move

    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark, within the log; where it is now."""
        self.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.producers.on_high_watermark(self.high_watermark)
        return self.high_watermark

    def increment_log_start_offset(self, offset: int) -> bool:
        """Give up the records before ``offset``; their segments go with the next retention."""
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {offset} is behind the high watermark {self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        with self._health.guard(f"new start of {self.topic_partition}"):
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
            self.producers.on_log_start_offset(offset)
        return True

    def assign_epoch(self, leader_epoch: int) -> None:
        """A new leader's epoch starts at the end of the log, even before it appends anything."""
        if leader_epoch > self.epochs.latest:
            with self._health.guard(f"new leader epoch of {self.topic_partition}"):
                self.epochs.assign(leader_epoch, self.log_end_offset, written=False)

    # ------------------------------------------------------------------ roll, flush

    def roll(self, *, now_ms: int) -> Segment:
        with self._health.guard(f"roll of {self.topic_partition}"):
            return self._roll(self.log_end_offset, now_ms=now_ms)

    def _roll(self, expected_offset: int, *, now_ms: int) -> Segment:
        base_offset = max(expected_offset, self.log_end_offset)
        if self.active.size == 0 and self.active.base_offset == base_offset:
            return self.active
        self.active.write()
        self.active.seal()
        self.producers.map_end_offset = base_offset
        self.take_snapshot(synced=False)
        if self.active.size == 0:
            self.active.remove()
            self._segments.drop_last()
        else:
            self._segments.sealed.append(self.active)
        self._segments.add(Segment.create(self.directory, base_offset, self._config, now_ms=now_ms))
        self._draw_jitter()
        return self.active

    def skip_to(self, offset: int, *, now_ms: int) -> None:
        """Go on at ``offset``: what lies between was taken out by a cleaner where it is copied from."""
        if offset > self.log_end_offset:
            with self._health.guard(f"roll of {self.topic_partition}"):
                self._roll(offset, now_ms=now_ms)
            self.log_end_offset = offset

    def flush_due(self, now_ms: int) -> int | None:
        """Up to which offset the log should be flushed now; None if nothing asks for it."""
        unflushed = self.log_end_offset - self.recovery_point
        if unflushed > 0 and now_ms - self._last_flush_ms >= self._config.flush_ms:
            return self.log_end_offset
        if self.recovery_point < self.active.base_offset or self._segments.sealed:
            return self.active.base_offset
        return None

    def begin_flush(self, offset: int | None = None) -> Flush:
        """What is to be synced so that everything before ``offset``, or everything, is on disk."""
        offset = self.log_end_offset if offset is None else offset
        with self._health.guard(f"flush of {self.topic_partition}"):
            sealed = tuple(self._segments.sealed)
            behind = [s for s in self._segments.behind(self.recovery_point) if s.base_offset < offset]
            files = [file for segment in dict.fromkeys((*sealed, *behind)) for file in segment.files_to_sync()]
            if sealed:
                snapshot = snapshot_path(self.directory, self._snapshot_offset)
                files += [OpenFile(snapshot, os.O_RDONLY)] if snapshot.exists() else []
            return Flush(self.directory, files, offset, sealed)

    def finish_flush(self, flush: Flush, *, now_ms: int, error: OSError | None = None) -> None:
        """``flush`` was synced, or failed with ``error``."""
        if error is not None:
            raise self._health.failed(f"flush of {self.topic_partition}", error) from error
        self._last_flush_ms = now_ms
        for segment in flush.sealed:
            self._segments.forget_sealed(segment)
        # What was truncated in the meantime is not on disk any more.
        self.recovery_point = max(self.recovery_point, min(flush.offset, self.log_end_offset))

    def flush(self, *, now_ms: int) -> None:
        flush = self.begin_flush()
        try:
            flush.sync()
        except OSError as error:
            self.finish_flush(flush, now_ms=now_ms, error=error)
        self.finish_flush(flush, now_ms=now_ms)

    def take_snapshot(self, *, synced: bool = True) -> None:
        """Write down the producer state, once for an offset. One that a power cut tore is known by its checksum."""
        offset = self.producers.map_end_offset
        if offset > self._snapshot_offset:
            data = encode_snapshot(self.producers.entries.values())
            write_whole(snapshot_path(self.directory, offset), data, synced=synced)
            self._snapshot_offset = offset

    # ------------------------------------------------------------------ truncate

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Cut off everything at ``offset`` and behind it; False if there was nothing."""
        with self._health.guard(f"truncation of {self.topic_partition}"):
            if offset >= self.log_end_offset:
                self.epochs.truncate_from_end(offset)
                return False
            if offset < self._segments.bases[0]:
                self._start_over(offset, now_ms=now_ms)
                return True
            logger.info("%s: truncating from %d to %d", self.topic_partition, self.log_end_offset, offset)
            self._replacing.settle(due_ms=now_ms + self._config.file_delete_delay_ms)
            self.generation += 1
            self._lower(offset)
            while self._segments.bases[-1] > offset:
                self._discard_last(now_ms=now_ms)
            self._segments.forget_sealed(self.active)  # it is written to again
            # Their names are gone for good before the segment in front of them is cut: no hole may be left.
            fsync_directory(self.directory)
            self.log_end_offset = self.active.truncate_to(offset, now_ms=now_ms)
            # A batch goes as a whole, and the log may have started within the one that is gone.
            self._lower_start(self.log_end_offset)
            self._lower(self.log_end_offset)
            self.epochs.truncate_from_end(self.log_end_offset)
            self.update_high_watermark(self.high_watermark)
            self._rebuild_producers(now_ms=now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Give up everything and go on at ``offset``: the leader does not have what would follow any more."""
        with self._health.guard(f"truncation of {self.topic_partition}"):
            self._start_over(offset, now_ms=now_ms)

    def _start_over(self, offset: int, *, now_ms: int) -> None:
        logger.info("%s: deleting everything, the log starts at %d", self.topic_partition, offset)
        self._replacing.settle(due_ms=now_ms + self._config.file_delete_delay_ms)
        self.generation += 1
        self._lower(min(offset, self._segments.bases[0]))
        while self._segments.row:
            self._discard_last(now_ms=now_ms)
        self._segments.add(Segment.create(self.directory, offset, self._config, now_ms=now_ms))
        fsync_directory(self.directory)
        self.epochs.clear()
        self.producers.reset((), offset, now_ms=now_ms)
        remove_stray_snapshots(self.directory, (), end=-1)
        self._snapshot_offset = -1
        self.log_end_offset = self.recovery_point = offset
        self._lower_start(offset)
        self.log_start_offset = offset
        self.update_high_watermark(offset)

    def _lower_start(self, offset: int) -> None:
        """Told before anything is appended below the old start, or a restart would take that for deleted."""
        if offset < self.log_start_offset:
            self.log_start_offset = offset
            self._write_checkpoints()

    def _lower(self, offset: int) -> None:
        if offset < self.recovery_point or (self.cleaned_to is not None and offset < self.cleaned_to):
            self.recovery_point = min(self.recovery_point, offset)
            self.cleaned_to = None if self.cleaned_to is None else min(self.cleaned_to, offset)
            self._write_checkpoints()

    def _rebuild_producers(self, *, now_ms: int) -> None:
        remove_stray_snapshots(self.directory, self._segments.row, end=self.log_end_offset)
        self._snapshot_offset = load_producers(
            self.producers,
            self.directory,
            self._segments.row,
            end=self.log_end_offset,
            now_ms=now_ms,
        )
        self.producers.on_high_watermark(self.high_watermark)

    # ------------------------------------------------------------------ retention

    def delete_old_segments(self, *, now_ms: int) -> int:
        """Delete the oldest segments that retention by time, size or start offset is done with; how many."""
        if self._replacing.swap is not None:
            return 0  # in a moment there will be others; the next time will do
        with self._health.guard(f"retention of {self.topic_partition}"):
            count = count_done(
                self._segments.row,
                [*self._segments.bases[1:], self.log_end_offset],
                self._config,
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                now_ms=now_ms,
            )
            if count == 0:
                return 0
            if count == len(self._segments.row):
                self._roll(self.log_end_offset, now_ms=now_ms)
            # The start is moved first: nobody reads what is about to go.
            self.log_start_offset = max(self.log_start_offset, self._segments.bases[count])
            self.epochs.truncate_from_start(self.log_start_offset)
            self.producers.on_log_start_offset(self.log_start_offset)
            for _ in range(count):
                self._doom(self._segments.drop_first(), now_ms=now_ms)
            fsync_directory(self.directory)
            return count

    def delete_marked(self, *, now_ms: int) -> int:
        """Remove the files whose ``file.delete.delay.ms`` has passed; how many."""
        with self._health.guard(f"deletion in {self.topic_partition}"):
            return self._doomed.remove(now_ms=now_ms)

    def _discard_last(self, *, now_ms: int) -> None:
        self._doom(self._segments.drop_last(), now_ms=now_ms)

    def _doom(self, segment: Segment, *, now_ms: int) -> None:
        self._doomed.add(segment.mark_deleted(), due_ms=now_ms + self._config.file_delete_delay_ms)
        self._doomed.add_snapshot(
            self.directory, segment.base_offset, due_ms=now_ms + self._config.file_delete_delay_ms
        )

    # ------------------------------------------------------------------ compaction

    def begin_swap(self, bases: Sequence[int], *, generation: int) -> Swap | None:
        """A cleaned segment is to take the place of those at ``bases``; None if these are not what it was made from.

        Then ``Swap.sync``, ``retire_swapped``, ``Swap.sync``, ``finish_swap``, ``Swap.sync``.
        """
        with self._health.guard(f"compaction of {self.topic_partition}"):
            if generation != self.generation:
                remove_cleaned(self.directory)
                return None
            return self._replacing.begin(self.directory, bases, self._config)

    def retire_swapped(self, swap: Swap) -> None:
        if swap is self._replacing.swap:
            with self._health.guard(f"compaction of {self.topic_partition}"):
                swap.retire()

    def finish_swap(self, swap: Swap, *, now_ms: int) -> bool:
        """False if the new segment had to go, because the log was cut meanwhile."""
        if swap is self._replacing.swap:
            with self._health.guard(f"compaction of {self.topic_partition}"):
                self._replacing.finish(swap, due_ms=now_ms + self._config.file_delete_delay_ms)
        return swap.new in self._segments.row

    # ------------------------------------------------------------------ the end

    def close(self, *, now_ms: int) -> None:
        """Leave everything on disk so that the next start reads no segment."""
        with self._health.guard(f"close of {self.topic_partition}"):
            self._replacing.settle(due_ms=now_ms + self._config.file_delete_delay_ms)
            self.producers.map_end_offset = self.log_end_offset
            self.take_snapshot()
            self.active.seal()
            self.flush(now_ms=now_ms)
        self.abandon()

    def abandon(self) -> None:
        """Let go of all files as they are."""
        for segment in self._segments.row:
            segment.close()

    def moved(self, directory: Path) -> None:
        """The directory of this log was renamed."""
        self.directory = directory
        self._doomed.moved(directory)
        self.epochs.moved(directory / LEADER_EPOCH_CHECKPOINT)
        for segment in self._segments.row:
            segment.moved(directory)

    def _draw_jitter(self) -> None:
        jitter_ms = min(self._config.segment_jitter_ms, self._config.segment_ms)
        self._jitter_ms = self._random.randrange(jitter_ms) if jitter_ms > 0 else 0
