"""Produce, read and written without the interpreter; see ``typed``.

Requests are read whole. Answers are written here if they have nothing to explain: no record that was refused, no leader to
turn to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i64

from ottla.wire.errors import DecodeError
from ottla.wire.message import ZERO_UUID, Buffer, Part
from ottla.wire.messages.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.primitives import STRING_BYTES_MAX
from ottla.wire.typed import LONG, SHORT, begun, finish, is_string, read_length, write_length, write_string

FROM: Final = 3
"""Below, nothing is typed: nobody uses it."""
NAMED_MAX: Final = 100_000
"""Topics and partitions that are read here: a request may be as large as records make it, or be made of nothing but names."""
UNUSUAL_BYTES_MAX: Final = 1 << 20
"""Of a request that is left to the decoder of the table, which does not count what it makes."""
_LOG_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 13


class ProduceDecoder:
    """Called as every decoder; ``of_the_table`` is the one made from the table."""

    def __init__(self, version: int, of_the_table: Callable[..., ProduceRequest]) -> None:
        self._version: i64 = version
        self._of_the_table = of_the_table

    def __call__(self, buf: Buffer, pos: int = 0) -> ProduceRequest:
        if isinstance(buf, bytes):
            made = _read(buf, pos, self._version)
            if made is not None:
                return made
            if len(buf) > UNUSUAL_BYTES_MAX:
                raise DecodeError(f"a Produce of {len(buf)} bytes that is none, or out of the ordinary")
        return self._of_the_table(buf, pos)


def _read(buf: bytes, at: i64, version: i64) -> ProduceRequest | None:
    """None for anything that is not as it should be."""
    flexible = version >= _FLEXIBLE_FROM
    transactional_id: str | None = None
    try:
        size, at = read_length(buf, at, SHORT, flexible)
        if is_string(buf, at, size):
            transactional_id = buf[at : at + size].decode("utf-8", "replace")
            at += size
        elif size != -1:
            return None
        acks = read_i16_be(buf, at)
        timeout_ms = read_i32_be(buf, at + 2)
        count, at = read_length(buf, at + 6, LONG, flexible)
        if count < 0 or count > NAMED_MAX:
            return None
        topics: list[TopicProduceData] = []
        named: i64 = count
        for _ in range(count):  # each takes bytes, so the frame ends before there are too many
            topic, at = _read_topic(buf, at, version, flexible, NAMED_MAX - named)
            if topic is None:
                return None
            named += len(topic.partition_data)
            topics.append(topic)
        if flexible and buf[at] != 0:
            return None
    except IndexError:
        return None
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def _read_topic(
    buf: bytes, at: i64, version: i64, flexible: bool, partitions_max: i64
) -> tuple[TopicProduceData | None, i64]:
    name, topic_id = "", ZERO_UUID
    if version >= _TOPIC_IDS_FROM:
        topic_id = buf[at : at + 16]
        at += 16
    else:
        size, at = read_length(buf, at, SHORT, flexible)
        if not is_string(buf, at, size):
            return None, at
        name = buf[at : at + size].decode("utf-8", "replace")
        at += size
    count, at = read_length(buf, at, LONG, flexible)
    if count < 0 or count > partitions_max:
        return None, at
    partitions: list[PartitionProduceData] = []
    for _ in range(count):
        index = read_i32_be(buf, at)
        size, at = read_length(buf, at + 4, LONG, flexible)
        if size < 0 or size > len(buf) - at:
            return None, at
        partitions.append(PartitionProduceData(index=index, records=buf[at : at + size]))
        at += size
        if flexible:
            if buf[at] != 0:
                return None, at
            at += 1
    if flexible:
        if buf[at] != 0:
            return None, at
        at += 1
    return TopicProduceData(name=name, topic_id=topic_id, partition_data=partitions), at


class ProduceFramer:
    """Called as every framer of responses; ``of_the_table`` is the one made from the table."""

    def __init__(self, version: int, of_the_table: Callable[[ProduceResponse, int], list[Part]]) -> None:
        self._version: i64 = version
        self._of_the_table = of_the_table

    def __call__(self, message: ProduceResponse, correlation_id: int) -> list[Part]:
        if _is_plain(message):
            return [_written(message, correlation_id, self._version)]
        return self._of_the_table(message, correlation_id)


def _is_plain(message: ProduceResponse) -> bool:
    if message.node_endpoints:
        return False
    for topic in message.responses:
        if len(topic.name) > STRING_BYTES_MAX // 4 or len(topic.topic_id) != len(ZERO_UUID):
            return False
        for one in topic.partition_responses:
            if one.record_errors or one.error_message is not None or one.current_leader is not None:
                return False
    return True


def _written(message: ProduceResponse, correlation_id: int, version: i64) -> bytes:
    flexible = version >= _FLEXIBLE_FROM
    out = begun(correlation_id, flexible)
    write_length(out, len(message.responses), LONG, flexible)
    for topic in message.responses:
        if version >= _TOPIC_IDS_FROM:
            out.write(topic.topic_id)
        else:
            write_string(out, topic.name, flexible)
        write_length(out, len(topic.partition_responses), LONG, flexible)
        for one in topic.partition_responses:
            _write_partition(out, one, version)
        if flexible:
            out.append(0)
    write_i32_be(out, message.throttle_time_ms)
    if flexible:
        out.append(0)
    return finish(out)


def _write_partition(out: BytesWriter, one: PartitionProduceResponse, version: i64) -> None:
    write_i32_be(out, one.index)
    write_i16_be(out, one.error_code)
    write_i64_be(out, one.base_offset)
    write_i64_be(out, one.log_append_time_ms)
    if version >= _LOG_START_FROM:
        write_i64_be(out, one.log_start_offset)
    if version >= _FLEXIBLE_FROM:
        out.write(b"\1\0\0")  # no error of a record, no message, no tags
    elif version >= _RECORD_ERRORS_FROM:
        out.write(b"\0\0\0\0\xff\xff")
