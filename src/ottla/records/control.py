"""Control records: the marks that end a transaction, written by brokers among the records of a partition.

key      version i16 (0), type i16 (0 abort, 1 commit)
value    version i16 (0), coordinator_epoch i32
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.records.batch import NO_LEADER_EPOCH
from ottla.records.errors import InvalidRecordError
from ottla.records.record import Record, build_batch, read_batch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class ControlType(IntEnum):
    """Types that exist in ZooKeeper mode; a reader passes over any other."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    control_type: ControlType
    coordinator_epoch: int


def build_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    record = Record(_KEY.pack(0, marker.control_type), _VALUE.pack(0, marker.coordinator_epoch), timestamp)
    return build_batch(
        [record],
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_marker(data: bytes | memoryview, position: int = 0) -> EndTransactionMarker | None:
    """The marker in the control batch at ``position``; None if it is a control record of another kind."""
    record = next(read_batch(data, position), None)
    if record is None:
        return None  # compaction may leave an empty batch, to remember the producer by
    try:
        _, kind = _KEY.unpack_from(record.key or b"")
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except struct.error as error:
        raise InvalidRecordError(f"the control record at offset {record.offset} cannot be read") from error
    return EndTransactionMarker(ControlType(kind), coordinator_epoch)
