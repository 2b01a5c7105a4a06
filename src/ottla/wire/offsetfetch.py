"""Answers to OffsetFetch, written without the interpreter; see ``typed``. Every member of a group asks when it settles."""

from __future__ import annotations

from collections.abc import Callable

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i64

from ottla.wire.message import ZERO_UUID, Part
from ottla.wire.messages.k09_offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
)
from ottla.wire.primitives import STRING_BYTES_MAX
from ottla.wire.typed import LONG, SHORT, begun, finish, write_length, write_string

FROM = 8
"""Below, a request is about one group."""
_BY_ID_FROM = 10
_CHARACTERS_MAX = STRING_BYTES_MAX // 4


class OffsetFetchFramer:
    """Called as every framer of responses; ``of_the_table`` is the one made from the table."""

    def __init__(self, version: int, of_the_table: Callable[[OffsetFetchResponse, int], list[Part]]) -> None:
        self._version: i64 = version
        self._of_the_table = of_the_table

    def __call__(self, message: OffsetFetchResponse, correlation_id: int) -> list[Part]:
        if _is_plain(message):
            return [_written(message, correlation_id, self._version)]
        return self._of_the_table(message, correlation_id)


def _is_plain(message: OffsetFetchResponse) -> bool:
    """Nothing is in it that is too long, or of another version."""
    if message.topics:
        return False
    for group in message.groups:
        if len(group.group_id) > _CHARACTERS_MAX:
            return False
        for topic in group.topics:
            if len(topic.name) > _CHARACTERS_MAX or len(topic.topic_id) != len(ZERO_UUID):
                return False
            for one in topic.partitions:
                if one.metadata is not None and len(one.metadata) > _CHARACTERS_MAX:
                    return False
    return True


def _written(message: OffsetFetchResponse, correlation_id: int, version: i64) -> bytes:
    out = begun(correlation_id, flexible=True)
    write_i32_be(out, message.throttle_time_ms)
    write_length(out, len(message.groups), LONG, flexible=True)
    for group in message.groups:
        _write_group(out, group, version)
    out.append(0)
    return finish(out)


def _write_group(out: BytesWriter, group: OffsetFetchResponseGroup, version: i64) -> None:
    write_string(out, group.group_id, flexible=True)
    write_length(out, len(group.topics), LONG, flexible=True)
    for topic in group.topics:
        if version >= _BY_ID_FROM:
            out.write(topic.topic_id)
        else:
            write_string(out, topic.name, flexible=True)
        write_length(out, len(topic.partitions), LONG, flexible=True)
        for one in topic.partitions:
            _write_partition(out, one)
        out.append(0)
    write_i16_be(out, group.error_code)
    out.append(0)


def _write_partition(out: BytesWriter, one: OffsetFetchResponsePartitions) -> None:
    write_i32_be(out, one.partition_index)
    write_i64_be(out, one.committed_offset)
    write_i32_be(out, one.committed_leader_epoch)
    metadata = one.metadata
    if metadata is None:
        write_length(out, -1, SHORT, flexible=True)
    else:
        write_string(out, metadata, flexible=True)
    write_i16_be(out, one.error_code)
    out.append(0)
