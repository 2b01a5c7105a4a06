"""Fetch, read and written without the interpreter; see ``typed``.

Requests are read here, those of followers too; other tagged fields are left to the table. Answers are written here
unless they have a leader or a diverging epoch to tell of. Records of any size become a part of their own, uncopied, and may lie in a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i64

from ottla.base.filebytes import FileBytes
from ottla.wire.fetchclient import REPLICA_STATE_BYTES, REPLICA_STATE_TAG
from ottla.wire.message import ZERO_UUID, Buffer, Part
from ottla.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.wire.primitives import STRING_BYTES_MAX
from ottla.wire.typed import LONG, SHORT, begun, finish, is_string, read_length, write_length, write_string

FROM: Final = 4
"""Below, nothing is typed: nobody uses it."""
_LOG_START_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
_RACKS_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_NO_REPLICA_ID_FROM: Final = 15
_COPIED_BYTES_MAX: Final = 1024
"""Records up to here are copied: another part in a vectored write costs more than that."""


class FetchDecoder:
    """Called as every decoder; ``of_the_table`` is the one made from the table."""

    def __init__(self, version: int, of_the_table: Callable[..., FetchRequest]) -> None:
        self._version: i64 = version
        self._of_the_table = of_the_table

    def __call__(self, buf: Buffer, pos: int = 0) -> FetchRequest:
        if isinstance(buf, bytes):
            made = _read(buf, pos, self._version)
            if made is not None:
                return made
        return self._of_the_table(buf, pos)


def _read(buf: bytes, at: i64, version: i64) -> FetchRequest | None:
    """None for anything that is not as it should be, and for tagged fields but the follower's."""
    flexible = version >= _FLEXIBLE_FROM
    request = FetchRequest()
    try:
        if version < _NO_REPLICA_ID_FROM:
            request.replica_id = read_i32_be(buf, at)
            at += 4
        request.max_wait_ms = read_i32_be(buf, at)
        request.min_bytes = read_i32_be(buf, at + 4)
        request.max_bytes = read_i32_be(buf, at + 8)
        level: i64 = buf[at + 12]
        request.isolation_level = level - 256 if level > 127 else level
        at += 13
        if version >= _SESSIONS_FROM:
            request.session_id = read_i32_be(buf, at)
            request.session_epoch = read_i32_be(buf, at + 4)
            at += 8
        count, at = read_length(buf, at, LONG, flexible)
        if count < 0:
            return None
        for _ in range(count):  # each takes bytes, so the frame ends before there are too many
            topic = FetchTopic()
            at = _read_topic(buf, at, version, topic)
            if at < 0:
                return None
            request.topics.append(topic)
        if version >= _SESSIONS_FROM:
            at = _read_rest(buf, at, version, request)
            if at < 0:
                return None
        if flexible and buf[at] != 0 and not _read_replica(buf, at, version, request):
            return None
    except IndexError:
        return None
    return request


def _read_replica(buf: bytes, at: i64, version: i64, request: FetchRequest) -> bool:
    """Which follower asks: a tagged field, the only one; False for anything else."""
    if version < _NO_REPLICA_ID_FROM or buf[at] != 1 or buf[at + 1] != REPLICA_STATE_TAG:
        return False
    if buf[at + 2] != REPLICA_STATE_BYTES or buf[at + 15] != 0:
        return False
    request.replica_state = ReplicaState(replica_id=read_i32_be(buf, at + 3), replica_epoch=read_i64_be(buf, at + 7))
    return True


def _read_topic(buf: bytes, at: i64, version: i64, topic: FetchTopic) -> i64:
    """Where it ends; -1 for one that is not as it should be."""
    flexible = version >= _FLEXIBLE_FROM
    if version >= _TOPIC_IDS_FROM:
        topic.topic_id = buf[at : at + 16]
        at += 16
    else:
        size, at = read_length(buf, at, SHORT, flexible)
        if not is_string(buf, at, size):
            return -1
        topic.topic = buf[at : at + size].decode("utf-8", "replace")
        at += size
    count, at = read_length(buf, at, LONG, flexible)
    if count < 0:
        return -1
    for _ in range(count):
        one = FetchPartition(partition=read_i32_be(buf, at))
        at += 4
        if version >= _LEADER_EPOCH_FROM:
            one.current_leader_epoch = read_i32_be(buf, at)
            at += 4
        one.fetch_offset = read_i64_be(buf, at)
        at += 8
        if flexible:
            one.last_fetched_epoch = read_i32_be(buf, at)
            at += 4
        if version >= _LOG_START_FROM:
            one.log_start_offset = read_i64_be(buf, at)
            at += 8
        one.partition_max_bytes = read_i32_be(buf, at)
        at += 4
        if flexible:
            if buf[at] != 0:
                return -1
            at += 1
        topic.partitions.append(one)
    if flexible:
        if buf[at] != 0:
            return -1
        at += 1
    return at


