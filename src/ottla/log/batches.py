"""Batches one behind the other, in a file or from a leader: found by their headers, or with their checksums found right as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.base.errors import CorruptionError
from ottla.log.errors import OutOfOrderOffsetsError
from ottla.log.files import OpenFile, read_at
from ottla.records import BatchHeader, EndTransactionMarker, frames
from ottla.records.batch import HEADER_BYTES, Frame
from ottla.records.control import read_marker
from ottla.records.errors import RecordsError
from ottla.records.legacy import SMALLEST_BYTES, check_any, header_at

_SCAN_BYTES: Final = 8 << 10
_CHUNK_BYTES: Final = 1 << 20


class Located(NamedTuple):
    """A batch, and where in the file it starts."""

    position: int
    header: BatchHeader


def scan(file: OpenFile, position: int, end: int) -> Iterator[Located]:
    """The headers from ``position``, where a batch starts, up to ``end``. Bodies are passed over unread."""
    block, block_at = b"", position
    while position < end:
        at = position - block_at
        if at + HEADER_BYTES > len(block):
            block, block_at, at = read_at(file.fd, min(_SCAN_BYTES, end - position), position), position, 0
        header = header_at(block, at)
        if header is None or position + header.size > end:
            raise CorruptionError(f"{file.path}: no batch at {position}")
        yield Located(position, header)
        position += header.size


def verified(file: OpenFile, end: int, *, position: int = 0) -> Iterator[Located]:
    """The whole batches from ``position`` on, each with its checksum found right, up to the first that is not."""
    next_offset = -1
    chunk, chunk_at = b"", position
    while end - position >= SMALLEST_BYTES:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_at, at = read_at(file.fd, _CHUNK_BYTES, position), position, 0
        header = header_at(chunk, at)
        if header is None or position + header.size > end or header.base_offset < next_offset:
            return
        if at + header.size > len(chunk):
            chunk, chunk_at, at = read_at(file.fd, max(_CHUNK_BYTES, header.size), position), position, 0
        try:
            check_any(chunk, Frame(at, header.size, header.magic, header.base_offset))
        except RecordsError:
            return
        yield Located(position, header)
        position += header.size
        next_offset = header.next_offset


class Replicated:
    """The whole batches that a leader sent, each checked by itself, and as they follow each other."""

    __slots__ = ("headers", "markers", "size")

    def __init__(self, data: bytes, end_offset: int) -> None:
        """``end_offset``: where the log ends that they are for."""
        self.headers: list[BatchHeader] = []
        self.markers: list[EndTransactionMarker | None] = []
        self.size = 0
        for frame in frames(data):
            header = check_any(data, frame)
            if header.base_offset < end_offset or header.last_offset_delta < 0:
                raise OutOfOrderOffsetsError(
                    f"the leader sent offset {header.base_offset}, the log ends at {end_offset}"
                )
            end_offset = header.next_offset
            self.size = frame.position + frame.size
            self.headers.append(header)
            self.markers.append(read_marker(data, frame.position) if header.is_control else None)
