"""Two answers to the same request held against each other, field by field.

What cannot be equal is mapped: ids by a one-to-one map that grows as they appear, times by being about now, texts by being
there. Arrays whose order Kafka leaves to a hash map are compared sorted. Everything else has to be equal, and what is let
pass has its reason in ``TOLERATED``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Final

from ottla.records import Record, RecordsError, frames, read_batch
from ottla.records.batch import FIELDS, HEADER_BYTES, LOG_APPEND_TIME_FLAG, read_header
from ottla.wire import APIS, ZERO_UUID, ErrorCode, Message
from ottla.wire.messages.k00_produce import PartitionProduceResponse
from ottla.wire.messages.k01_fetch import PartitionData
from ottla.wire.messages.k03_metadata import MetadataResponseTopic
from ottla.wire.messages.k08_offset_commit import OffsetCommitResponsePartition
from ottla.wire.messages.k09_offset_fetch import OffsetFetchResponsePartitions
from ottla.wire.messages.k15_describe_groups import DescribedGroup
from ottla.wire.messages.k18_api_versions import ApiVersionsResponse
from ottla.wire.messages.k32_describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym
from ottla.wire.table import Field, schema
from tests.compat.brokerpair import NOBODYS, NOBODYS_PRODUCER, Answer

TOLERATED: Final[dict[str, str]] = {
    "texts": "an error's message and a setting's documentation are in words of our own, but for changes of settings",
    "AlterConfigs: the order of names in a set": "Kafka iterates over a hash set",
    "order of topics, partitions, brokers and settings": "unspecified: Kafka iterates over hash maps",
    "Produce: UNKNOWN_SERVER_ERROR where ours is CORRUPT_MESSAGE, INVALID_RECORD or UNSUPPORTED_COMPRESSION_TYPE": (
        "records that do not unpack, or a codec that does not exist: Kafka lets the exception through"
    ),
    "Produce: CORRUPT_MESSAGE or UNKNOWN_SERVER_ERROR where ours is UNKNOWN_TOPIC_OR_PARTITION": (
        "Kafka looks at the frames of all batches before it looks whether it has the partition"
    ),
    "Produce by id: UNKNOWN_TOPIC_OR_PARTITION where ours is UNKNOWN_TOPIC_ID": (
        "Kafka 3.9 has no such version and is asked by name"
    ),
    "Fetch: INCONSISTENT_TOPIC_ID or UNKNOWN_TOPIC_OR_PARTITION where ours is UNKNOWN_TOPIC_ID": (
        "a session of Kafka remembers the name that a deleted topic had; clients do the same on all three"
    ),
    "Metadata: LEADER_NOT_AVAILABLE where ours tells a new topic's leaders": (
        "a topic that is created on demand: ours answers when it is ready, Kafka has the client ask again"
    ),
    "OffsetCommit and OffsetFetch by id: UNKNOWN_TOPIC_ID where Kafka does not know the name": (
        "Kafka 3.9 has no such version and is asked by name"
    ),
    "DescribeGroups 6: GROUP_ID_NOT_FOUND where Kafka tells of a dead group": "Kafka 3.9 has no such version",
    "DescribeConfigs: values of listeners, log.dirs, zookeeper.connect": "two brokers stand in two places",
    "ApiVersions: api_keys": "what is served here is not what Kafka 3.9 serves; ours lead the choice of versions here",
    "Fetch: bits of a batch's attributes that mean nothing": "Kafka drops them when it sets the time of a batch",
    "Fetch: null or empty records beside an error": "the same to a client",
    "Fetch: null or empty aborted_transactions": "the same to a client; Kafka tells null and empty without a pattern",
    "Fetch: high_watermark and last_stable_offset that end before the records beside them": (
        "Kafka reads its offsets before the log, and what is appended in between is sent with offsets of before"
    ),
    "Produce: log_start_offset beside INVALID_RECORD": (
        "Kafka tells it if it looked into the records and -1 if it looked at the batch only; no client reads it"
    ),
}
"""Every difference that the comparison lets pass, and why."""

_UNORDERED: Final[dict[str, str]] = {
    "ProduceResponse.responses": "name",
    "TopicProduceResponse.partition_responses": "index",
    "FetchResponse.responses": "topic",
    "FetchableTopicResponse.partitions": "partition_index",
    "MetadataResponse.topics": "name",
    "MetadataResponse.brokers": "node_id",
    "MetadataResponseTopic.partitions": "partition_index",
    "CreatableTopicResult.configs": "name",
    "DescribeConfigsResult.configs": "name",
    "CreatePartitionsResponse.results": "name",
    "DescribeClusterResponse.brokers": "broker_id",
    "OffsetCommitResponse.topics": "name",
    "OffsetCommitResponseTopic.partitions": "partition_index",
    "OffsetFetchResponse.topics": "name",
    "OffsetFetchResponseTopic.partitions": "partition_index",
    "OffsetFetchResponseGroup.topics": "name",
    "OffsetFetchResponseTopics.partitions": "partition_index",
    "JoinGroupResponse.members": "metadata",
    "DescribedGroup.members": "client_id",
    "ListGroupsResponse.groups": "group_id",
    "DeleteGroupsResponse.results": "group_id",
    "OffsetDeleteResponse.topics": "name",
    "OffsetDeleteResponseTopic.partitions": "partition_index",
    "ElectLeadersResponse.replica_election_results": "topic",
    "ReplicaElectionResult.partition_result": "partition_id",
    "AlterPartitionReassignmentsResponse.responses": "name",
    "ReassignableTopicResponse.partitions": "partition_index",
    "DeleteRecordsResponse.topics": "name",
    "DescribeClientQuotasResponse.entries": "entity",
    "EntryData.entity": "entity_type",
    "EntryData.values": "key",
    "AlterClientQuotasResponse.entries": "entity",
    "ResponseEntryData.entity": "entity_type",
    "DeleteRecordsTopicResult.partitions": "partition_index",
    "DescribeProducersResponse.topics": "name",
    "TopicResponse.partitions": "partition_index",
    "PartitionResponse.active_producers": "producer_id",
}
"""Arrays that Kafka fills from hash maps, and the field they are sorted by."""

_IDS: Final = {
    "topic_id": "topic",
    "producer_id": "producer",
    "session_id": "session",
    "cluster_id": "cluster",
    "port": "port",
    "member_id": "member",
    "leader": "member",
}
_TEXTS: Final = {"error_message", "batch_index_error_message", "documentation"}
_SAME_TEXTS: Final = {"AlterConfigsResourceResponse.error_message", "ResponseEntryData.error_message"}
"""Where people are told what is wrong with their settings, in Kafka's words."""
_TIMES: Final = {"log_append_time_ms", "timestamp", "last_timestamp"}
KNOWN_FLAGS: Final = 0x7F
_NOW_MS: Final = 10 * 60 * 1000
_THEMSELVES: Final[dict[str, tuple[object, ...]]] = {
    "topic": (ZERO_UUID,),
    "producer": (-1, NOBODYS_PRODUCER),
    "session": (0,),
    "cluster": (None, ""),
    "port": (-1,),
    "member": ("",),
}
"""Ids that stand for none, or for what nobody has. A topic id that is the same on both sides was made up for a request."""


