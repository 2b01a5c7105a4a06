"""Runs of batches to record batches of Arrow: which batches are opened at all, and what is in them.

A batch is passed over by its header alone if its offsets or its latest timestamp lie outside of the filter, if it is a
control batch, or if it belongs to a transaction that was aborted and only committed records are wanted. What is left is
checked, unpacked and handed to the kernel. Batches without a codec are decoded where they lie, all of a run in one go.

Aborted transactions are told by whoever has the log, as (producer id, first offset). From there on, everything transactional
of that producer is left out until the marker that ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heapify, heappop
from typing import NamedTuple

import pyarrow as pa

from ottla.base.errors import CorruptionError
from ottla.records.batch import HEADER_BYTES, MAGIC, BatchHeader, TimestampType, frames, read_header
from ottla.records.codecs import Codec, codec_of, unpack
from ottla.records.control import ControlType, read_marker
from ottla.records.errors import RecordsError
from ottla.records.legacy import check_any, header_at, read_any
from ottla.records.record import build_batch
from ottla.records.walk import FAULTS
from ottla.scan.columns import CONSTANT, Columns, Filter, constants

GROUP_BYTES = 32 << 20
"""What is unpacked at a time, but for a single batch that is larger."""

Place = tuple[int, int, BatchHeader]
"""Where the records of a batch begin and end, and its header."""


class Source(NamedTuple):
    """What the records of a run belong to."""

    topic: str
    partition: int


class Run(NamedTuple):
    """Batches as they were fetched or lie in a file: ``data[start:end]``, of which the last may be incomplete."""

    data: bytes
    start: int
    end: int
    aborted: tuple[tuple[int, int], ...] = ()
    """Producer id and first offset of aborted transactions within; empty also if nobody asked."""
    first_offset: int = 0
    """What was asked for. A batch may begin before that, with records that do not count, or were deleted since."""


class Decoded(NamedTuple):
    """Columns of some of the records of a run."""

    arrays: dict[str, pa.Array]
    rows: int


class Aborted:
    """Whose records are to be left out, as batches pass by in the order of their offsets."""

    def __init__(self, transactions: Iterable[tuple[int, int]] = ()) -> None:
        self._coming = [(first_offset, producer_id) for producer_id, first_offset in transactions]
        heapify(self._coming)
        self._open: set[int] = set()

    def covers(self, data: bytes, position: int, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction. Control batches pass by here, too."""
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._open.add(heappop(self._coming)[1])
        if not header.is_transactional or header.producer_id not in self._open:
            return False
        if header.is_control:
            marker = read_marker(data, position)
            if marker is not None and marker.control_type is ControlType.ABORT:
                self._open.discard(header.producer_id)
        return True


def next_offset(run: Run) -> int:
    """Behind the last whole batch of a run; -1 if there is none. Nothing but headers is looked at."""
    found = -1
    view = memoryview(run.data)[: run.end]
    for frame in frames(view, run.start):
        header = header_at(view, frame.position)
        if header is not None:
            found = header.next_offset
    return found


def decode(run: Run, source: Source, names: frozenset[str], passing: Filter) -> Iterator[Decoded]:
    """The wanted columns of the records in a run that pass. Damage raises CorruptionError, which names the place."""
    if run.first_offset > passing.first_offset:
        passing = replace(passing, first_offset=run.first_offset)
    try:
        wanted = _wanted(run, passing)
        if names <= CONSTANT:
            counted, wanted = _counted(wanted, passing)
            if counted:
                yield Decoded(constants(names, source.topic, source.partition, counted), counted)
        for data, places in _groups(run, wanted):
            columns = Columns(names, passing)
            for start, end, header in places:
                _take(columns, data, start, end, header)
            if columns.collector.count:
                yield Decoded(columns.arrays(data, source.topic, source.partition), columns.collector.count)
    except (RecordsError, CorruptionError) as error:
        raise CorruptionError(f"{source.topic}-{source.partition}: {error}") from error


def _wanted(run: Run, passing: Filter) -> list[tuple[int, BatchHeader]]:
    """The batches that have to be opened, and where they are."""
    found = []
    aborted = Aborted(run.aborted)
    view = memoryview(run.data)[: run.end]
    for frame in frames(view, run.start):
        header = header_at(view, frame.position)
        if header is None:
            raise CorruptionError(f"there is no batch at {frame.position}")
        left_out = aborted.covers(run.data, frame.position, header)
        if left_out or header.is_control or header.last_offset < passing.first_offset:
            continue
        # A compressed message of old tells its last offset only.
        if header.base_offset >= passing.end_offset and header.magic == MAGIC:
            break
        if header.max_timestamp >= passing.timestamp_from or header.max_timestamp < 0:
            check_any(run.data, frame)
            found.append((frame.position, header))
    return found


def _counted(wanted: list[tuple[int, BatchHeader]], passing: Filter) -> tuple[int, list[tuple[int, BatchHeader]]]:
    """How many records the batches have that pass as a whole, and the batches that have to be looked into."""
    if not passing.is_of_places:
        return 0, wanted
    count, rest = 0, []
    for position, header in wanted:
        within = header.base_offset >= passing.first_offset and header.last_offset < passing.end_offset
        if within and header.magic == MAGIC:
            count += header.record_count
        else:
            rest.append((position, header))
    return count, rest


def _groups(run: Run, wanted: list[tuple[int, BatchHeader]]) -> Iterator[tuple[bytes, list[Place]]]:
    """Unpacked data, with what lies where in it."""
    if all(header.magic == MAGIC and header.codec_id == Codec.NONE for _, header in wanted):
        yield run.data, [(at + HEADER_BYTES, at + header.size, header) for at, header in wanted]
        return
    bodies: list[bytes] = []
    places: list[Place] = []
    end = 0
    for position, outer in wanted:
        for body, header in _bodies(run.data, position, outer):
            places.append((end, end + len(body), header))
            bodies.append(body)
            end += len(body)
        if end >= GROUP_BYTES:
            yield b"".join(bodies), places
            bodies, places, end = [], [], 0
    yield b"".join(bodies), places


def _bodies(data: bytes, position: int, header: BatchHeader) -> Iterator[tuple[bytes, BatchHeader]]:
    if header.magic == MAGIC:
        packed = memoryview(data)[position + HEADER_BYTES : position + header.size]
        yield b"".join(unpack(codec_of(header.codec_id), packed)), header
        return
    kind = header.timestamp_type
    for record in read_any(data, position):
        # As a batch of its own: offsets of old messages need not follow each other.
        made = build_batch([record], base_offset=record.offset, timestamp_type=kind)
        yield made[HEADER_BYTES:], read_header(made)


def _take(columns: Columns, data: bytes, start: int, end: int, header: BatchHeader) -> None:
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    append_time = header.max_timestamp if is_append_time else -1
    collector = columns.collector
    fault = collector.take(
        data, start, end, header.record_count, header.base_offset, header.base_timestamp, append_time
    )
    if fault:
        raise CorruptionError(f"the batch at offset {header.base_offset} cannot be read: {FAULTS[fault]}")
    columns.note_type(int(is_append_time))
