"""Replicas compared byte by byte, as consumers read them from each broker that holds one.

From the first offset that all have to the last that all have committed, every replica has to give the same batches. Who is
away is told of, and the others are compared. Fetching from followers is what consumers in their racks do (KIP-392), so any
cluster since Kafka 2.4 answers.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from ottla.cli.client.operating import Broker, OperationError, Operations
from ottla.cli.client.replanning import Where
from ottla.wire import ErrorCode, in_memory
from ottla.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_CHUNK_BYTES: Final = 1 << 20
_HEAD: Final = Struct(">qi")
"""Of a batch: its base offset, and how many bytes follow."""
_LAST_DELTA: Final = Struct(">i")
_LAST_DELTA_AT: Final = 23
_CONSUMER: Final = -1
_EARLIEST: Final = -2


class Chunk(NamedTuple):
    high_watermark: int
    batches: list[tuple[int, bytes]]
    """Whole batches, each with the offset behind it."""


class Comparison(NamedTuple):
    where: Where
    compared: int
    """Offsets that all replicas that are there agree on."""
    difference: str | None


def compare(operations: Operations, where: Where) -> Comparison:
    partition = operations.partitions[where]
    absent = [broker for broker in partition.replicas if broker not in operations.brokers]
    holders = [operations.brokers[broker] for broker in partition.replicas if broker in operations.brokers]
    if not absent:
        return _compare(operations, where, holders)
    away = "; ".join(f"broker {broker} is away" for broker in absent)
    if len(holders) < 2:
        return Comparison(where, 0, away)
    found = _compare(operations, where, holders)
    return found._replace(difference=f"{away}; {found.difference or 'the others agree'}")


def _compare(operations: Operations, where: Where, holders: list[Broker]) -> Comparison:
    try:
        offset = begin = _earliest(operations, where)
        end = min(_fetch(operations, holder, where, offset).high_watermark for holder in holders)
        while offset < end:
            chunks = [_fetch(operations, holder, where, offset) for holder in holders]
            common = min(len(chunk.batches) for chunk in chunks)
            if not common:
                return Comparison(where, offset - begin, f"at offset {offset}: a replica has nothing")
            for at in range(common):
                if len({chunk.batches[at] for chunk in chunks}) > 1:
                    return Comparison(where, offset - begin, _difference(holders, chunks, at, offset))
                offset = chunks[0].batches[at][0]
    except OperationError as error:
        return Comparison(where, 0, str(error))
    return Comparison(where, max(end - begin, 0), None)


def _difference(holders: list[Broker], chunks: list[Chunk], at: int, offset: int) -> str:
    groups: dict[tuple[int, bytes], list[int]] = {}
    for holder, chunk in zip(holders, chunks, strict=True):
        groups.setdefault(chunk.batches[at], []).append(holder.broker_id)
    told = " and ".join(f"broker {', '.join(map(str, brokers))}" for brokers in groups.values())
    return f"at offset {offset}: {told} differ"


def _earliest(operations: Operations, where: Where) -> int:
    leader = operations.brokers.get(operations.partitions[where].leader)
    if leader is None:
        raise OperationError("nobody leads it")
    wanted = ListOffsetsPartition(partition_index=where[1], current_leader_epoch=-1, timestamp=_EARLIEST)
    request = ListOffsetsRequest(replica_id=_CONSUMER, topics=[ListOffsetsTopic(name=where[0], partitions=[wanted])])
    answer = operations.ask(leader, request, ListOffsetsResponse)
    (told,) = (each for topic in answer.topics for each in topic.partitions)
    if told.error_code:
        raise OperationError(f"broker {leader.broker_id}: {ErrorCode(told.error_code).name}")
    return told.offset


def _fetch(operations: Operations, broker: Broker, where: Where, offset: int) -> Chunk:
    partition = FetchPartition(
        partition=where[1],
        current_leader_epoch=-1,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=_CHUNK_BYTES,
    )
    request = FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_CHUNK_BYTES,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=where[0], partitions=[partition])],
    )
    answer = operations.ask(broker, request, FetchResponse)
    (told,) = (each for topic in answer.responses for each in topic.partitions)
    if told.error_code:
        raise OperationError(f"broker {broker.broker_id}: {ErrorCode(told.error_code).name}")
    batches = [] if told.records is None else _whole_batches(bytes(in_memory(told.records)))
    return Chunk(told.high_watermark, batches)


def _whole_batches(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    pos = 0
    while pos + _HEAD.size <= len(data):
        base, length = _HEAD.unpack_from(data, pos)
        end = pos + _HEAD.size + length
        if end > len(data) or length <= _LAST_DELTA_AT:
            break
        (delta,) = _LAST_DELTA.unpack_from(data, pos + _LAST_DELTA_AT)
        found.append((base + delta + 1, data[pos:end]))
        pos = end
    return found