class Comparison:
    """Holds what is known of how ids of one side belong to those of the other."""

    def __init__(self) -> None:
        self._there: dict[tuple[str, object], object] = {}
        self._back: dict[tuple[str, object], object] = {}

    def differences(self, left: Answer, right: Answer) -> list[str]:
        if not isinstance(left.outcome, Message) or not isinstance(right.outcome, Message):
            return [] if left.outcome == right.outcome else [f"{_shown(left.outcome)} ≠ {_shown(right.outcome)}"]
        root = schema(f"{APIS[left.step.key].name}Response")
        known = {root.name: root.fields, **root.structs}

        def carried(cls: str) -> set[str]:
            fields: tuple[Field, ...] = known[cls]
            both = (each for each in fields if left.version in each.versions and right.version in each.versions)
            return {each.attribute for each in both}

        return list(self._messages(left.outcome, right.outcome, "", carried))

    def _messages(self, left: Message, right: Message, path: str, carried: Callable[[str], set[str]]) -> Iterator[str]:
        cls = type(left).__name__
        fields = carried(cls) - _tolerated(left, right)
        for name in left.__slots__:
            if name in fields:
                one, other = getattr(left, name), getattr(right, name)
                yield from self._values(one, other, f"{path}.{name}", f"{cls}.{name}", carried, left)

    def _values(
        self, left: object, right: object, path: str, field: str, carried: Callable[[str], set[str]], owner: Message
    ) -> Iterator[str]:
        name = field.partition(".")[2]
        if isinstance(left, Message) and isinstance(right, Message):
            yield from self._messages(left, right, path, carried)
        elif isinstance(left, list) and isinstance(right, list):
            yield from self._lists(left, right, path, field, carried, owner)
        elif name in _IDS:
            yield from self._ids(_IDS[name], left, right, path)
        elif name == "records" and (getattr(owner, "error_code", 0) != 0 or None not in (left, right)):
            yield from self._records(_bytes(left), _bytes(right), path)
        elif name in _TIMES and left != right and -1 not in (left, right):
            if not (_is_now(left) and _is_now(right)):
                yield f"{path}: {left} and {right} are not both now"
        elif name == "aborted_transactions":
            if left or right:
                yield f"{path}: {left!r} ≠ {right!r}"
        elif field in _SAME_TEXTS:
            if _words(left) != _words(right):
                yield f"{path}: {left!r} ≠ {right!r}"
        elif name in _TEXTS:
            if not getattr(owner, "error_code", 1) and left != right:
                yield f"{path}: {left!r} ≠ {right!r}"
        elif left != right:
            yield f"{path}: {left!r} ≠ {right!r}"

    def _lists(
        self,
        left: list[object],
        right: list[object],
        path: str,
        field: str,
        carried: Callable[[str], set[str]],
        owner: Message,
    ) -> Iterator[str]:
        if (by := _UNORDERED.get(field)) is not None:
            left, right = (sorted(each, key=lambda item: _place(getattr(item, by))) for each in (left, right))
        if len(left) != len(right):
            yield f"{path}: {len(left)} ≠ {len(right)} elements: {_told(left)} ≠ {_told(right)}"
            return
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            which = getattr(one, by, number) if by is not None else number
            yield from self._values(one, other, f"{path}[{which}]", field, carried, owner)

    def _ids(self, kind: str, left: object, right: object, path: str) -> Iterator[str]:
        if kind == "topic" and left == right:
            return
        made_up = any(isinstance(each, bytes) and each.startswith(NOBODYS) for each in (left, right))
        if made_up or left in _THEMSELVES[kind] or right in _THEMSELVES[kind]:
            if left != right:
                yield f"{path}: {left!r} ≠ {right!r}"
            return
        there = self._there.setdefault((kind, left), right)
        back = self._back.setdefault((kind, right), left)
        if there != right or back != left:
            yield f"{path}: {kind} {left!r} was {there!r} on the other side, not {right!r}"

    def _records(self, left: bytes, right: bytes, path: str) -> Iterator[str]:
        ours, theirs = list(frames(left)), list(frames(right))
        if [frame.base_offset for frame in ours] != [frame.base_offset for frame in theirs]:
            yield f"{path}: batches at {[f.base_offset for f in ours]} ≠ {[f.base_offset for f in theirs]}"
            return
        rests = [len(data) - sum(frame.size for frame in found) for data, found in ((left, ours), (right, theirs))]
        same_sizes = [frame.size for frame in ours] == [frame.size for frame in theirs]
        # How much of the last batch fits depends on the sizes of batches of other topics, which may be packed anew.
        if same_sizes and (rests[0] > 0) != (rests[1] > 0):
            yield f"{path}: {rests[0]} ≠ {rests[1]} bytes of a batch that is not all there"
        for one, other in zip(ours, theirs, strict=True):
            yield from self._batches(left, one.position, right, other.position, f"{path}@{one.base_offset}")

    def _batches(self, left: bytes, at: int, right: bytes, other: int, path: str) -> Iterator[str]:
        one, two = read_header(left, at), read_header(right, other)
        yield from self._ids("producer", one.producer_id, two.producer_id, f"{path}.producer_id")
        differing = {"crc", "producer_id", "length", "attributes"}
        if one.attributes & KNOWN_FLAGS != two.attributes & KNOWN_FLAGS:
            yield f"{path}.attributes: {one.attributes} ≠ {two.attributes}"
        if one.attributes & LOG_APPEND_TIME_FLAG:
            differing |= {"base_timestamp", "max_timestamp"}
            if not (_is_now(one.max_timestamp) and _is_now(two.max_timestamp)):
                yield f"{path}.max_timestamp: {one.max_timestamp} and {two.max_timestamp} are not both now"
        for name in FIELDS:
            if name not in differing and getattr(one, name) != getattr(two, name):
                yield f"{path}.{name}: {getattr(one, name)} ≠ {getattr(two, name)}"
        bodies = (left[at + HEADER_BYTES : at + one.size], right[other + HEADER_BYTES : other + two.size])
        # A batch that was packed anew has other bytes in it, and the same records.
        if bodies[0] != bodies[1] and _contents(left, at) != _contents(right, other):
            yield f"{path}: other records"


