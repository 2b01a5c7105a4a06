"""Columns of records as Arrow arrays: which there are, and how they are made of what the kernel has noted.

The raw columns are those of Spark's Kafka connector, by its names and types. A decoder of typed values (``formats``) puts
its own beside them, which is why every raw column also has a name with an underscore.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from ottla.scan.kernel import OFFSET_MAX, TIMESTAMP_MAX, TIMESTAMP_MIN, Collector, Spans

T = TypeVar("T")

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

RAW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
"""Every raw column, in the order of Spark's connector."""

CONSTANT = frozenset(("topic", "partition"))
"""Known without a look at a record."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What records have to be like. Everything here is decided before a record is decoded, and most before it is read."""

    first_offset: int = 0
    end_offset: int = OFFSET_MAX
    timestamp_from: int = TIMESTAMP_MIN
    """In milliseconds."""
    timestamp_until: int = TIMESTAMP_MAX
    """The first millisecond that is too late."""
    keys: tuple[bytes, ...] | None = None
    partitions: frozenset[int] | None = None
    topics: frozenset[str] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no record can pass."""
        return (
            self.first_offset >= self.end_offset
            or self.timestamp_from >= self.timestamp_until
            or self.keys == ()
            or self.partitions == frozenset()
            or self.topics == frozenset()
        )

    @property
    def is_of_places(self) -> bool:
        """Whether no record has to be looked at: topic, partition and offset decide."""
        return (self.timestamp_from, self.timestamp_until, self.keys) == (TIMESTAMP_MIN, TIMESTAMP_MAX, None)

    def wants(self, topic: str, partition: int) -> bool:
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def both(self, other: Filter) -> Filter:
        """What passes this and the other."""
        return Filter(
            max(self.first_offset, other.first_offset),
            min(self.end_offset, other.end_offset),
            max(self.timestamp_from, other.timestamp_from),
            min(self.timestamp_until, other.timestamp_until),
            _common(self.keys, other.keys),
            _intersection(self.partitions, other.partitions),
            _intersection(self.topics, other.topics),
        )


EVERYTHING = Filter()


@dataclass(slots=True)
class Columns:
    """The raw columns that are wanted, gathered record by record and made into arrays at once."""

    names: frozenset[str]
    passing: Filter = EVERYTHING
    collector: Collector = field(init=False)
    _types: list[tuple[int, int]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        passing = self.passing
        self.collector = Collector(
            keys="key" in self.names,
            values="value" in self.names,
            headers="headers" in self.names,
            offsets="offset" in self.names,
            timestamps="timestamp" in self.names,
            first_offset=passing.first_offset,
            end_offset=passing.end_offset,
            timestamp_from=passing.timestamp_from,
            timestamp_until=passing.timestamp_until,
            only_keys=None if passing.keys is None else list(passing.keys),
        )

    def note_type(self, timestamp_type: int) -> None:
        """All records since the last note have this type of timestamp."""
        if "timestampType" in self.names:
            known = sum(count for _, count in self._types)
            self._types.append((timestamp_type, self.collector.count - known))

    def arrays(self, data: bytes, topic: str, partition: int) -> dict[str, pa.Array]:
        """The columns by name; ``data`` is what the kernel was given."""
        found = self.collector
        count = found.count
        made: dict[str, pa.Array] = {}
        if found.keys is not None:
            made["key"] = gathered(found.keys, data)
        if found.values is not None:
            made["value"] = gathered(found.values, data)
        made |= constants(self.names, topic, partition, count)
        if "offset" in self.names:
            made["offset"] = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(found.offsets())])
        if "timestamp" in self.names:
            made["timestamp"] = pa.Array.from_buffers(TIMESTAMP, count, [None, pa.py_buffer(found.timestamps())])
        if "timestampType" in self.names:
            made["timestampType"] = _types(self._types)
        if found.header_keys is not None:
            assert found.header_values is not None
            made["headers"] = _headers(found, found.header_keys, found.header_values, data)
        return made


def constants(names: frozenset[str], topic: str, partition: int, count: int) -> dict[str, pa.Array]:
    """The columns that are the same in all records of a partition, as far as they are wanted."""
    made: dict[str, pa.Array] = {}
    if "topic" in names:
        text = topic.encode()
        bounds = pa.py_buffer(array("i", (0, len(text))))
        one = pa.Array.from_buffers(pa.string(), 1, [None, bounds, pa.py_buffer(text)])
        made["topic"] = one.take(_integers(bytes(4 * count)))
    if "partition" in names:
        made["partition"] = _integers(array("i", (partition,)) * count)
    return made


def gathered(spans: Spans, data: bytes) -> pa.Array:
    """The bytes of all spans, one behind the other."""
    count = spans.count
    marks = pa.py_buffer(spans.marks())
    buffers = [marks, pa.py_buffer(spans.bounds()), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), 2 * count, buffers).take(_every_second(count))


def batch_of(schema: pa.Schema, arrays: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """A batch of ``count`` rows, which is as many also where there are no columns."""
    if not schema.names:
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def select(names: Iterable[str]) -> pa.Schema:
    """The raw columns of these names, in the order given."""
    return pa.schema([RAW.field(name) for name in names])


def _every_second(count: int) -> pa.Array:
    """1, 3, 5, ...: kept, as every batch needs them."""
    if len(_indices) < count:
        size = max(count, 2 * len(_indices), 1 << 14)
        # Made anew rather than grown: arrays that were handed out still refer to the old ones.
        _indices.kept = _integers(array("i", range(1, 2 * size, 2)))
    return _indices.kept[:count]


class _Indices:
    def __init__(self) -> None:
        self.kept = _integers(b"")

    def __len__(self) -> int:
        return len(self.kept)


def _types(runs: Sequence[tuple[int, int]]) -> pa.Array:
    parts = [_integers(array("i", (kind,)) * count) for kind, count in runs]
    return pa.concat_arrays(parts) if parts else _integers(b"")


def _integers(content: bytes | array[int]) -> pa.Array:
    """Of 32 bits, as they are. ``pa.array`` and ``pa.scalar`` load pandas wherever it is installed, which takes longer than many a read."""
    return pa.Array.from_buffers(pa.int32(), memoryview(content).nbytes // 4, [None, pa.py_buffer(content)])


def _headers(found: Collector, keys: Spans, values: Spans, data: bytes) -> pa.Array:
    # What is no text stays visible as such: a header's key is text by Kafka's rules, but nobody checks.
    names = pa.array([_text(name) for name in gathered(keys, data).to_pylist()], pa.string())
    pairs = pa.StructArray.from_arrays([names, gathered(values, data)], fields=list(HEADERS.value_type))
    ends, marks = pa.py_buffer(found.header_ends()), pa.py_buffer(found.header_marks())
    return pa.Array.from_buffers(HEADERS, found.count, [marks, ends], children=[pairs])


def _text(name: bytes | None) -> str:
    return (name or b"").decode("utf-8", "replace")


def _common(one: tuple[bytes, ...] | None, other: tuple[bytes, ...] | None) -> tuple[bytes, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(key for key in one if key in other)


def _intersection(one: frozenset[T] | None, other: frozenset[T] | None) -> frozenset[T] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


_indices = _Indices()
