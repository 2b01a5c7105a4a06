"""What a partition's files hold, read and never touched: for people, of a broker that runs or not, Ottla's or Apache Kafka's.

Nothing here is needed to serve, and nothing here repairs. A file is read from its start in pieces of bounded size, without its
indexes, so that they can be held against it; the first bytes that are no batch end it, and are told as ``Damage``. Two things
look like damage and are none: the zeros behind the last batch or entry of a file that was given its full size at once, and a
batch that a running broker is about to finish, for which the file's size is looked up once more.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from ottla.base.checksums import crc32c
from ottla.base.errors import CorruptionError
from ottla.log.checkpoints import TopicPartition, read_clean_shutdown, read_epochs, read_offsets, read_topic_id
from ottla.log.creation import PARTITION_METADATA
from ottla.log.directory import CLEAN_SHUTDOWN, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from ottla.log.files import OpenFile, read_at
from ottla.log.index import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from ottla.log.log import LEADER_EPOCH_CHECKPOINT
from ottla.log.producers import SNAPSHOT_SUFFIX, ProducerEntry, decode_snapshot
from ottla.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ottla.records import BatchHeader, Codec, Record
from ottla.records.batch import (
    CHECKED_FROM,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    SMALLEST_LENGTH,
    read_header,
)
from ottla.records.codecs import UNPACKED_BYTES_MAX
from ottla.records.legacy import read_any

CHUNK_BYTES = 1 << 20
_FRAME = Struct(">qiib")
_LEGACY = Struct(">Ibb")
_LEGACY_CHECKED_FROM = 16
_I64 = Struct(">q")
_BESIDE_SEGMENTS = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX)


class StoredBatch(NamedTuple):
    """A batch, or a message of a format before batches, as it lies in its file."""

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    codec_id: int
    max_timestamp: int
    crc: int
    crc_is_valid: bool
    header: BatchHeader | None
    """None for messages of magic 0 and 1."""

    @property
    def codec(self) -> str:
        return Codec(self.codec_id).name.lower() if self.codec_id < len(Codec) else f"unknown ({self.codec_id})"


class Damage(NamedTuple):
    """Bytes behind which nothing can be found any more."""

    position: int
    length: int
    reason: str
    is_torn: bool
    """The file ends within a batch, as a crash leaves it."""


@dataclass(slots=True)
class PartitionFiles:
    """A partition's directory, with what the small files in and beside it say."""

    directory: Path
    topic_partition: TopicPartition | None
    topic_id: UUID | None = None
    log_start_offset: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    was_stopped_cleanly: bool = False
    epochs: list[tuple[int, int]] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)

    @property
    def segments(self) -> list[Path]:
        return _numbered(self.directory, LOG_SUFFIX)

    @property
    def snapshots(self) -> list[Path]:
        return _numbered(self.directory, SNAPSHOT_SUFFIX)


def find_partitions(path: Path) -> Iterator[Path]:
    """``path`` itself if it is a partition's directory, else the partitions in it."""
    if _numbered(path, LOG_SUFFIX):
        yield path
        return
    for folder in sorted(path.iterdir()):
        if folder.is_dir() and _numbered(folder, LOG_SUFFIX):
            yield folder


def find_emptied(path: Path) -> Iterator[Path]:
    """The partitions in ``path`` of which there is something left, but no segment."""
    for folder in sorted(path.iterdir()):
        if folder.is_dir() and _topic_partition(folder) is not None and not _numbered(folder, LOG_SUFFIX):
            small = (PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT)
            if any(each.name in small or each.suffix in _BESIDE_SEGMENTS for each in folder.iterdir()):
                yield folder


def read_partition(directory: Path) -> PartitionFiles:
    """Everything but the segments. The checkpoints come first, so what they say is not newer than what is read later."""
    partition = _topic_partition(directory)
    found = PartitionFiles(directory, partition)
    parent = directory.resolve().parent
    if partition is not None:
        found.recovery_point = _checkpoint(found, parent / RECOVERY_POINTS)
        found.log_start_offset = _checkpoint(found, parent / LOG_START_OFFSETS)
        found.high_watermark = _checkpoint(found, parent / HIGH_WATERMARKS)
    found.was_stopped_cleanly = read_clean_shutdown(parent / CLEAN_SHUTDOWN) is not None
    try:
        found.topic_id = read_topic_id(directory / PARTITION_METADATA)
    except (CorruptionError, ValueError) as error:
        found.unreadable.append((directory / PARTITION_METADATA, str(error)))
    try:
        if not _is_empty(directory / LEADER_EPOCH_CHECKPOINT):
            found.epochs = read_epochs(directory / LEADER_EPOCH_CHECKPOINT)
    except (CorruptionError, ValueError) as error:
        found.unreadable.append((directory / LEADER_EPOCH_CHECKPOINT, str(error)))
    return found


def read_segment(path: Path) -> Iterator[StoredBatch | Damage]:
    """The batches of a file in their order; at most one ``Damage``, at the end."""
    file = OpenFile(path, os.O_RDONLY)
    try:
        yield from _batches(_Window(file))
    finally:
        file.close()


def read_bytes(path: Path, batch: StoredBatch) -> bytes:
    """A whole batch; one that is larger than any may be once it is unpacked is refused."""
    if batch.size > UNPACKED_BYTES_MAX:
        raise CorruptionError(
            f"{path}: the batch at {batch.position} has {batch.size} bytes, more than is read at once"
        )
    file = OpenFile(path, os.O_RDONLY)
    try:
        return read_at(file.fd, batch.size, batch.position)
    finally:
        file.close()