def _tolerated(left: Message, right: Message) -> set[str]:
    """The fields of two structures that need not be equal; see TOLERATED."""
    if isinstance(left, PartitionProduceResponse) and isinstance(right, PartitionProduceResponse):
        codes = (left.error_code, right.error_code)
        if codes == (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD):
            return {"log_start_offset"}
        if codes[0] == ErrorCode.UNKNOWN_SERVER_ERROR and codes[1] in _BROKEN:
            return {"error_code", "log_start_offset"}
        if codes[0] in _OF_THE_REQUEST and codes[1] in _NOT_HERE:
            return {"error_code", "log_start_offset"}
    codes = (getattr(left, "error_code", 0), getattr(right, "error_code", 0))
    if isinstance(left, PartitionData) and codes[0] in _GONE and codes[1] == ErrorCode.UNKNOWN_TOPIC_ID:
        return {"error_code", "aborted_transactions"}
    if (
        isinstance(left, PartitionData)
        and isinstance(right, PartitionData)
        # Ours may not do that: its own offsets have to cover what it sends.
        and -1 < left.high_watermark < _end(left.records) <= right.high_watermark
    ):
        return {"high_watermark", "last_stable_offset"}
    if isinstance(left, MetadataResponseTopic) and codes == (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE):
        return {"error_code", "topic_id", "partitions"}
    if isinstance(left, _COMMITTED) and codes[0] in _NOT_HERE_OR_NONE and codes[1] == ErrorCode.UNKNOWN_TOPIC_ID:
        return {"error_code"}
    if isinstance(left, DescribedGroup) and left.group_state == "Dead" and codes[1] == ErrorCode.GROUP_ID_NOT_FOUND:
        return {"error_code", "authorized_operations"}
    if isinstance(left, (DescribeConfigsResourceResult, DescribeConfigsSynonym)) and left.name in _PLACES:
        return {"value"}
    return {"api_keys"} if isinstance(left, ApiVersionsResponse) else set()


