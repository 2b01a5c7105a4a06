"""Producer state out of what is on disk: the newest snapshot that fits, and the batches behind it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.log.batches import Located
from ottla.log.files import remove_if_there
from ottla.log.producers import (
    BATCHES_KEPT,
    SNAPSHOT_SUFFIX,
    BatchMetadata,
    CompletedTxn,
    ProducerEntry,
    ProducerState,
    decode_snapshot,
    snapshot_path,
)
from ottla.log.segment import FileRange, Segment
from ottla.log.txnindex import AbortedTxn
from ottla.records import BatchHeader, EndTransactionMarker
from ottla.records.control import read_marker

RECALLED_BYTES_MAX: Final = 4 << 20

logger = logging.getLogger(__name__)


def load_producers(
    producers: ProducerState, directory: Path, segments: Sequence[Segment], *, end: int, now_ms: int
) -> int:
    """Bring ``producers`` to where they are at ``end``; the offset of the snapshot they come from, -1 if from none.

    What lies before the start of the log counts as well, as long as it is there: who wrote it is not forgotten with it.
    """
    found, entries = _newest_snapshot(directory, end)
    start = max(found, segments[0].base_offset if segments else 0)
    producers.reset(entries, start, now_ms=now_ms)
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= start:
            continue
        if segment.base_offset >= end or start >= end:
            break
        for located in segment.batches(segment.offset_index.lookup(start).position):
            if start <= located.header.base_offset < end:
                completed = producers.replay(located.header, marker_of(segment, located))
                if completed is not None:
                    producers.complete(completed)
    producers.map_end_offset = end
    return found


def recall(producers: ProducerState, segments: Sequence[Segment], entry: ProducerEntry) -> None:
    """Look up what a producer wrote before the batches that are known of it; not far back, as it would be sent again at once."""
    oldest, left = entry.batches[0].base_offset, RECALLED_BYTES_MAX
    earlier: list[BatchMetadata] = []
    for segment in reversed(segments):
        if segment.base_offset >= oldest:
            continue
        end = segment.offset_index.lookup(oldest).position
        start = segment.offset_index.first_behind(end - left) if end > left else None
        position = 0 if start is None else start.position
        before = takewhile(lambda located: located.header.base_offset < oldest, segment.batches(position))
        with suppress(CorruptionError):  # then it is not known, as it was not before
            earlier[:0] = [BatchMetadata.of(each.header) for each in before if _is_by(entry, each.header)]
        left -= end - position
        if len(earlier) >= BATCHES_KEPT or left <= 0:
            break
    producers.recall(entry, earlier)


def _is_by(entry: ProducerEntry, header: BatchHeader) -> bool:
    is_its = (header.producer_id, header.producer_epoch) == (entry.producer_id, entry.producer_epoch)
    return is_its and not header.is_control


def note_completed(segment: Segment, producers: ProducerState, completed: CompletedTxn) -> None:
    """A transaction ended in ``segment``: if it was aborted, readers have to know."""
    if completed.is_aborted:
        stable = producers.last_stable_offset_behind(completed)
        aborted = AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)
        segment.txn_index.append(aborted)
    producers.complete(completed)


def marker_of(segment: Segment, located: Located) -> EndTransactionMarker | None:
    if not located.header.is_control:
        return None
    return read_marker(FileRange(segment.file, located.position, located.header.size).read())


def remove_stray_snapshots(directory: Path, segments: Sequence[Segment], *, end: int) -> None:
    """Keep the snapshots that segments start with, and the newest.

    One from behind ``end`` tells of records that are gone; records that are appended in their place would be taken for
    their repetition.
    """
    offsets = _snapshot_offsets(directory)
    newest = max((offset for offset in offsets if offset <= end), default=-1)
    kept = {segment.base_offset for segment in segments if segment.base_offset <= end} | {newest}
    for offset in offsets:
        if offset not in kept:
            remove_if_there(snapshot_path(directory, offset))


def _newest_snapshot(directory: Path, end: int) -> tuple[int, list[ProducerEntry]]:
    for offset in sorted((offset for offset in _snapshot_offsets(directory) if offset <= end), reverse=True):
        path = snapshot_path(directory, offset)
        try:
            return offset, decode_snapshot(path.read_bytes(), path)
        except CorruptionError as error:
            logger.warning("%s; the state is built anew from the log", error)
            remove_if_there(path)
    return -1, []


def _snapshot_offsets(directory: Path) -> list[int]:
    return [int(path.stem) for path in directory.glob(f"*{SNAPSHOT_SUFFIX}") if path.stem.isdecimal()]