def read_records(path: Path, batch: StoredBatch) -> Iterator[Record]:
    """The records of a batch, each with its offset."""
    data = read_bytes(path, batch)
    yield from read_any(data)


def read_offset_index(path: Path) -> Iterator[OffsetPosition]:
    base_offset = int(path.stem)
    for relative, position in _entries(path, OffsetIndex.ENTRY):
        yield OffsetPosition(base_offset + relative, position)


def read_time_index(path: Path) -> Iterator[TimestampOffset]:
    base_offset = int(path.stem)
    for timestamp, relative in _entries(path, TimeIndex.ENTRY):
        yield TimestampOffset(timestamp, base_offset + relative)


def read_snapshot(path: Path) -> list[ProducerEntry]:
    return decode_snapshot(path.read_bytes(), path)


class _Window:
    """A file, a piece of which is at hand."""

    def __init__(self, file: OpenFile) -> None:
        self.fd = file.fd
        self.end = os.fstat(file.fd).st_size
        self._data = b""
        self._at = 0

    def view(self, position: int, size: int) -> memoryview:
        """Up to ``size`` bytes, which is at most a chunk; fewer only at the end of the file."""
        if position < self._at or position + size > self._at + len(self._data):
            self._data, self._at = read_at(self.fd, CHUNK_BYTES, position), position
        return memoryview(self._data)[position - self._at : position - self._at + size]

    def chunks(self, position: int, end: int) -> Iterator[memoryview]:
        while position < end:
            piece = self.view(position, min(CHUNK_BYTES, end - position))
            if not piece:
                return
            yield piece
            position += len(piece)

    def has_grown(self) -> bool:
        before, self.end = self.end, os.fstat(self.fd).st_size
        self._data = b""
        return self.end > before


def _batches(window: _Window) -> Iterator[StoredBatch | Damage]:
    position = 0
    while True:
        found = _batch_at(window, position) if position < window.end else None
        if isinstance(found, StoredBatch):
            yield found
            position += found.size
        elif (found is None or found.is_torn) and window.has_grown():
            continue
        else:
            if found is not None and any(any(piece) for piece in window.chunks(position, window.end)):
                yield found
            return


def _batch_at(window: _Window, position: int) -> StoredBatch | Damage:
    left = window.end - position
    head = window.view(position, HEADER_BYTES)
    if len(head) <= MAGIC_AT:
        return Damage(position, left, f"{left} bytes, which is no whole batch", is_torn=True)
    base_offset, length, _, magic = _FRAME.unpack_from(head)
    size = LOG_OVERHEAD + length
    smallest = HEADER_BYTES if magic == MAGIC else LOG_OVERHEAD + SMALLEST_LENGTH
    if not 0 <= magic <= MAGIC or size < smallest:
        return Damage(position, left, f"no batch: magic {magic}, length {length}", is_torn=False)
    if size > left:
        return Damage(position, left, f"a batch of {size} bytes, of which {left} are there", is_torn=True)
    if magic < MAGIC:
        return _legacy(window, position, size, magic, base_offset)
    header = read_header(head)
    crc = 0
    for piece in window.chunks(position + CHECKED_FROM, position + size):
        crc = crc32c(piece, crc)
    return StoredBatch(
        position,
        size,
        magic,
        base_offset,
        header.last_offset,
        header.codec_id,
        header.max_timestamp,
        header.crc,
        crc == header.crc,
        header,
    )


def _legacy(window: _Window, position: int, size: int, magic: int, offset: int) -> StoredBatch:
    head = bytes(window.view(position + LOG_OVERHEAD, min(size - LOG_OVERHEAD, _LEGACY.size + _I64.size)))
    stored, _, attributes = _LEGACY.unpack_from(head)
    timestamp = _I64.unpack_from(head, _LEGACY.size)[0] if magic and len(head) == _LEGACY.size + 8 else NO_TIMESTAMP
    crc = 0
    for piece in window.chunks(position + _LEGACY_CHECKED_FROM, position + size):
        crc = zlib.crc32(piece, crc)
    return StoredBatch(position, size, magic, offset, offset, attributes & 7, timestamp, stored, crc == stored, None)


def _entries(path: Path, entry: Struct) -> Iterator[tuple[int, int]]:
    """Entries up to the zeros that room for more is filled with."""
    file = OpenFile(path, os.O_RDONLY)
    try:
        window = _Window(file)
        if window.end % entry.size:
            raise CorruptionError(f"{path}: {window.end} bytes are no whole number of entries")
        for position in range(0, window.end, entry.size):
            first, second = entry.unpack(window.view(position, entry.size))
            if not first and not second and not any(any(piece) for piece in window.chunks(position, window.end)):
                return
            yield first, second
    finally:
        file.close()


def _checkpoint(found: PartitionFiles, path: Path) -> int | None:
    assert found.topic_partition is not None
    try:
        return None if _is_empty(path) else read_offsets(path).get(found.topic_partition)
    except (CorruptionError, ValueError) as error:
        found.unreadable.append((path, str(error)))
        return None


def _topic_partition(directory: Path) -> TopicPartition | None:
    """What its name says."""
    topic, dash, number = directory.resolve().name.rpartition("-")
    return TopicPartition(topic, int(number)) if dash and number.isdecimal() else None


def _is_empty(path: Path) -> bool:
    """Kafka makes a checkpoint without content first, and writes to it later."""
    return path.exists() and path.stat().st_size == 0


def _numbered(directory: Path, suffix: str) -> list[Path]:
    """Files named by an offset, in its order."""
    found = [path for path in directory.glob(f"*{suffix}") if path.stem.isdecimal()]
    return sorted(found, key=lambda path: int(path.stem))