def _end(records: object) -> int:
    """Behind the last of them that is whole; -1 if there is none."""
    data = _bytes(records)
    try:
        return max((read_header(data, frame.position).next_offset for frame in frames(data)), default=-1)
    except RecordsError:
        return -1


_OF_THE_REQUEST = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
_NOT_HERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_NOT_HERE_OR_NONE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_COMMITTED = (OffsetCommitResponsePartition, OffsetFetchResponsePartitions)
_BROKEN = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_GONE = (ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_PLACES = ("listeners", "log.dirs", "zookeeper.connect")


def _contents(data: bytes, at: int) -> list[Record] | bytes:
    """The records of a batch, or its bytes if they cannot be read."""
    now = bool(read_header(data, at).attributes & LOG_APPEND_TIME_FLAG)
    try:
        return [record._replace(timestamp=0) if now else record for record in read_batch(data, at)]
    except RecordsError:
        return data


def _bytes(value: object) -> bytes:
    assert isinstance(value, (bytes, bytearray, memoryview)) or value is None
    return bytes(value or b"")


def _is_now(value: object) -> bool:
    return isinstance(value, int) and abs(value - time.time() * 1000) < _NOW_MS


def _place(value: object) -> str:
    """Where something belongs among its like: numbers by size, and what consists of parts whatever their order."""
    return str(sorted(map(str, value)) if isinstance(value, list) else value or "").zfill(20)


def _words(text: object) -> list[str]:
    return sorted(re.split(r"[ (),]+", str(text)))


def _told(items: list[object]) -> str:
    return str([getattr(item, "name", None) or getattr(item, "partition_index", item) for item in items])[:300]


def _shown(outcome: object) -> str:
    return repr(outcome)[:600]
