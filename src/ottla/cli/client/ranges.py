"""From where to where a partition is read: the grammar of ``consume -o``, and what it means on a partition.

    start            from the beginning                  end         from the end on, which is what comes later
    +n               n behind the beginning              -n          n before the end
    n                from offset n                       FROM:       the same as FROM
    FROM:TO          TO as FROM; TO itself is not read   :TO         from the beginning
    @T               from the first record of time T on  @T1:T2      until the first record of time T2
    @:T2             from the beginning until T2         @T1:end     until where the partition ends now

``T`` is an instant (``times``), or a duration before now: ``-1h``. ``T2`` may also be a duration behind ``T1``: ``2h``.
``start`` and ``end`` are those at the time of the command. A range without TO goes on with what is appended later.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from ottla.cli.client.times import parse_duration, parse_instant

OFFSET_MAX = (1 << 63) - 1


class RangeError(ValueError):
    """Text that is no range; the message says which part."""


class Kind(Enum):
    OFFSET = auto()
    AFTER_START = auto()
    BEFORE_END = auto()
    TIME = auto()


class Bound(NamedTuple):
    kind: Kind
    value: int


START = Bound(Kind.AFTER_START, 0)
END = Bound(Kind.BEFORE_END, 0)


class Range(NamedTuple):
    start: Bound
    stop: Bound | None = None

    @property
    def times(self) -> list[int]:
        """The instants whose offsets have to be asked for before ``resolve``."""
        return [bound.value for bound in (self.start, self.stop) if bound is not None and bound.kind is Kind.TIME]

    @property
    def is_backward(self) -> bool:
        """Whether it can be seen without looking at any partition that it ends before it begins."""
        if self.stop is None or self.stop.kind is not self.start.kind:
            return False
        ahead = self.stop.value - self.start.value
        return ahead > 0 if self.start.kind is Kind.BEFORE_END else ahead < 0


class Span(NamedTuple):
    """A range on one partition: from ``start``, before ``stop``, and before the first record of ``until_ms``."""

    start: int
    stop: int | None = None
    until_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        return self.stop is not None and self.start >= self.stop


def parse_range(text: str, *, now_ms: int) -> Range:
    if text.startswith("@"):
        found = _parse_times(text[1:], now_ms)
    else:
        first, colon, second = text.partition(":")
        start = _bound(first) if first else START if colon else _refuse(text)
        found = Range(start, _bound(second) if second else None)
    if found.is_backward:
        raise RangeError(f"{text!r} is no range: it ends before it begins")
    return found


def resolve(wanted: Range, *, low: int, high: int, offsets: Mapping[int, int | None], now_ms: int) -> Span:
    """What ``wanted`` is on a partition from ``low`` to ``high``; ``offsets`` holds the first offset of each of its times."""
    start = _place(wanted.start, low, high, offsets)
    if wanted.stop is None:
        return Span(max(start, low))
    stop = wanted.stop
    if stop.kind is Kind.TIME and offsets[stop.value] is None and stop.value > now_ms:
        return Span(max(start, low), until_ms=stop.value)
    return Span(max(start, low), _place(stop, low, high, offsets))


def _place(bound: Bound, low: int, high: int, offsets: Mapping[int, int | None]) -> int:
    match bound.kind:
        case Kind.OFFSET:
            return bound.value
        case Kind.AFTER_START:
            return min(low + bound.value, OFFSET_MAX)
        case Kind.BEFORE_END:
            return max(high - bound.value, low)
        case Kind.TIME:
            found = offsets[bound.value]
            return high if found is None else found


def _bound(text: str) -> Bound:
    if text == "start":
        return START
    if text == "end":
        return END
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) <= OFFSET_MAX):
        _refuse(text)
    return Bound({"": Kind.OFFSET, "+": Kind.AFTER_START, "-": Kind.BEFORE_END}[sign], int(digits))


def _parse_times(text: str, now_ms: int) -> Range:
    whole = _instant(text, now_ms)
    if whole is not None:
        return Range(Bound(Kind.TIME, whole))
    # An instant may have colons in it, so each of them may be the one that separates.
    for at, character in enumerate(text):
        if character == ":":
            found = _split_times(text[:at], text[at + 1 :], now_ms)
            if found is not None:
                return found
    return _refuse_time(text)


def _split_times(first: str, second: str, now_ms: int) -> Range | None:
    begin = _instant(first, now_ms)
    if begin is None and first:
        return None
    start = START if begin is None else Bound(Kind.TIME, begin)
    if not second:
        return Range(start) if first else None
    if second == "end":
        return Range(start, END)
    stop = _instant(second, now_ms)
    if stop is None and begin is not None and (length := parse_duration(second)) is not None:
        stop = begin + length
    return None if stop is None else Range(start, Bound(Kind.TIME, stop))


def _instant(text: str, now_ms: int) -> int | None:
    """An absolute instant, or one that lies a duration before now."""
    if text.startswith("-") and (length := parse_duration(text)) is not None:
        return max(now_ms + length, 0)
    return parse_instant(text)


def _refuse(text: str) -> Bound:
    raise RangeError(f"{text!r} is no offset: give start, end, +n, -n or n, and FROM:TO for a range")


def _refuse_time(text: str) -> Range:
    raise RangeError(
        f"{text!r} is no time: give milliseconds, 2024-02-29, 2024-02-29T12:00:00Z or a duration like -1h, and @T1:T2 for a range"
    )
