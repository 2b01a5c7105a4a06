"""What sources hand in, as values and as bytes.

A batch is what is taken or refused as a whole: records of one source with what they have in common, and how far into its files
the source has come with them. As bytes:

    u32 length of the description, then it, as JSON: topic, received_ms, headers, positions
    for each record:  i32 length of the key (-1: none)  u32 length of the value  u16 number of headers  key  value
                      for each header:  u16 length of the name  u32 length of the value  name  value
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from struct import Struct
from types import MappingProxyType
from typing import Any, NamedTuple

from ottla.base.errors import CorruptionError

Headers = tuple[tuple[str, bytes], ...]
Positions = Mapping[str, "Mapping[str, object] | None"]
"""How far each file was read, by its identity; None where that need not be known any more."""

_DESCRIPTION = Struct(">I")
_RECORD = Struct(">iIH")
_HEADER = Struct(">HI")


class Record(NamedTuple):
    value: bytes
    key: bytes | None = None
    headers: Headers = ()


class Batch(NamedTuple):
    topic: str
    received_ms: int
    headers: Headers
    """Of every record."""
    records: Sequence[Record]
    positions: Positions = MappingProxyType({})


def encode(batch: Batch) -> bytes:
    description = json.dumps(
        {
            "topic": batch.topic,
            "received_ms": batch.received_ms,
            "headers": [(name, value.decode(errors="surrogateescape")) for name, value in batch.headers],
            "positions": dict(batch.positions),
        }
    ).encode()
    parts = [_DESCRIPTION.pack(len(description)), description]
    for value, key, headers in batch.records:
        parts.append(_RECORD.pack(-1 if key is None else len(key), len(value), len(headers)))
        parts.append(key or b"")
        parts.append(value)
        for name, content in headers:
            encoded = name.encode()
            parts += (_HEADER.pack(len(encoded), len(content)), encoded, content)
    return b"".join(parts)


def decode(data: bytes) -> Batch:
    try:
        description, at = _describe(data)
        headers = tuple((name, value.encode(errors="surrogateescape")) for name, value in description["headers"])
        records = []
        while at < len(data):
            record, at = _record(data, at)
            records.append(record)
        return Batch(description["topic"], description["received_ms"], headers, records, description["positions"])
    except (struct.error, ValueError, KeyError) as error:
        raise CorruptionError(f"not a batch of records: {error}") from None


def positions_of(data: bytes) -> Positions:
    """Without the records, which may be many."""
    try:
        positions: Positions = _describe(data)[0]["positions"]
    except (struct.error, ValueError, KeyError) as error:
        raise CorruptionError(f"not a batch of records: {error}") from None
    return positions


def _describe(data: bytes) -> tuple[dict[str, Any], int]:
    (size,) = _DESCRIPTION.unpack_from(data)
    at = _DESCRIPTION.size + size
    return json.loads(data[_DESCRIPTION.size : at]), at


def _record(data: bytes, at: int) -> tuple[Record, int]:
    key_size, value_size, count = _RECORD.unpack_from(data, at)
    at += _RECORD.size
    key = None
    if key_size >= 0:
        key, at = _take(data, at, key_size)
    value, at = _take(data, at, value_size)
    headers = []
    for _ in range(count):
        name_size, content_size = _HEADER.unpack_from(data, at)
        name, at = _take(data, at + _HEADER.size, name_size)
        content, at = _take(data, at, content_size)
        headers.append((name.decode(), content))
    return Record(value, key, tuple(headers)), at


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise ValueError(f"{size} bytes at {at}, of {len(data)}")
    return data[at : at + size], at + size
