from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.client.times import format_instant, parse_duration, parse_instant

DAY = 1_709_164_800_000  # 2024-02-29


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("1700000000", 1_700_000_000_000),
        ("999999999", 999_999_999_000),
        ("2024-02-29", DAY),
        ("2024-02-29T12:30:00Z", DAY + 45_000_000),
        ("2024-02-29T12:30:00", DAY + 45_000_000),
        ("2024-02-29t12:30:00z", DAY + 45_000_000),
        ("2024-02-29T12:30:00.25Z", DAY + 45_000_250),
        ("2024-02-29T12:30:00.123456789Z", DAY + 45_000_123),
        ("2024-02-29T12:30:00+02:00", DAY + 45_000_000 - 7_200_000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_instants(text: str, ms: int) -> None:
    assert parse_instant(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "12345678901",
        "2023-02-29",
        "2024-2-9",
        "2024-02-29T12",
        "2024-02-29T25:00:00Z",
        "now",
        "\u0661" * 10,
        "-1h",
    ],
)
def test_what_is_no_instant(text: str) -> None:
    assert parse_instant(text) is None


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1h", 3_600_000),
        ("1h30m", 5_400_000),
        ("-1.5h", -5_400_000),
        ("+2s", 2000),
        ("250ms", 250),
        ("7d", 604_800_000),
        ("1500us", 1),
        ("1m1ms", 60_001),
        ("0.1s", 100),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "-", "1", "h", "1 h", "1h-30m", "1.h", "1y", "1e3s"])
def test_what_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


@given(st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999))
def test_an_instant_is_read_as_it_was_written(ms: int) -> None:
    assert parse_instant(format_instant(ms)) == ms


def test_an_instant_beyond_the_calendar_is_its_number() -> None:
    assert format_instant(1 << 62) == str(1 << 62)


@given(st.text())
def test_nothing_else_is_raised(text: str) -> None:
    parse_instant(text)
    parse_duration(text)
