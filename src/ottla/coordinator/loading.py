"""A log replayed into a shard, slice by slice.

A slice is found on the event loop and read in a worker, where its batches are checked, unpacked, decoded and replayed: the
shard is nobody else's until it is whole. Records of a transaction are replayed as such and count when its marker comes.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from ottla.base.errors import CorruptionError
from ottla.log import FileRange
from ottla.records import frames
from ottla.records.control import ControlType, read_marker
from ottla.records.legacy import check_any, read_any

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

NO_PRODUCER = -1
"""The producer of records that belong to no transaction."""


class Replayed(Protocol[R_contra]):
    """What a log is replayed into."""

    def replay(self, record: R_contra, *, offset: int, producer_id: int) -> None:
        """Make a record that is in the log part of the state; in a transaction, once that is committed."""
        ...

    def end_transaction(self, producer_id: int, *, committed: bool) -> None: ...


class RecordCodec(Protocol[R]):
    """Records of a coordinator as bytes."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """None for a record of a kind that is not known here: it is another release's."""
        ...


def replay_slice(shard: Replayed[R], codec: RecordCodec[R], piece: FileRange, offset: int) -> int:
    """Replay the batches in ``piece`` from ``offset`` on; gives the offset behind the last one."""
    data = piece.read()
    start = offset
    for frame in frames(data):
        header = check_any(data, frame)
        if header.next_offset <= start:
            continue
        if header.is_control:
            marker = read_marker(data, frame.position)
            if marker is not None:
                shard.end_transaction(header.producer_id, committed=marker.control_type is ControlType.COMMIT)
        else:
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER
            for record in read_any(data, frame.position):
                if record.offset < start or record.key is None:
                    continue
                decoded = codec.decode(record.key, record.value)
                if decoded is not None:
                    shard.replay(decoded, offset=record.offset, producer_id=producer_id)
        offset = header.next_offset
    if offset == start:
        raise CorruptionError(f"{piece.file.path}: no batch at {piece.position}")
    return offset
