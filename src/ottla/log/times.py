"""Records found by their timestamps: the time index says where to look, the records which it is."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.base.errors import CorruptionError
from ottla.log.outcomes import FoundOffset
from ottla.log.segment import FileRange, Segment
from ottla.records.batch import Frame
from ottla.records.errors import RecordsError
from ottla.records.legacy import check_any, read_any


def first_at(segments: Iterable[Segment], timestamp: int, log_start_offset: int) -> FoundOffset | None:
    """The first record that is not older than ``timestamp``."""
    for segment in segments:
        if segment.largest.timestamp >= timestamp:
            found = _search(segment, timestamp, log_start_offset)
            if found is not None:
                return found
    return None


def _search(segment: Segment, timestamp: int, log_start_offset: int) -> FoundOffset | None:
    start = segment.time_index.lookup(timestamp - 1).offset
    position = segment.offset_index.lookup(max(start, log_start_offset)).position
    for at, header in segment.batches(position):
        if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
            continue
        data = FileRange(segment.file, at, header.size).read()
        try:
            check_any(data, Frame(0, header.size, header.magic, header.base_offset))
            for record in read_any(data):
                if record.timestamp >= timestamp and record.offset >= log_start_offset:
                    return FoundOffset(record.timestamp, record.offset, header.partition_leader_epoch)
        except RecordsError as error:
            raise CorruptionError(f"{segment.file.path} is damaged at byte {at}: {error}") from error
    return None
