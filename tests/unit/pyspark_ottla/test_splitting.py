from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.scan.cluster import TopicPartition
from ottla.scan.fetching import Range
from pyspark_ottla.limits import shared_out, shared_out_bytes
from pyspark_ottla.splitting import split

sizes = st.lists(st.integers(0, 50), min_size=1, max_size=6)
some = st.none() | st.integers(1, 40)


def made(given: list[int], start: int = 100) -> list[Range]:
    return [Range(TopicPartition("t", number), start, start + size) for number, size in enumerate(given)]


@given(sizes, some, some, some)
def test_parts_are_the_ranges_again_and_none_is_too_large(
    given: list[int], min_parts: int | None, max_records: int | None, max_bytes: int | None
) -> None:
    ranges = made(given)
    weights = {one.place: 2.0 for one in ranges}
    parts = split(ranges, min_parts=min_parts, max_records=max_records, max_bytes=max_bytes, record_bytes=weights)
    for one in ranges:
        mine = [part for part in parts if part.place == one.place]
        assert [offset for part in mine for offset in range(part.start, part.end)] == list(range(one.start, one.end))
    assert all(len(part) for part in parts)
    if max_records is not None:
        assert all(len(part) <= max_records for part in parts)
    if min_parts is not None:
        assert len(parts) >= min(min_parts, sum(given))


def test_large_ranges_are_cut_first() -> None:
    parts = split(made([90, 10]), min_parts=4)
    assert [len(part) for part in parts] == [30, 30, 30, 10]


@given(sizes, st.integers(1, 100))
def test_a_limit_is_shared_out_in_proportion_and_everybody_gets_on(given: list[int], limit: int) -> None:
    ranges = made(given)
    ends = shared_out(ranges, limit)
    taken = [ends[one.place] - one.start for one in ranges]
    assert all(0 <= took <= len(one) and (took > 0 or not len(one)) for took, one in zip(taken, ranges, strict=True))
    assert sum(taken) <= limit + sum(1 for one in ranges if len(one))
    if sum(given) <= limit:
        assert taken == given
    assert shared_out_bytes(ranges, limit * 7, {one.place: 7.0 for one in ranges}) == ends
