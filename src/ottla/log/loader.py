"""Opens a log: at once after a clean stop, else by reading what a crash may have torn.

Theory of operation
-------------------
After a clean stop nothing is read: sizes of files and the recovery point say everything. Otherwise every batch from the
segment of the recovery point on is read and its checksum computed, and what is derived from batches (both indexes, aborted
transactions, epochs, producer state) is built anew in the same pass. Segments before that one are taken as they are, but
for their indexes: if they were sealed and the power went before the next flush, these are built anew as well.

What is damaged is judged by where it lies:

    behind the recovery point     never synced: a crash tears it, at any byte and in any order of pages. The log is cut
                                  behind the last whole batch and later segments go; ``Recovery`` says what was lost, for
                                  whoever decides whether this replica may lead. A segment that the next one does not
                                  continue is torn as well, unless the cleaner may have left the gap.
    before the recovery point     was synced once: no crash explains it. ``CorruptionError``, nothing is touched: records
                                  that were acknowledged are never dropped silently, the partition is fetched again or
                                  repaired by hand.

What the cleaner was at when it died is finished or undone first (``swap``).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from ottla.base.errors import CorruptionError
from ottla.log.batches import verified
from ottla.log.checkpoints import TopicPartition
from ottla.log.config import LogConfig
from ottla.log.epochs import LeaderEpochCache
from ottla.log.files import Health, fsync_directory, remove_if_there
from ottla.log.log import LEADER_EPOCH_CHECKPOINT, Log
from ottla.log.producers import ProducerState, snapshot_path
from ottla.log.replay import load_producers, marker_of, note_completed, remove_stray_snapshots
from ottla.log.segment import LOG_SUFFIX, SUFFIXES, Segment, segment_path
from ottla.log.swap import settle_directory
from ottla.records import BatchHeader, Codec
from ottla.records.batch import MAGIC

logger = logging.getLogger(__name__)

_NAME = re.compile(r"([0-9]{20})(\.[a-z]+)")
"""Of a file of a segment: its first offset, and what is in it."""
_NEVER = 1 << 63


class Recovery(NamedTuple):
    """What loading a log took."""

    segments_read: int = 0
    truncated_bytes: int = 0
    """Behind the last whole batch, in its segment."""
    segments_dropped: int = 0
    """Behind that segment."""


class Loading(NamedTuple):
    """Where a log lies and what is known of it from outside."""

    directory: Path
    topic_partition: TopicPartition
    config: LogConfig
    health: Health
    log_start_offset: int = 0
    recovery_point: int = 0
    clean: bool = False
    cleaned_to: int | None = None
    """How far it was cleaned, if a cleaner has been here, whatever the configuration says now."""


def load_log(
    loading: Loading, *, now_ms: int, write_checkpoints: Callable[[], None], random: Random | None = None
) -> tuple[Log, Recovery]:
    """Open the log in a directory, empty or not, after repairing what a crash explains."""
    with loading.health.guard(f"loading of {loading.topic_partition}"):
        settle_directory(loading.directory)
        segments = _open_segments(loading, now_ms=now_ms)
        log_start_offset = max(loading.log_start_offset, segments[0].base_offset)
        epochs = LeaderEpochCache(loading.directory / LEADER_EPOCH_CHECKPOINT)
        producers = ProducerState(expiration_ms=loading.config.producer_id_expiration_ms)
        recovery = Recovery()
        if loading.clean:
            end = _end_after_clean_stop(loading, segments[-1])
        else:
            pass_ = _RecoveryPass(loading, segments, epochs, producers)
            recovery, end = pass_.run(log_start_offset, now_ms=now_ms)
        # A start behind the end is left by a truncation that the crash cut short.
        log_start_offset = min(log_start_offset, end)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(log_start_offset)
        remove_stray_snapshots(loading.directory, segments, end=end)
        snapshot_offset = load_producers(producers, loading.directory, segments, end=end, now_ms=now_ms)
        segments[-1].activate(now_ms=now_ms)
        log = Log(
            loading.directory,
            loading.topic_partition,
            loading.config,
            segments,
            epochs=epochs,
            producers=producers,
            log_start_offset=log_start_offset,
            log_end_offset=end,
            recovery_point=loading.recovery_point if not loading.clean else end,
            health=loading.health,
            write_checkpoints=write_checkpoints,
            cleaned_to=_cleaned_to(loading, log_start_offset, end),
            snapshot_offset=snapshot_offset,
            now_ms=now_ms,
            random=random,
        )
        if not loading.clean:
            # A killed process leaves in the page cache what is believed from here on.
            log.flush(now_ms=now_ms)
        return log, recovery


def _cleaned_to(loading: Loading, log_start_offset: int, end: int) -> int | None:
    """A clean part that reaches behind the end was cut off, and what comes instead will not be clean."""
    cleaned_to = loading.cleaned_to
    return log_start_offset if cleaned_to is not None and cleaned_to > end else cleaned_to


def _open_segments(loading: Loading, *, now_ms: int) -> list[Segment]:
    directory, config = loading.directory, loading.config
    bases = _segments_there(loading)
    if not bases:
        return [Segment.create(directory, loading.log_start_offset, config, now_ms=now_ms)]
    segments = [Segment.open(directory, base_offset, config) for base_offset in bases]
    for segment, behind in zip(segments, [*bases[1:], _NEVER], strict=True):
        try:
            segment.offset_index.open_sealed()
            segment.time_index.open_sealed()
            if not loading.clean and behind <= loading.recovery_point:
                segment.check_indexes()
        except (FileNotFoundError, CorruptionError) as error:
            logger.warning("%s: an index is built anew: %s", loading.topic_partition, error)
            _rebuild_indexes(segment)
    return segments


def _segments_there(loading: Loading) -> list[int]:
    """The first offset of each. What was beside one that is gone goes, and what is no file of a segment is left alone."""
    files: dict[str, list[int]] = {suffix: [] for suffix in SUFFIXES}
    for path in loading.directory.iterdir():
        named = _NAME.fullmatch(path.name)
        if named is not None and named[2] in files:
            files[named[2]].append(int(named[1]))
        elif path.suffix in files:
            logger.warning("%s: %s is no file of a log; it is left alone", loading.topic_partition, path.name)
    bases = files.pop(LOG_SUFFIX)
    for suffix, offsets in files.items():
        for offset in sorted(set(offsets).difference(bases)):
            path = segment_path(loading.directory, offset, suffix)
            # A crash may leave that behind. A clean stop does not: somebody has removed records.
            level = logging.ERROR if loading.clean else logging.WARNING
            logger.log(level, "%s: %s goes, for its segment is not there", loading.topic_partition, path.name)
            remove_if_there(path)
    return sorted(bases)


def _rebuild_indexes(segment: Segment) -> None:
    """Indexes of a segment that may be cut later, if a crash tore it: they end where whole batches end."""
    segment.begin_rebuild(transactions=False)
    for located in verified(segment.file, segment.size):
        if not segment.may_hold(located.header):
            break
        segment.rebuild(located)
    segment.seal()
    segment.sync_indexes()


def _end_after_clean_stop(loading: Loading, active: Segment) -> int:
    """The recovery point, if a snapshot of the producers agrees that the log was closed there."""
    end = loading.recovery_point
    if end >= active.base_offset and snapshot_path(loading.directory, end).exists():
        return end
    return active.next_offset()


def _leaves_gap(header: BatchHeader, end: int) -> bool:
    """Whether a cleaner has taken records out of a batch, or batches from before it."""
    if header.magic == MAGIC:
        return header.base_offset > end or header.record_count <= header.last_offset_delta
    # A compressed message of old tells its last offset only.
    return header.base_offset > end and header.codec_id == Codec.NONE


class _RecoveryPass:
    """One pass over the segments that may be torn."""

    def __init__(
        self, loading: Loading, segments: list[Segment], epochs: LeaderEpochCache, producers: ProducerState
    ) -> None:
        self._loading = loading
        self._segments = segments
        self._epochs = epochs
        self._producers = producers
        self._seen_gaps = False

    def run(self, log_start_offset: int, *, now_ms: int) -> tuple[Recovery, int]:
        """Read from the segment of the recovery point on, and cut; what was done, and where the log ends."""
        segments = self._segments
        first = 0
        while first + 1 < len(segments) and segments[first + 1].base_offset <= self._loading.recovery_point:
            first += 1
        base_offset = segments[first].base_offset
        load_producers(
            self._producers,
            self._loading.directory,
            segments[:first],
            end=base_offset,
            now_ms=now_ms,
        )
        read, end = 0, base_offset
        for number in range(first, len(segments)):
            segment = segments[number]
            read += 1
            end, lost = self._recover(segment)
            if lost or self._breaks_off(number, end):
                return Recovery(read, lost, self._drop_behind(number)), end
        self._check_end(end)
        return Recovery(read), end

    def _breaks_off(self, number: int, end: int) -> bool:
        """Whether the next segment does not continue one that ends at ``end``: it lacks whole batches at its end.

        In a compacted log that is no sign of anything, and one that has gaps elsewhere was compacted once.
        """
        if number + 1 == len(self._segments):
            return False
        behind = self._segments[number + 1].base_offset
        has_gaps = self._loading.config.compacts or self._loading.cleaned_to is not None or self._seen_gaps
        return end > behind or (end < behind and not has_gaps)

    def _recover(self, segment: Segment) -> tuple[int, int]:
        """Read one segment and build anew what is derived from it; where it ends, and how much was cut off."""
        whole = 0
        end = segment.base_offset
        segment.begin_rebuild(transactions=True)
        for located in verified(segment.file, segment.size):
            header = located.header
            if not segment.may_hold(header):
                break
            self._seen_gaps |= _leaves_gap(header, end)
            segment.rebuild(located)
            if header.partition_leader_epoch > self._epochs.latest:
                self._epochs.assign(header.partition_leader_epoch, header.base_offset)
            completed = self._producers.replay(header, marker_of(segment, located))
            if completed is not None:
                note_completed(segment, self._producers, completed)
            whole = located.position + header.size
            end = header.next_offset
        lost = segment.size - whole
        if lost:
            self._check_end(end, damaged=segment_path(segment.directory, segment.base_offset, LOG_SUFFIX), at=whole)
            logger.warning(
                "%s: segment %d is torn at byte %d, %d bytes are cut off",
                self._loading.topic_partition,
                segment.base_offset,
                whole,
                lost,
            )
            segment.cut(whole)
        segment.found.cut(0)  # it was looked at
        segment.seal()
        segment.sync_indexes()
        return end, lost

    def _check_end(self, end: int, *, damaged: Path | None = None, at: int = 0) -> None:
        recovery_point = self._loading.recovery_point
        if end < recovery_point:
            where = f"{damaged} is damaged at byte {at}" if damaged else f"the log ends at {end}"
            raise CorruptionError(
                f"{self._loading.topic_partition}: {where}, but everything before offset {recovery_point} was on disk. "
                f"No record was touched; remove the partition's directory to fetch it again from its leader"
            )

    def _drop_behind(self, number: int) -> int:
        dropped = self._segments[number + 1 :]
        for segment in reversed(dropped):
            logger.warning(
                "%s: segment %d lies behind a torn one and is dropped",
                self._loading.topic_partition,
                segment.base_offset,
            )
            segment.remove()
        del self._segments[number + 1 :]
        if dropped:
            fsync_directory(self._loading.directory)
        return len(dropped)
