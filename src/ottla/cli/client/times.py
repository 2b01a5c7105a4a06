"""Instants and durations as people write them.

1700000000000               13 digits: milliseconds since 1970
1700000000                  9 or 10 digits: seconds
2024-02-29                  a day, UTC
2024-02-29T12:30:00.5Z      RFC 3339; without an offset it is UTC
1h30m, 1.5h, 250ms, 7d      a duration: d, h, m, s, ms, us, ns
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})?)?", re.ASCII)
_UNITS_MS = {
    "d": Fraction(86_400_000),
    "h": Fraction(3_600_000),
    "m": Fraction(60_000),
    "s": Fraction(1000),
    "ms": Fraction(1),
    "us": Fraction(1, 1000),
    "µs": Fraction(1, 1000),
    "ns": Fraction(1, 1_000_000),
}
_PART = r"(\d{1,18}(?:\.\d{1,18})?)(ms|us|µs|ns|d|h|m|s)"
_PARTS = re.compile(_PART, re.ASCII)
_DURATION = re.compile(rf"([+-]?)((?:{_PART})+)", re.ASCII)


def parse_instant(text: str) -> int | None:
    """Milliseconds since 1970; None if this is no instant."""
    if text.isascii() and text.isdigit():
        if len(text) == 13:
            return int(text)
        return int(text) * 1000 if len(text) in (9, 10) else None
    if not _DATE.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(_python_accepts(text))
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND


def parse_duration(text: str) -> int | None:
    """Milliseconds, of either sign; None if this is no duration."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    total = sum((Fraction(number) * _UNITS_MS[unit] for number, unit in _PARTS.findall(match[2])), Fraction(0))
    return -int(total) if match[1] == "-" else int(total)


def format_instant(timestamp_ms: int) -> str:
    """RFC 3339 in UTC; the bare number where no calendar reaches."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _python_accepts(text: str) -> str:
    """Six digits behind the point at most: what is finer than a microsecond is cut off."""
    return re.sub(r"(\.\d{6})\d+", r"\1", text.upper())
