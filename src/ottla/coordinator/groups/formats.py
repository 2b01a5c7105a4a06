"""The records of ``__consumer_offsets``, as Kafka 3.9 writes them.

    key      version i16, then
             0, 1   group string, topic string, partition i32       a committed offset
             2      group string                                    a group's members
    value    version i16, then the fields of OffsetCommitValue or GroupMetadataValue; none at all takes the key away

Written are offsets in version 3 (1 if the client said how long to keep them, which no other version can) and groups in
version 3; read are all versions. Kinds with a key from 3 on belong to the newer group protocols, and are passed over.

A coordinator has offsets by the million, and loading them is what a failover waits for. So their keys, and their values in the
versions that are written, are packed here by hand, and values without metadata are kept as they are until somebody asks for
them; for all else there is the codec of ``wire``:

    key          version i16 (0 or 1), group string, topic string, partition i32
    value 1      version i16, offset i64, metadata string, commit timestamp i64, expire timestamp i64
    value 3      version i16, offset i64, leader epoch i32, metadata string, commit timestamp i64
    string       length i16, UTF-8
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from mypy_extensions import i64

from ottla.base.errors import CorruptionError
from ottla.wire import DecodeError, EncodeError, decode, encode
from ottla.wire.messages.group_metadata import GroupMetadataKey, GroupMetadataValue
from ottla.wire.messages.offset_commit import OffsetCommitValue

_VERSION = Struct(">h")
_LENGTH = Struct(">h")
_KEY = Struct(">hh")
_PARTITION = Struct(">i")
_VALUE_1 = Struct(">hqh")
_VALUE_3 = Struct(">hqih")
_TIME = Struct(">q")
_PLAIN_3 = Struct(">hqihq")
"""A value of version 3 without metadata, as most are."""
_PLAIN_BYTES: Final = 24
_PLAIN_LENGTH_AT: Final = 14
_OFFSET_KEYS: Final = (0, 1)
_OFFSET_KEY: Final = 1
_GROUP_KEY: Final = 2
_OFFSET_VALUE: Final = 3
_EXPIRING_VALUE: Final = 1
_GROUP_VALUE: Final = 3
NEVER: Final = -1


class CommittedOffset(NamedTuple):
    """What a client committed for a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NEVER
    """When the client itself said; otherwise the broker's retention decides."""


Kept = CommittedOffset | bytes
"""Bytes are a plain value as it is in the log, which is known to be one and has not been read."""


class OffsetRecord:
    """A class and no tuple: a million of them are made when a coordinator loads, and that is what takes its time."""

    __slots__ = ("group_id", "kept", "partition", "topic")

    def __init__(self, group_id: str, topic: str, partition: int, kept: Kept | None) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.kept = kept
        """None takes it away."""

    @property
    def value(self) -> CommittedOffset | None:
        return None if self.kept is None else offset_of(self.kept)


class GroupRecord(NamedTuple):
    group_id: str
    value: GroupMetadataValue | None
    """None takes it away."""


Stored = OffsetRecord | GroupRecord


