"""Types of JSON fields, from samples.

Each field gets the type that most of its samples have: integers and floating-point numbers together are the latter, texts
that all look like instants are timestamps, and a field that is always null is text. Records that do not fit are malformed to
the reader and found in ``_corrupt``, so the majority has to decide, not the exception.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ottla.scan.columns import TIMESTAMP

_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?", re.ASCII)
_INT64 = 1 << 63
_DEPTH_MAX = 32


class _Seen:
    """What a field was found to be, with what is within."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.fields: dict[str, _Seen] = {}
        self.items: _Seen | None = None

    def add(self, value: Any, depth: int = 0) -> None:
        kind = _kind(value)
        if depth > _DEPTH_MAX:
            return
        self.kinds[kind] += 1
        if kind == "object":
            for name, content in value.items():
                seen = self.fields.get(name)
                if seen is None:
                    seen = self.fields[name] = _Seen()
                seen.add(content, depth + 1)
        elif kind == "array":
            self.items = self.items or _Seen()
            for item in value:
                self.items.add(item, depth + 1)

    def type(self) -> pa.DataType:
        kinds = Counter(self.kinds)
        del kinds["null"]
        if kinds["float"] and kinds["integer"]:
            kinds["float"] += kinds.pop("integer")
        if kinds["text"] and kinds["instant"]:
            kinds["text"] += kinds.pop("instant")
        kind = kinds.most_common(1)[0][0] if kinds.total() else "text"
        if kind == "object":
            # pyarrow reads no struct without fields.
            fields = [pa.field(name, seen.type()) for name, seen in self.fields.items()]
            return pa.struct(fields) if fields else pa.struct([("_", pa.string())])
        if kind == "array":
            return pa.list_(self.items.type() if self.items else pa.string())
        return _TYPES[kind]


def infer(values: Iterable[bytes | None]) -> pa.Schema | None:
    """The fields of the objects among ``values``; None if most of them are no objects."""
    seen, others, objects = _Seen(), 0, 0
    for value in values:
        if value is None:
            continue
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            seen.add(found)
            objects += 1
        else:
            others += 1
    if objects <= others:
        return None
    return pa.schema([(name, field.type()) for name, field in seen.fields.items()])


_TYPES = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "instant": TIMESTAMP,
}


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer" if -_INT64 <= value < _INT64 else "float"
        case float():
            return "float"
        case str():
            return "instant" if _INSTANT.fullmatch(value) else "text"
        case list():
            return "array"
        case _:
            return "object"
