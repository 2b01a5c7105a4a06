"""Fetch from its other end, requests written and answers read without the interpreter; see ``typed``.

A follower fetches for every few records that its leader takes, so this is on the way of every produce with acks=all. Typed is
what followers say and are told, topics by their ids; a diverging epoch, or a leader to go to, is left to the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i64, u8

from ottla.wire.message import ZERO_UUID, Buffer
from ottla.wire.messages.k01_fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.primitives import STRING_BYTES_MAX
from ottla.wire.typed import LONG, finish, read_length, write_length, write_string

READ_FROM = 13
"""Topics go by their ids."""
WRITTEN_FROM = 15
"""The replica is a tagged field."""
REPLICA_STATE_TAG: Final = 1
REPLICA_STATE_BYTES: Final = 13
"""An id, an epoch, and no tagged fields."""
_KEY: Final = 1
_NO_HIGH_WATERMARK: Final = 9223372036854775807


class FetchRequestFramer:
    """Called as every framer of requests; ``tail`` is the end of their header, ``of_the_table`` what the table made."""

    def __init__(self, version: int, tail: bytes, of_the_table: Callable[[FetchRequest, int], list[Buffer]]) -> None:
        self._version: i64 = version
        self._tail = tail
        self._of_the_table = of_the_table

    def __call__(self, message: FetchRequest, correlation_id: int) -> list[Buffer]:
        if not _is_plain(message):
            return self._of_the_table(message, correlation_id)
        out = BytesWriter()
        write_i32_be(out, 0)
        write_i16_be(out, i16(_KEY))
        write_i16_be(out, i16(self._version))
        write_i32_be(out, correlation_id)
        out.write(self._tail)
        _write(out, message)
        return [finish(out)]


def _is_plain(message: FetchRequest) -> bool:
    if message.cluster_id is not None or message.replica_id != -1 or len(message.rack_id) > STRING_BYTES_MAX // 4:
        return False
    for topic in message.topics:
        if len(topic.topic_id) != len(ZERO_UUID):
            return False
        for one in topic.partitions:
            if one.replica_directory_id != ZERO_UUID or one.high_watermark != _NO_HIGH_WATERMARK:
                return False
    return all(len(topic.topic_id) == len(ZERO_UUID) for topic in message.forgotten_topics_data)


def _write(out: BytesWriter, message: FetchRequest) -> None:
    write_i32_be(out, message.max_wait_ms)
    write_i32_be(out, message.min_bytes)
    write_i32_be(out, message.max_bytes)
    out.append(u8(message.isolation_level & 0xFF))
    write_i32_be(out, message.session_id)
    write_i32_be(out, message.session_epoch)
    write_length(out, len(message.topics), LONG, True)
    for topic in message.topics:
        out.write(topic.topic_id)
        write_length(out, len(topic.partitions), LONG, True)
        for one in topic.partitions:
            _write_partition(out, one)
        out.append(0)
    write_length(out, len(message.forgotten_topics_data), LONG, True)
    for forgotten in message.forgotten_topics_data:
        out.write(forgotten.topic_id)
        write_length(out, len(forgotten.partitions), LONG, True)
        for number in forgotten.partitions:
            write_i32_be(out, number)
        out.append(0)
    write_string(out, message.rack_id, True)
    replica = message.replica_state
    if replica is None:
        out.append(0)
        return
    out.append(1)
    out.append(REPLICA_STATE_TAG)
    out.append(REPLICA_STATE_BYTES)
    write_i32_be(out, replica.replica_id)
    write_i64_be(out, replica.replica_epoch)
    out.append(0)


def _write_partition(out: BytesWriter, one: FetchPartition) -> None:
    write_i32_be(out, one.partition)
    write_i32_be(out, one.current_leader_epoch)
    write_i64_be(out, one.fetch_offset)
    write_i32_be(out, one.last_fetched_epoch)
    write_i64_be(out, one.log_start_offset)
    write_i32_be(out, one.partition_max_bytes)
    out.append(0)


class FetchResponseDecoder:
    """Called as every decoder; ``of_the_table`` is the one made from the table."""

    def __init__(self, of_the_table: Callable[..., FetchResponse]) -> None:
        self._of_the_table = of_the_table

    def __call__(self, buf: Buffer, pos: int = 0) -> FetchResponse:
        if isinstance(buf, bytes):
            made = _read(buf, pos)
            if made is not None:
                return made
        return self._of_the_table(buf, pos)


def _read(buf: bytes, at: i64) -> FetchResponse | None:
    """None for anything that is not as it should be, and for tagged fields."""
    try:
        response = FetchResponse(
            throttle_time_ms=read_i32_be(buf, at),
            error_code=read_i16_be(buf, at + 4),
            session_id=read_i32_be(buf, at + 6),
        )
        count, at = read_length(buf, at + 10, LONG, True)
        if count < 0:
            return None
        for _ in range(count):  # each takes bytes, so the frame ends before there are too many
            topic = FetchableTopicResponse(topic_id=buf[at : at + 16])
            partitions, at = read_length(buf, at + 16, LONG, True)
            if partitions < 0:
                return None
            for _each in range(partitions):
                data = PartitionData()
                at = _read_partition(buf, at, data)
                if at < 0:
                    return None
                topic.partitions.append(data)
            if buf[at] != 0:
                return None
            at += 1
            response.responses.append(topic)
        if buf[at] != 0:
            return None
    except IndexError:
        return None
    return response


def _read_partition(buf: bytes, at: i64, data: PartitionData) -> i64:
    """Where it ends; -1 for one that is left to the table."""
    data.partition_index = read_i32_be(buf, at)
    data.error_code = read_i16_be(buf, at + 4)
    data.high_watermark = read_i64_be(buf, at + 6)
    data.last_stable_offset = read_i64_be(buf, at + 14)
    data.log_start_offset = read_i64_be(buf, at + 22)
    count, at = read_length(buf, at + 30, LONG, True)
    if count < -1:
        return -1
    aborted: list[AbortedTransaction] = []
    for _ in range(count):
        aborted.append(AbortedTransaction(producer_id=read_i64_be(buf, at), first_offset=read_i64_be(buf, at + 8)))
        if buf[at + 16] != 0:
            return -1
        at += 17
    data.aborted_transactions = None if count < 0 else aborted
    data.preferred_read_replica = read_i32_be(buf, at)
    size, at = read_length(buf, at + 4, LONG, True)
    if size < -1 or size > len(buf) - at:
        return -1
    if size >= 0:
        data.records = memoryview(buf)[at : at + size]
        at += size
    return at + 1 if buf[at] == 0 else -1