class GroupCodec:
    """``Stored`` as keys and values of records. One worker decodes with it."""

    def __init__(self) -> None:
        # A commit has many partitions of one topic, so what stands before the partition is mostly that of the record before.
        self._head: bytes | None = None
        self._group = ""
        self._topic = ""

    def encode(self, record: Stored) -> tuple[bytes, bytes | None]:
        """Raises EncodeError on what does not fit: a group's id may have 32,767 bytes."""
        if isinstance(record, OffsetRecord):
            group, topic = record.group_id.encode(), record.topic.encode()
            try:
                key = _KEY.pack(_OFFSET_KEY, len(group)) + group + _LENGTH.pack(len(topic)) + topic
                return key + _PARTITION.pack(record.partition), _offset_value(record.kept)
            except struct_error as error:
                raise EncodeError(f"an offset of a group cannot be written: {error}") from error
        value = None if record.value is None else _versioned(record.value, _GROUP_VALUE)
        return _versioned(GroupMetadataKey(group=record.group_id), _GROUP_KEY), value

    def decode(self, key: bytes, value: bytes | None) -> Stored | None:
        """Raises CorruptionError on what cannot be read."""
        at = len(key) - _PARTITION.size
        head = key[:at] if at > 0 else b""
        if head == self._head:
            return OffsetRecord(self._group, self._topic, _i32(key, at), _read(value))
        try:
            version = _version(key)
            if version in _OFFSET_KEYS:
                group, at = _string(key, _VERSION.size)
                topic, at = _string(key, at)
                if at + _PARTITION.size > len(key):
                    raise CorruptionError("a committed offset of no partition")
                if at == len(head):
                    self._head, self._group, self._topic = head, group, topic
                return OffsetRecord(group, topic, _i32(key, at), _read(value))
            if version == _GROUP_KEY:
                group_id = decode(GroupMetadataKey, version, key, _VERSION.size).group
                return GroupRecord(group_id, _read_group(value))
        except (DecodeError, struct_error, UnicodeDecodeError) as error:
            raise CorruptionError(f"a record of a group cannot be read: {error}") from error
        return None


def _versioned(message: GroupMetadataKey | GroupMetadataValue, version: int) -> bytes:
    return _VERSION.pack(version) + encode(message, version)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise CorruptionError(f"a record of a group of {len(data)} bytes has no version")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    if length < 0 or at + length > len(data):
        raise CorruptionError(f"a string of {length} bytes in a record of a group that has {len(data) - at} left")
    return data[at : at + length].decode(), at + length


def _i32(data: bytes, at: i64) -> int:
    number: i64 = data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
    return number if number < 1 << 31 else number - (1 << 32)


def offset_of(kept: Kept) -> CommittedOffset:
    if not isinstance(kept, bytes):
        return kept
    _, offset, leader_epoch, _, committed_ms = _PLAIN_3.unpack(kept)
    return CommittedOffset(offset, leader_epoch, "", committed_ms)


def _offset_value(value: Kept | None) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    offset, leader_epoch, text, committed_ms, expire_ms = value
    metadata = text.encode()
    if expire_ms == NEVER:
        head = _VALUE_3.pack(_OFFSET_VALUE, offset, leader_epoch, len(metadata))
        return head + metadata + _TIME.pack(committed_ms)
    head = _VALUE_1.pack(_EXPIRING_VALUE, offset, len(metadata))
    return head + metadata + _TIME.pack(committed_ms) + _TIME.pack(expire_ms)


def _read(value: bytes | None) -> Kept | None:
    if value is None or _is_plain(value):
        return value
    try:
        return _read_offset(value)
    except (DecodeError, struct_error, UnicodeDecodeError) as error:
        raise CorruptionError(f"a committed offset cannot be read: {error}") from error


def _is_plain(value: bytes) -> bool:
    """Version 3, and no metadata: nothing in it can be wrong."""
    if len(value) != _PLAIN_BYTES or value[0] != 0 or value[1] != _OFFSET_VALUE:
        return False
    return value[_PLAIN_LENGTH_AT] == 0 and value[_PLAIN_LENGTH_AT + 1] == 0


def _read_offset(value: bytes) -> CommittedOffset:
    version = _version(value)
    if version == _OFFSET_VALUE:
        _, offset, leader_epoch, _ = _VALUE_3.unpack_from(value)
        metadata, at = _string(value, _VALUE_3.size - _LENGTH.size)
        return CommittedOffset(offset, leader_epoch, metadata, _TIME.unpack_from(value, at)[0])
    read = decode(OffsetCommitValue, version, value, _VERSION.size)
    return CommittedOffset(read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, read.expire_timestamp)


def _read_group(value: bytes | None) -> GroupMetadataValue | None:
    if value is None:
        return None
    version = _version(value)
    group = decode(GroupMetadataValue, version, value, _VERSION.size)
    for member in group.members:
        if version == 0:  # which had one timeout for both
            member.rebalance_timeout = member.session_timeout
    return group
