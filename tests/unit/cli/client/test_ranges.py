from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.client.ranges import END, START, Bound, Kind, Range, RangeError, Span, parse_range, resolve

NOW = 1_700_000_000_000
HOUR = 3_600_000


def at(ms: int) -> Bound:
    return Bound(Kind.TIME, ms)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("start", Range(START)),
        ("end", Range(END)),
        (":end", Range(START, END)),
        ("start:end", Range(START, END)),
        ("+5", Range(Bound(Kind.AFTER_START, 5))),
        ("-5", Range(Bound(Kind.BEFORE_END, 5))),
        ("-5:end", Range(Bound(Kind.BEFORE_END, 5), END)),
        ("7", Range(Bound(Kind.OFFSET, 7))),
        ("7:", Range(Bound(Kind.OFFSET, 7))),
        (":7", Range(START, Bound(Kind.OFFSET, 7))),
        ("7:7", Range(Bound(Kind.OFFSET, 7), Bound(Kind.OFFSET, 7))),
        ("7:9", Range(Bound(Kind.OFFSET, 7), Bound(Kind.OFFSET, 9))),
        (":", Range(START)),
        ("@1600000000000", Range(at(1_600_000_000_000))),
        ("@1600000000", Range(at(1_600_000_000_000))),
        ("@1600000000:", Range(at(1_600_000_000_000))),
        ("@1600000000:1600000001", Range(at(1_600_000_000_000), at(1_600_000_001_000))),
        ("@:1600000000", Range(START, at(1_600_000_000_000))),
        ("@-1h", Range(at(NOW - HOUR))),
        ("@-1h:end", Range(at(NOW - HOUR), END)),
        ("@-2h:-1h", Range(at(NOW - 2 * HOUR), at(NOW - HOUR))),
        ("@-2h:30m", Range(at(NOW - 2 * HOUR), at(NOW - HOUR * 3 // 2))),
        ("@2020-09-13:1d", Range(at(1_599_955_200_000), at(1_600_041_600_000))),
        ("@2020-09-13T12:26:40Z", Range(at(1_600_000_000_000))),
        ("@2020-09-13T12:26:40Z:end", Range(at(1_600_000_000_000), END)),
        ("@2020-09-13T12:26:40Z:2020-09-13T12:26:41Z", Range(at(1_600_000_000_000), at(1_600_000_001_000))),
        ("@2020-09-13T14:26:40+02:00:1s", Range(at(1_600_000_000_000), at(1_600_000_001_000))),
    ],
)
def test_the_grammar(text: str, wanted: Range) -> None:
    assert parse_range(text, now_ms=NOW) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.5", "+", "-", "--1", "1:2:3", "end:x", "9" * 20, "@", "@:", "@1h", "@x:end", "@end", "@:1h", "\u0661"],
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(RangeError, match="is no"):
        parse_range(text, now_ms=NOW)


@pytest.mark.parametrize("text", ["5:2", "+5:+2", "-2:-5", "end:-1", "@1600000001:1600000000", "@-1h:-2h"])
def test_a_range_that_ends_before_it_begins_is_none(text: str) -> None:
    with pytest.raises(RangeError, match="it ends before it begins"):
        parse_range(text, now_ms=NOW)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("start", Span(10)),
        ("end", Span(20)),
        (":end", Span(10, 20)),
        ("+3", Span(13)),
        ("+30:end", Span(40, 20)),
        ("-3:end", Span(17, 20)),
        ("-99:end", Span(10, 20)),
        ("12:15", Span(12, 15)),
        ("5", Span(10)),
        ("99", Span(99)),
        (":-4", Span(10, 16)),
        ("@1600000000", Span(14)),
        ("@1600000000:end", Span(14, 20)),
        ("@1600000000:1600000001", Span(14, 20)),
        ("@1600000001", Span(20)),
        ("@:1600000000", Span(10, 14)),
        ("@1600000000:1800000000", Span(14, None, 1_800_000_000_000)),
    ],
)
def test_on_a_partition_from_10_to_20(text: str, span: Span) -> None:
    offsets = {1_600_000_000_000: 14, 1_600_000_001_000: None, 1_800_000_000_000: None}
    assert resolve(parse_range(text, now_ms=NOW), low=10, high=20, offsets=offsets, now_ms=NOW) == span


def test_a_span_is_empty_when_it_stops_where_it_starts() -> None:
    assert Span(20, 20).is_empty
    assert Span(21, 20).is_empty
    assert not Span(19, 20).is_empty
    assert not Span(20).is_empty


@given(st.text(alphabet="0123456789:@+-startendThmsZ."))
def test_any_text_is_a_range_or_refused(text: str) -> None:
    with suppress(RangeError):
        parse_range(text, now_ms=NOW)


@given(
    st.sampled_from([START, END, Bound(Kind.OFFSET, 15), Bound(Kind.AFTER_START, 4), Bound(Kind.BEFORE_END, 4)]),
    st.sampled_from([None, END, Bound(Kind.OFFSET, 15), Bound(Kind.BEFORE_END, 2)]),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_a_span_never_starts_before_the_partition(start: Bound, stop: Bound | None, low: int, length: int) -> None:
    span = resolve(Range(start, stop), low=low, high=low + length, offsets={}, now_ms=NOW)
    assert span.start >= low
    assert (span.stop is None) == (stop is None)
