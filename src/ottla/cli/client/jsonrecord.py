"""Records as JSON: ``consume`` writes what ``produce`` reads, and nothing is lost between them.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1700000000000, "timestamp_type": "CreateTime",
     "key": "k", "value": {"base64": "/w=="}, "headers": [{"key": "h", "value": null}]}

Bytes that are UTF-8 are a string, others an object with ``base64`` in it, and null is null. To produce, every field may be
left out; ``offset`` and ``timestamp_type`` are the broker's to say and are passed over.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from typing import Any

from ottla.cli.client.record import (
    ANY_PARTITION,
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    ClientRecord,
    Headers,
    RecordInputError,
)

JsonBytes = str | dict[str, str] | None

FIELDS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
_INT64_MAX = (1 << 63) - 1
_INT32_MAX = (1 << 31) - 1


def to_json(record: ClientRecord) -> dict[str, object]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type or None,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [{"key": name, "value": json_bytes(value)} for name, value in record.headers],
    }


def dump_line(record: ClientRecord) -> bytes:
    """One line, as ``--format jsonl`` has it."""
    return json.dumps(to_json(record), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def json_bytes(data: bytes | None) -> JsonBytes:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def parse_line(line: bytes) -> ClientRecord:
    """The record in one line of JSON."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordInputError(f"no JSON: {error}") from None
    if not isinstance(document, dict):
        raise RecordInputError('no JSON object; a record looks like {"key": "k", "value": "v"}')
    unknown = sorted(set(document) - set(FIELDS))
    if unknown:
        raise RecordInputError(f"unknown field {unknown[0]!r}; the fields are {', '.join(FIELDS)}")
    return _record(document)


def _record(document: dict[str, Any]) -> ClientRecord:
    topic = document.get("topic") or ""
    if not isinstance(topic, str):
        raise RecordInputError("topic: no string")
    kind = document.get("timestamp_type") or NO_TIMESTAMP_TYPE
    if kind not in (NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME):
        raise RecordInputError(f"timestamp_type: neither {CREATE_TIME} nor {LOG_APPEND_TIME}")
    partition = _number(document, "partition", _INT32_MAX)
    offset = _number(document, "offset", _INT64_MAX)
    return ClientRecord(
        key=_bytes(document.get("key"), "key"),
        value=_bytes(document.get("value"), "value"),
        headers=_headers(document.get("headers")),
        topic=topic,
        partition=ANY_PARTITION if partition is None else partition,
        offset=-1 if offset is None else offset,
        timestamp=_number(document, "timestamp", _INT64_MAX, -_INT64_MAX - 1),
        timestamp_type=kind,
    )


def _number(document: dict[str, Any], name: str, largest: int, smallest: int = -1) -> int | None:
    found = document.get(name)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not smallest <= found <= largest:
        raise RecordInputError(f"{name}: {found!r} is no whole number from {smallest} to {largest}")
    return found


def _headers(found: object) -> Headers:
    if found is None:
        return ()
    if not isinstance(found, list):
        raise RecordInputError('headers: no list; it looks like [{"key": "h", "value": "x"}]')
    headers = []
    for header in found:
        if not isinstance(header, dict) or not isinstance(header.get("key"), str) or set(header) - {"key", "value"}:
            raise RecordInputError('headers: a header looks like {"key": "h", "value": "x"}')
        _encode(header["key"], "headers")
        headers.append((header["key"], _bytes(header.get("value"), "headers")))
    return tuple(headers)


def _bytes(found: object, name: str) -> bytes | None:
    if found is None:
        return None
    if isinstance(found, str):
        return _encode(found, name)
    if isinstance(found, dict) and set(found) == {"base64"} and isinstance(found["base64"], str):
        try:
            return b64decode(found["base64"], validate=True)
        except (binascii.Error, ValueError):
            raise RecordInputError(f"{name}: what is in base64 is none") from None
    raise RecordInputError(f'{name}: neither a string nor null nor {{"base64": "..."}}')


def _encode(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise RecordInputError(f"{name}: half of a surrogate pair cannot be written as UTF-8") from None