def _read_rest(buf: bytes, at: i64, version: i64, request: FetchRequest) -> i64:
    """What a session forgets, and the rack; where that ends, or -1."""
    flexible = version >= _FLEXIBLE_FROM
    count, at = read_length(buf, at, LONG, flexible)
    if count < 0:
        return -1
    for _ in range(count):
        topic = ForgottenTopic()
        if version >= _TOPIC_IDS_FROM:
            topic.topic_id = buf[at : at + 16]
            at += 16
        else:
            size, at = read_length(buf, at, SHORT, flexible)
            if not is_string(buf, at, size):
                return -1
            topic.topic = buf[at : at + size].decode("utf-8", "replace")
            at += size
        partitions, at = read_length(buf, at, LONG, flexible)
        if partitions < 0:
            return -1
        for _each in range(partitions):
            topic.partitions.append(read_i32_be(buf, at))
            at += 4
        if flexible:
            if buf[at] != 0:
                return -1
            at += 1
        request.forgotten_topics_data.append(topic)
    if version >= _RACKS_FROM:
        size, at = read_length(buf, at, SHORT, flexible)
        if not is_string(buf, at, size):
            return -1
        request.rack_id = buf[at : at + size].decode("utf-8", "replace")
        at += size
    return at


class FetchFramer:
    """Called as every framer of responses; ``of_the_table`` is the one made from the table."""

    def __init__(self, version: int, of_the_table: Callable[[FetchResponse, int], list[Part]]) -> None:
        self._version: i64 = version
        self._of_the_table = of_the_table

    def __call__(self, message: FetchResponse, correlation_id: int) -> list[Part]:
        if _is_plain(message, self._version):
            return _written(message, correlation_id, self._version)
        return self._of_the_table(message, correlation_id)


def _is_plain(message: FetchResponse, version: i64) -> bool:
    if message.node_endpoints or (version < _SESSIONS_FROM and message.session_id != 0):
        return False
    for topic in message.responses:
        if len(topic.topic) > STRING_BYTES_MAX // 4 or len(topic.topic_id) != len(ZERO_UUID):
            return False
        for one in topic.partitions:
            if one.current_leader is not None or one.diverging_epoch is not None or one.snapshot_id is not None:
                return False
            if version < _RACKS_FROM and one.preferred_read_replica != -1:
                return False
            if not isinstance(one.records, bytes) and not isinstance(one.records, FileBytes):
                return False
    return True


def _written(message: FetchResponse, correlation_id: int, version: i64) -> list[Part]:
    flexible = version >= _FLEXIBLE_FROM
    first = out = begun(correlation_id, flexible)
    parts: list[Part] = []
    behind: i64 = 0
    write_i32_be(out, message.throttle_time_ms)
    if version >= _SESSIONS_FROM:
        write_i16_be(out, message.error_code)
        write_i32_be(out, message.session_id)
    write_length(out, len(message.responses), LONG, flexible)
    for topic in message.responses:
        if version >= _TOPIC_IDS_FROM:
            out.write(topic.topic_id)
        else:
            write_string(out, topic.topic, flexible)
        write_length(out, len(topic.partitions), LONG, flexible)
        for one in topic.partitions:
            _write_partition(out, one, version)
            records = one.records
            assert records is not None
            size = len(records)
            write_length(out, size, LONG, flexible)
            if size <= _COPIED_BYTES_MAX and isinstance(records, bytes):
                out.write(records)
            else:
                if out is not first:
                    parts.append(out.getvalue())
                    behind += len(out)
                parts.append(records)
                behind += size
                out = BytesWriter()
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    if out is not first and len(out) > 0:
        parts.append(out.getvalue())
        behind += len(out)
    parts.insert(0, finish(first, behind))
    return parts


def _write_partition(out: BytesWriter, one: PartitionData, version: i64) -> None:
    flexible = version >= _FLEXIBLE_FROM
    write_i32_be(out, one.partition_index)
    write_i16_be(out, one.error_code)
    write_i64_be(out, one.high_watermark)
    write_i64_be(out, one.last_stable_offset)
    if version >= _LOG_START_FROM:
        write_i64_be(out, one.log_start_offset)
    aborted = one.aborted_transactions
    if aborted is None:
        write_length(out, -1, LONG, flexible)
    else:
        write_length(out, len(aborted), LONG, flexible)
        for each in aborted:
            write_i64_be(out, each.producer_id)
            write_i64_be(out, each.first_offset)
            if flexible:
                out.append(0)
    if version >= _RACKS_FROM:
        write_i32_be(out, one.preferred_read_replica)
