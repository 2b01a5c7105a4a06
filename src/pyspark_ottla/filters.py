"""What of a condition is pushed down: partition, offset, timestamp, topic and key, compared with constants.

Spark does not look again at what is accepted here, so only what is applied exactly is. Among typed columns those of the record begin
with an underscore; a field of the value may well be called ``timestamp``, too, and is none of our business.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ottla.scan.columns import EVERYTHING
from ottla.scan.columns import Filter as Passing
from ottla.scan.kernel import OFFSET_MAX

NEVER_NULL = ("partition", "offset", "timestamp", "topic")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def push(filters: Iterable[Filter], *, prefix: str = "") -> tuple[Passing, list[Filter]]:
    """What is applied while reading, and the filters that are left to Spark."""
    passing, left = EVERYTHING, []
    for one in filters:
        taken = _taken(one, prefix)
        if taken is None:
            left.append(one)
        else:
            passing = passing.both(taken)
    return passing, left


def _taken(one: Filter, prefix: str) -> Passing | None:
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    if len(attribute) != 1 or not attribute[0].startswith(prefix):
        return None
    name = attribute[0].removeprefix(prefix)
    if isinstance(one, IsNotNull):
        return EVERYTHING if name in NEVER_NULL else None
    value = getattr(one, "value", None)
    if name == "topic":
        return _members(one, value, str, "topics")
    if name == "key":
        return _keys(one, value)
    if name == "partition":
        return _members(one, value, int, "partitions")
    if name == "offset" and type(value) is int:
        low, high = _bounds(one, value)
        return None if low is None and high is None else Passing(first_offset=max(low or 0, 0), end_offset=_or(high))
    if name == "timestamp" and isinstance(value, datetime):
        return _times(one, value)
    return None


def _bounds(one: Filter, value: int) -> tuple[int | None, int | None]:
    """From which number on, and before which."""
    match one:
        case EqualTo():
            return value, value + 1
        case GreaterThan():
            return value + 1, None
        case GreaterThanOrEqual():
            return value, None
        case LessThan():
            return None, value
        case LessThanOrEqual():
            return None, value + 1
    return None, None


def _times(one: Filter, value: datetime) -> Passing | None:
    """Timestamps of records are whole milliseconds, those of conditions may not be."""
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    low, high = _bounds(one, (aware - _EPOCH) // _MICROSECOND)
    if low is None and high is None:
        return None
    made = EVERYTHING
    if low is not None:
        made = made.both(Passing(timestamp_from=-(-low // 1000)))
    if high is not None:
        made = made.both(Passing(timestamp_until=-(-high // 1000)))
    return made


def _members(one: Filter, value: object, kind: type, field: str) -> Passing | None:
    if isinstance(one, EqualTo) and type(value) is kind:
        return Passing(**{field: frozenset((value,))})  # type: ignore[arg-type]
    if isinstance(one, In) and isinstance(value, tuple | list) and all(type(item) is kind for item in value):
        return Passing(**{field: frozenset(value)})  # type: ignore[arg-type]
    return None


def _keys(one: Filter, value: object) -> Passing | None:
    if isinstance(one, EqualTo):
        wanted: list[object] = [value]
    elif isinstance(one, In) and isinstance(value, tuple | list):
        wanted = list(value)
    else:
        return None
    keys = [_key(item) for item in wanted]
    found = tuple(key for key in keys if key is not None)
    return Passing(keys=found) if len(found) == len(keys) else None


def _key(value: object) -> bytes | None:
    """The one key that equals a constant; where keys are shown as text, many look like a text with U+FFFD in it."""
    if isinstance(value, str):
        return None if "\ufffd" in value else value.encode()
    return bytes(value) if isinstance(value, bytes | bytearray) else None


def _or(high: int | None) -> int:
    return OFFSET_MAX if high is None else max(high, 0)
