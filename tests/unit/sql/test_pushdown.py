"""What is said about where records lie is never narrower than the filter itself."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from ottla.scan.columns import TIMESTAMP, Filter
from ottla.sql.pushdown import implied, references

SCHEMA = pa.schema(
    [("_partition", pa.int32()), ("page", pa.string()), ("_offset", pa.int64()), ("_timestamp", TIMESTAMP)]
)
NOON_MS = 1_704_110_400_000
comparisons = st.builds(
    lambda column, compare, number: compare(pc.field(column), number),
    st.sampled_from(["_partition", "_offset"]),
    st.sampled_from([pc.equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal, pc.not_equal]),
    st.integers(0, 9),
) | st.builds(
    lambda compare, ms: compare(pc.field("_timestamp"), pa.scalar(ms * 1000, TIMESTAMP)),
    st.sampled_from([pc.equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal]),
    st.integers(NOON_MS, NOON_MS + 9),
)
expressions = st.recursive(
    comparisons,
    lambda inner: st.builds(lambda a, b: a & b, inner, inner) | st.builds(lambda a, b: a | b, inner, inner),
    max_leaves=5,
)
rows = pa.table(
    [
        pa.array([partition for partition in range(4) for _ in range(10)], pa.int32()),
        pa.array(["x"] * 40),
        pa.array([offset for _ in range(4) for offset in range(10)], pa.int64()),
        pa.array([(NOON_MS + (7 * offset) % 10) * 1000 for _ in range(4) for offset in range(10)], TIMESTAMP),
    ],
    schema=SCHEMA,
)


def found(expression: pc.Expression) -> Filter:
    return implied(expression, SCHEMA, range(4), [10] * 4)


def passes(row: dict[str, object], passing: Filter) -> bool:
    offset, moment, partition = row["_offset"], row["_timestamp"], row["_partition"]
    assert isinstance(offset, int)
    assert isinstance(moment, datetime)
    assert isinstance(partition, int)
    return (
        passing.wants("", partition)
        and passing.first_offset <= offset < passing.end_offset
        and passing.timestamp_from <= moment.timestamp() * 1000 < passing.timestamp_until
    )


@given(expressions)
def test_whatever_the_expression_lets_pass_passes(expression: pc.Expression) -> None:
    passing = found(expression)
    assert all(passes(row, passing) for row in rows.filter(expression).to_pylist())


def test_bounds_are_found_where_there_are_any() -> None:
    noon = pa.scalar(datetime(2024, 1, 1, 12, tzinfo=UTC), TIMESTAMP)
    offset, partition, timestamp = pc.field("_offset"), pc.field("_partition"), pc.field("_timestamp")
    passing = found(
        (offset >= 3) & (offset < 7) & partition.isin([1, 3, 9]) & (timestamp >= noon) & (pc.field("page") == "x")
    )
    assert (passing.first_offset, passing.end_offset, passing.partitions) == (3, 7, frozenset((1, 3)))
    assert passing.timestamp_from == NOON_MS
    assert found(pc.field("page") == "x") == Filter(partitions=frozenset(range(4)))
    assert found((offset < 0) & (pc.field("page") == "x")).is_empty or found(offset < 0).end_offset <= 1
    # A text that looks like part of an expression is none.
    assert found(pc.field("page") == 'a") and (_offset > 5').first_offset == 0


def test_the_columns_that_an_expression_needs_are_known() -> None:
    assert references((pc.field("page") == "_offset") & (pc.field("_partition") == 1), SCHEMA) == ["_partition", "page"]
