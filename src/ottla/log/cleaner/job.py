"""What a process that cleans is told and tells: a round over one log, and what became of it (``round`` does it).

The broker needs no more than this, and has nothing of what cleans in its memory.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from ottla.log.cleaner.filth import Filth
from ottla.log.log import Log

GO = "go"
STOP = "stop"
"""The answers to a segment that lies ready."""


@dataclass(frozen=True)
class Resources:
    """What a round may use."""

    dedupe_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_bytes: int = 512 << 10
    bytes_per_second: float = float("inf")


@dataclass(frozen=True)
class Job:
    directory: str
    bases: list[int]
    """Of the segments up to the first that may not be cleaned, and of that one."""
    first_dirty_offset: int
    generation: int
    """Of the log, when the job was made."""
    aborted: list[list[int]]
    last_records: list[list[int]]
    """Producer id, epoch, and last offset of the last batch with records."""
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    unpacked_bytes_max: int
    now_ms: int
    resources: Resources

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def decode(text: str) -> Job:
        fields = json.loads(text)
        return Job(**{**fields, "resources": Resources(**fields["resources"])})


@dataclass(frozen=True)
class Cleaned:
    """A segment that is ready to take the place of others."""

    bases: list[int]
    """Of those it was made from. It has the first."""
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class Outcome:
    cleaned_to: int
    """No key occurs twice before this offset."""
    bytes_read: int
    bytes_written: int
    keys: int


def make_job(log: Log, found: Filth, resources: Resources, *, now_ms: int) -> Job:
    config = log.config
    until = found.first_uncleanable_offset
    bases = [segment.base_offset for segment in log.segments if segment.base_offset <= until]
    entries = log.producers.entries.values()
    return Job(
        directory=str(log.directory),
        bases=bases,
        first_dirty_offset=found.first_dirty_offset,
        generation=log.generation,
        aborted=[list(each) for each in log.aborted_transactions(bases[0], until)],
        last_records=[
            [e.producer_id, e.producer_epoch, e.batches[-1].last_offset if e.batches else -1] for e in entries
        ],
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        unpacked_bytes_max=config.unpacked_bytes_max,
        now_ms=now_ms,
        resources=resources,
    )
