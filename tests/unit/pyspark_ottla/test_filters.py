from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, IsNotNull, Not

from ottla.scan.columns import EVERYTHING
from ottla.scan.columns import Filter as Passing
from pyspark_ottla.filters import push

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def test_what_is_applied_exactly_is_taken_and_the_rest_is_left() -> None:
    taken: list[Filter] = [
        IsNotNull(("offset",)),
        GreaterThan(("offset",), 5),
        In(("partition",), (0, 2)),
        EqualTo(("key",), b"k"),
        EqualTo(("timestamp",), NOON),
    ]
    left: list[Filter] = [
        IsNotNull(("key",)),
        Not(EqualTo(("partition",), 1)),
        EqualTo(("value",), b"v"),
        EqualTo(("offset", "inner"), 5),
    ]
    passing, rest = push([*left, *taken])
    milliseconds = int(NOON.timestamp() * 1000)
    assert passing == Passing(
        first_offset=6,
        partitions=frozenset((0, 2)),
        keys=(b"k",),
        timestamp_from=milliseconds,
        timestamp_until=milliseconds + 1,
    )
    assert rest == left


def test_a_field_of_the_value_is_not_taken_for_the_records_own() -> None:
    fields: list[Filter] = [GreaterThan(("offset",), 5), EqualTo(("timestamp",), NOON), EqualTo(("key",), "k")]
    assert push(fields, prefix="_") == (EVERYTHING, fields)
    assert push([GreaterThan(("_offset",), 5)], prefix="_") == (Passing(first_offset=6), [])


def test_keys_that_are_shown_as_text_are_compared_as_such() -> None:
    assert push([In(("_key",), ("é", "b"))], prefix="_") == (Passing(keys=("é".encode(), b"b")), [])
    unclear: list[Filter] = [EqualTo(("_key",), "a\ufffd")]
    assert push(unclear, prefix="_") == (EVERYTHING, unclear)
